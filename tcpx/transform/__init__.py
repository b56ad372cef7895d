"""The schedule language and its transforms."""
