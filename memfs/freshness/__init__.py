"""Keep the index equal to the files: detect changes by inotify, watchdog, journal or scan."""
