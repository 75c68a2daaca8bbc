"""Benchmarks of memfs, each operation compared with a baseline: `python -m benchmarks --size small|10k|100k`."""
