"""Queue the turns of a conversation on disk until their facts are in the stores."""
