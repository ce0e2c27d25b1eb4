"""Foundations of all packages: parts and their rules, texts, constants, statistics, references."""
