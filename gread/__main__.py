"""``python -m gread`` is the ``gread`` command."""

from gread.cli import main

main()
