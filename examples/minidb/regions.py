"""A region on a write-ahead log: a row is written to the log, then to memory, and with many others to a file.

Many regions share a topic of the log; an entry names its region. A crash loses the rows in memory, and the log still
has them: the *manifest* tells from which entry on. This module does not use Sexton; see ``node``.
"""

import json
import threading
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path

from examples.minidb.logs import Log, entry
from examples.minidb.manifests import Manifest, write
from examples.minidb.rowsets import MiniDBError

Rows = dict[tuple[str, int], str]
"""(topic, id of the entry) → the row. A region that moved has rows of two topics."""


class Closed(MiniDBError):
    """The region is not open; nothing was acknowledged."""


@dataclass
class Region:
    """An open region. Its files are in a local directory, to keep the example about the log.

    A real database prepares its files and writes them to its vault (``database``).
    """

    name: str
    directory: Path
    log: Log
    epoch: int
    manifest: Manifest
    memory: Rows = field(default_factory=dict)
    _frozen: Rows = field(default_factory=dict, init=False)
    """Rows that a flush is writing to a file."""
    _in_flight: str | None = field(default=None, init=False)
    """The topic of an append that the log has not answered yet."""
    _open: bool = field(default=True, init=False)
    _state: threading.Lock = field(default_factory=threading.Lock, init=False)
    _flushing: threading.Lock = field(default_factory=threading.Lock, init=False)
    # One append at a time: rows reach memory in the order of their entries. With two appends under way the later one
    # could be flushed first, and the manifest would name the earlier one as flushed.
    _appending: threading.Lock = field(default_factory=threading.Lock, init=False)

    def append(self, *rows: str) -> int:
        """Write rows; return the id of the last one's entry. They are acknowledged when this returns.

        Raises:
            Closed: the region was closed meanwhile. Errors of the log are raised too; the entries may exist or not.
        """
        with self._appending:
            with self._state:
                self._check()
                self._in_flight = topic = self.manifest.home
            try:
                first = self.log.append(topic, [entry(self.name, row) for row in rows])
            except BaseException:
                with self._state:
                    self._in_flight = None
                raise
            with self._state:  # in one step: otherwise the row would briefly be neither in flight nor in memory
                self._in_flight = None
                self._check()
                self.memory |= {(topic, first + n): row for n, row in enumerate(rows)}
            return first + len(rows) - 1

    def flush(self) -> None:
        """Write the rows in memory to a file. Raises ``Closed``."""
        with self._flushing:
            with self._state:
                self._check()
                self._frozen, self.memory = self._frozen | self.memory, {}  # the last flush may have failed
            if self._frozen:
                name = f"{uuid.uuid4().hex}.rows"  # never used before, not even if a manifest was restored
                lines = [json.dumps([*key, row]) + "\n" for key, row in self._frozen.items()]
                write(self.directory / name, "".join(lines))
            with self._state:
                self._check()
                manifest, flushed = self.manifest, dict(self.manifest.flushed)
                for topic, id_ in self._frozen:
                    last_flushed = flushed[topic]
                    flushed[topic] = id_ if last_flushed is None else max(id_, last_flushed)
                # No append is under way to a topic that it left: entries that are not in memory are in a file.
                in_memory = {entry_topic for entry_topic, _ in self.memory}
                left_topics = tuple(t for t in flushed if t != manifest.home and t not in in_memory)
                files = (*manifest.files, name) if self._frozen else manifest.files
                new_manifest = replace(manifest, flushed=flushed, left=left_topics, files=files)
                if new_manifest != manifest:
                    new_manifest.save(self.directory)  # after the file: a manifest names only existing files
                self.manifest, self._frozen = new_manifest, {}

    def move(self, topic: str) -> None:
        """Append to another topic from now on; when this returns the last append to the old one was answered."""
        with self._appending, self._state:  # so no append is under way
            self._check()
            manifest = self.manifest
            flushed = {**manifest.flushed, topic: manifest.flushed.get(topic)}
            left_topics = tuple(t for t in manifest.left if t != topic)
            new_manifest = replace(manifest, home=topic, flushed=flushed, left=left_topics)
            new_manifest.save(self.directory)  # before the first append there: after a crash it would not be replayed
            self.manifest = new_manifest

    def close(self) -> None:
        """Lose the rows in memory; an append under way is not acknowledged."""
        with self._state:
            self._open, self.memory, self._frozen = False, {}, {}

    def seen(self, topic: str) -> tuple[int | None, bool]:
        """Return the last flushed entry of a topic, and whether the region has unflushed rows of it.

        Unflushed rows are in memory, being written to a file, or in an append under way.
        """
        with self._state:
            unflushed = self._in_flight == topic or any(t == topic for t, _ in (*self.memory, *self._frozen))
            return self.manifest.flushed[topic], unflushed

    def rows(self) -> Rows:
        """Return all rows, in files and in memory."""
        with self._state:
            return self._in_files() | self._frozen | self.memory

    def _in_files(self) -> Rows:
        lines = [line for name in self.manifest.files for line in (self.directory / name).read_text().splitlines()]
        return {(topic, id_): row for topic, id_, row in map(json.loads, lines)}

    def _check(self) -> None:
        if not self._open:
            raise Closed(f"region {self.name} is not open")
