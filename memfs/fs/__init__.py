"""The file system: files, locks and system calls. No path below the root of a vault is opened through a symlink."""
