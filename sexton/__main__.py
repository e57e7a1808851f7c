"""`python -m sexton` is `sexton`."""

from sexton.interfaces.cli.main import main

main()
