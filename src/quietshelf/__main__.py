"""``python -m quietshelf``."""

from quietshelf.cli import main

main()
