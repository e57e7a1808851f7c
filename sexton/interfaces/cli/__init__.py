"""The `sexton` command: every task of an operator, in a terminal."""

import os

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to look for them takes a twentieth of a command's time
