"""The `sexton` command: every task of an operator, in a terminal."""

import os
import sys

SERVES = sys.argv[1:2] in (["api"], ["console"], ["up"], ["worker"])
"""Whether this process runs for days."""
if not SERVES:  # to look for pydantic's plugins takes a twentieth of a short command's time
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
