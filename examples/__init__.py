"""Programs that use the library, each run by the tests at a small size."""
