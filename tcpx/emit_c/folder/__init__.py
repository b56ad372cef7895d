"""A kernel as a folder of files: a C library that builds by itself, and what it takes to load it again."""
