"""Readers of the files of other systems, as payloads. They import `payload` alone."""
