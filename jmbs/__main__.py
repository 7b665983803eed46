"""`python -m jmbs` is the command `jmbs`."""

import sys

from jmbs.cli import main

if __name__ == "__main__":
    sys.exit(main())
