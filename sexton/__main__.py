"""`python -m sexton` is `sexton`."""

import sys

try:
    from sexton.interfaces.cli.main import main
except KeyboardInterrupt:  # Ctrl-C before any command has begun
    sys.exit(130)

main()
