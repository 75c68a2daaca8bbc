"""Stores that an agent manager searches and writes: the protocol and its implementations."""
