"""Emission: planned buffer-level payload to C, C to a shared library, the library to a Python callable."""
