"""Create files and directories that only their owner can read, whatever the umask of the process is."""

import os
from pathlib import Path
from typing import IO, Any

CHILD_UMASK = 0o077
"""The umask of programs that Sexton starts: their files are readable by their owner only."""


def make_directory(directory: Path) -> None:
    """Create a directory and its missing parents, each with mode 0700; leave existing ones alone."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def open_file(file: Path, mode: str) -> IO[Any]:
    """Open a file as ``open`` does; a new one gets mode 0600."""
    return open(file, mode, opener=lambda path, flags: os.open(path, flags, 0o600))
