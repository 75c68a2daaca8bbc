"""Speed of memfs beside the floor of each thing it does: `python -m benchmarks --size small|10k|100k`."""
