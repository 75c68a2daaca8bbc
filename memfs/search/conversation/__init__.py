"""Re-rank memories that come from conversations, using the messages around them."""
