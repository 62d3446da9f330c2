"""Measurements against peers and against the machine's limits: `python -m benchmarks`."""
