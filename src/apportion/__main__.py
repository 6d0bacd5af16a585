"""``python -m apportion``: the command line for when the script is not on the path."""

import sys

from apportion.cli import main

if __name__ == "__main__":
    sys.exit(main())
