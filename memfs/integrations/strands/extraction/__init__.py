"""Extraction under the names of `strands.memory.extraction`."""
