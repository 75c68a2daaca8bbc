"""Tests of the guarantees under kill -9, editors, git, full disks and power cuts.

Each guarantee is one function with a scale. The small scale runs with every test; the full scale is marked
`torture`, is run by `make torture` and prints its figures as `guarantee | figure`.
"""
