"""Measured workloads: `python -m benchmarks.run`."""
