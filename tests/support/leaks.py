"""Search everything that a run of the tests leaves behind for the secrets it made: `make test SEARCH=1`.

Logs, databases, histories of workflows and answers of the API are then kept until the end of the run. A test that
makes a secret records it with ``record_secret``; tokens of the API are recognised by their form.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "TESTS_SEARCHED"
"""The directory of a run that is searched; not named SEXTON_…, as those variables do not reach a test."""
MADE = "secrets-made"
TOKEN = re.compile(rb"sxt_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")
PIECE = 16 << 20
OVERLAP = 200


def search_directory() -> Path | None:
    """Return the directory whose files will be searched; None in a run without a search."""
    return Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def record_secret(secret: str) -> None:
    """Add a secret to those that are searched for."""
    if (home := search_directory()) is not None:
        with (home / f"{MADE}-{os.getpid()}").open("a") as f:
            f.write(f"{secret}\n")


def record_output(name: str, text: bytes) -> None:
    """Keep text that was sent to a client, to be searched."""
    if (home := search_directory()) is not None:
        with (home / f"said-{name}-{os.getpid()}").open("ab") as f:
            f.write(text + b"\n")


def search(home: Path) -> tuple[int, int, list[str]]:
    """Return the number of secrets, the number of bytes searched, and each hit as ``file: text``."""
    lists = sorted(home.glob(f"{MADE}-*"))
    secrets = {line.encode() for path in lists for line in path.read_text().split()}
    pattern = re.compile(b"|".join([TOKEN.pattern, *map(re.escape, sorted(secrets))]))
    hits, size = [], 0
    for path in sorted(p for p in home.rglob("*") if p.is_file() and not p.is_symlink()):
        if path in lists:
            continue
        size += path.stat().st_size
        hits += [f"{path.relative_to(home)}: {hit[:60].decode(errors='replace')}" for hit in _hits(path, pattern)]
    return len(secrets), size, hits


def _hits(path: Path, pattern: re.Pattern[bytes]) -> Iterator[bytes]:
    before = b""
    with path.open("rb") as f:
        while piece := f.read(PIECE):
            text = before + piece
            if hit := pattern.search(text):
                yield text[max(0, hit.start() - 20) : hit.end()]
                return
            before = text[-OVERLAP:]
