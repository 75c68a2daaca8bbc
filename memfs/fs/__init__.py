"""The file system: files, locks and system calls. Paths are opened without following symlinks."""
