"""A search question: its terms, filters and scoring functions. Pure."""
