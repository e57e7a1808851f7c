"""What of a region survives a crash, but for the log: which files it has, and up to which entry they have its rows."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from examples.minidb.rowsets import MiniDBError

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What of a region survives a crash, but for the log."""

    home: str
    """The topic that it appends to."""
    flushed: dict[str, int | None]
    """By topic the last entry whose row is in a file, as are all before; None: there is none."""
    left: tuple[str, ...] = ()
    """Topics that it left and of which it has everything in files."""
    files: tuple[str, ...] = ()

    @classmethod
    def load(cls, directory: Path) -> "Manifest":
        """Read that of a region; ``MiniDBError`` where there is none."""
        try:
            told = json.loads((directory / MANIFEST).read_text())
        except FileNotFoundError as e:
            raise MiniDBError(f"there is no region in {directory}") from e
        return cls(told["home"], told["flushed"], tuple(told["left"]), tuple(told["files"]))

    def mapped(self, where: Mapping[str, str]) -> "Manifest":
        """Return it with the topics of the maps: one that was restored may be older than a move, and not name them all.

        ``where``: as ``Maps.of`` returns it. Raises ``MiniDBError`` where that names none to append to.
        """
        here = [topic for topic, state in where.items() if state == "here"]
        if not here:
            raise MiniDBError("the region is dropped, or in no map")
        flushed: dict[str, int | None] = dict.fromkeys(where)
        return replace(self, home=self.home if self.home in here else here[0], flushed=flushed | self.flushed)

    def without(self, topic: str) -> "Manifest":
        """Return it without a topic that it left."""
        flushed = {t: last for t, last in self.flushed.items() if t != topic}
        return replace(self, flushed=flushed, left=tuple(t for t in self.left if t != topic))

    def save(self, directory: Path) -> None:
        """Take the place of the one before, whole and durable."""
        write(directory / MANIFEST, json.dumps(asdict(self)))


def write(file: Path, text: str) -> None:
    """Write a file that after a crash is there whole or not at all."""
    new = file.with_suffix(".new")
    with new.open("w") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    new.replace(file)
    sync(file.parent)


def sync(directory: Path) -> None:
    """Make names durable: those that files and directories have in it."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
