"""``python -m worker OPTIONS`` is ``sexton worker run OPTIONS``."""

import sys

from sexton.interfaces.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["worker", "run"]
    main()
