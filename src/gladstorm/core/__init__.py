"""What everything stands on: rules, parts, files, provenance, progress, statistics."""
