"""Values kept under keys, in six backends: the MemoryStore of the advanced-memory guide."""
