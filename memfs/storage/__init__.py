"""Memory files and the .memfs directory, read and written under locks. Knows no index."""
