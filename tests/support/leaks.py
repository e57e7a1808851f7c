"""Search all that a run of the tests leaves for the secrets it made: `make test SEARCH=1`.

Logs, databases, the histories of workflows and what the API answered are kept until the end of the run then. Whoever
makes a secret says so with ``made``; tokens of the API are known by their form.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "TESTS_SEARCHED"
"""The directory of a run that is searched; no variable of Sexton's own, as those do not reach a test."""
MADE = "secrets-made"
TOKEN = re.compile(rb"sxt_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")
PIECE = 16 << 20
OVERLAP = 200


def kept() -> Path | None:
    """Return where to leave what is to be searched; None in a run that is not."""
    return Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def made(secret: str) -> None:
    """Say that a secret was made."""
    if (home := kept()) is not None:
        with (home / f"{MADE}-{os.getpid()}").open("a") as f:
            f.write(f"{secret}\n")


def said(name: str, text: bytes) -> None:
    """Keep what somebody outside was told."""
    if (home := kept()) is not None:
        with (home / f"said-{name}-{os.getpid()}").open("ab") as f:
            f.write(text + b"\n")


def search(home: Path) -> tuple[int, int, list[str]]:
    """Return how many secrets were looked for, in how many bytes, and where one was found."""
    lists = sorted(home.glob(f"{MADE}-*"))
    secrets = {line.encode() for path in lists for line in path.read_text().split()}
    wanted = re.compile(b"|".join([TOKEN.pattern, *map(re.escape, sorted(secrets))]))
    found, size = [], 0
    for path in sorted(p for p in home.rglob("*") if p.is_file() and not p.is_symlink()):
        if path in lists:
            continue
        size += path.stat().st_size
        found += [f"{path.relative_to(home)}: {hit[:60].decode(errors='replace')}" for hit in _hits(path, wanted)]
    return len(secrets), size, found


def _hits(path: Path, wanted: re.Pattern[bytes]) -> Iterator[bytes]:
    before = b""
    with path.open("rb") as f:
        while piece := f.read(PIECE):
            text = before + piece
            if hit := wanted.search(text):
                yield text[max(0, hit.start() - 20) : hit.end()]
                return
            before = text[-OVERLAP:]
