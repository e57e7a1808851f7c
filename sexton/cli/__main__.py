"""`python -m sexton.cli` is `sexton`."""

from sexton.cli import main

main()
