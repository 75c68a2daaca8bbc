"""Maintain a vault: links and their graph, audits, pruning, statistics and evaluation."""
