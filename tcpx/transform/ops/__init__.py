"""One transform per file; importing a file registers it."""
