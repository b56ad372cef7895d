"""One transform per file; importing the file registers it."""
