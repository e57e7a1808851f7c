"""Store which files a region has, and up to which entry they hold its rows: with the log, all that survives a crash."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from examples.minidb.rowsets import MiniDBError

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """The state of a region that survives a crash, besides the log."""

    home: str
    """The topic that the region appends to."""
    flushed: dict[str, int | None]
    """For each topic the last entry up to which all rows are in files; None: no row is."""
    left: tuple[str, ...] = ()
    """Topics that the region left, with all rows in files."""
    files: tuple[str, ...] = ()

    @classmethod
    def load(cls, directory: Path) -> "Manifest":
        """Read the manifest of a region; raises ``MiniDBError`` if there is none."""
        try:
            stored = json.loads((directory / MANIFEST).read_text())
        except FileNotFoundError as e:
            raise MiniDBError(f"there is no region in {directory}") from e
        return cls(stored["home"], stored["flushed"], tuple(stored["left"]), tuple(stored["files"]))

    def mapped(self, topic_states: Mapping[str, str]) -> "Manifest":
        """Return it with the topics of the maps added: a restored manifest may be older than a move, and lack some.

        ``topic_states``: as ``Maps.of`` returns it. Raises ``MiniDBError`` if it names no topic to append to.
        """
        home_topics = [topic for topic, state in topic_states.items() if state == "here"]
        if not home_topics:
            raise MiniDBError("the region is dropped, or in no map")
        flushed: dict[str, int | None] = dict.fromkeys(topic_states)
        home = self.home if self.home in home_topics else home_topics[0]
        return replace(self, home=home, flushed=flushed | self.flushed)

    def without(self, topic: str) -> "Manifest":
        """Return it without a topic that it left."""
        flushed = {t: last for t, last in self.flushed.items() if t != topic}
        return replace(self, flushed=flushed, left=tuple(t for t in self.left if t != topic))

    def save(self, directory: Path) -> None:
        """Replace the stored manifest, atomically and durably."""
        write(directory / MANIFEST, json.dumps(asdict(self)))


def write(file: Path, text: str) -> None:
    """Write a file atomically: after a crash it is complete or absent."""
    new = file.with_suffix(".new")
    with new.open("w") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    new.replace(file)
    sync(file.parent)


def sync(directory: Path) -> None:
    """Make the names of files in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
