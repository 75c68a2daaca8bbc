"""Run the command line: `python -m memfs`."""

import sys

from memfs.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
