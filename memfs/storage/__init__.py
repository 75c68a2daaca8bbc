"""Memory files and the .memfs directory, read and written under locks. Does not know the index."""
