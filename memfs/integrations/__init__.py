"""Adapters to agent frameworks: one package per framework, each the only importer of it."""
