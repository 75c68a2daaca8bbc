"""Promises under kill -9, editors, git, full disks and power cuts.

Each promise is one function with a scale. The small scale runs with every test; the full one is marked
`torture`, runs by `make torture` and prints its figures as `promise | figure`.
"""
