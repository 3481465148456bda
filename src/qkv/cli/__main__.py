"""`python -m qkv.cli` is `qkv`."""

import sys

from qkv.cli import main

if __name__ == "__main__":
    sys.exit(main())
