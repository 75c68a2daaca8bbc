"""The file system: files, locks and system calls. Never follows a symlink."""
