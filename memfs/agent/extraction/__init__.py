"""Extract facts from conversation turns with a language model."""
