"""Long work: files written whole, stores, tasks, progress and provenance."""
