"""A region on a write-ahead log: a row goes to the log, then to memory, and with many others to a file.

Many regions share a topic of the log; an entry names its region. What a crash takes is what was only in memory, and
the log still has it: how much of the log that is, the *manifest* says. Sexton is not mentioned here; see ``node``.
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
    """One that is open. Its files are in a local directory: the log is what there is to look at here.

    A database writes them to its vault, and prepares them before (``database``).
    """

    name: str
    directory: Path
    log: Log
    epoch: int
    manifest: Manifest
    memory: Rows = field(default_factory=dict)
    _frozen: Rows = field(default_factory=dict, init=False)
    """On their way into a file."""
    _in_flight: str | None = field(default=None, init=False)
    """The topic of an append that the log has not answered yet."""
    _open: bool = field(default=True, init=False)
    _state: threading.Lock = field(default_factory=threading.Lock, init=False)
    _flushing: threading.Lock = field(default_factory=threading.Lock, init=False)
    # One append at a time: rows come into memory in the order of their entries. With two under way the later one could
    # be flushed first, and "flushed up to here" would be wrong of the other.
    _appending: threading.Lock = field(default_factory=threading.Lock, init=False)

    def append(self, *rows: str) -> int:
        """Write rows; return the id of the last one's entry. They are acknowledged when this returns.

        Raises:
            Closed: the region was closed meanwhile. Whatever the log raises; the entries may be there or not.
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
            with self._state:  # in one step, or for a moment the row would be neither in flight nor in memory
                self._in_flight = None
                self._check()
                self.memory |= {(topic, first + n): row for n, row in enumerate(rows)}
            return first + len(rows) - 1

    def flush(self) -> None:
        """Bring what is in memory into a file. Raises ``Closed``."""
        with self._flushing:
            with self._state:
                self._check()
                self._frozen, self.memory = self._frozen | self.memory, {}  # the last flush may have failed
            if self._frozen:
                name = f"{uuid.uuid4().hex}.rows"  # never one that was used, not even after a manifest was restored
                lines = [json.dumps([*at, row]) + "\n" for at, row in self._frozen.items()]
                write(self.directory / name, "".join(lines))
            with self._state:
                self._check()
                old, flushed = self.manifest, dict(self.manifest.flushed)
                for topic, id_ in self._frozen:
                    flushed[topic] = max(id_, -1 if (before := flushed[topic]) is None else before)
                # Where it appends no more, nothing is under way: what is not in memory is in this file, or one before.
                left = tuple(t for t in flushed if t != old.home and not any(t == of for of, _ in self.memory))
                files = (*old.files, name) if self._frozen else old.files
                new = replace(old, flushed=flushed, left=left, files=files)
                if new != old:
                    new.save(self.directory)  # the file first: a manifest names nothing that is not there
                self.manifest, self._frozen = new, {}

    def move(self, topic: str) -> None:
        """Append to another topic from now on; when this returns the last append to the old one was answered."""
        with self._appending, self._state:  # so no append is under way
            self._check()
            old = self.manifest
            flushed = {**old.flushed, topic: old.flushed.get(topic)}
            new = replace(old, home=topic, flushed=flushed, left=tuple(t for t in old.left if t != topic))
            new.save(self.directory)  # before the first append there, or a crash would forget where to look for it
            self.manifest = new

    def close(self) -> None:
        """Lose what is in memory; whoever appends meanwhile gets no acknowledgement."""
        with self._state:
            self._open, self.memory, self._frozen = False, {}, {}

    def seen(self, topic: str) -> tuple[int | None, bool]:
        """Return the last entry of a topic that is flushed, and whether anything of it is not in a file yet.

        That is a row in memory, one on its way into a file, or an append under way.
        """
        with self._state:
            its = self._in_flight == topic or any(t == topic for t, _ in (*self.memory, *self._frozen))
            return self.manifest.flushed[topic], its

    def rows(self) -> Rows:
        """Return all that it has, in files and in memory."""
        with self._state:
            return self._in_files() | self._frozen | self.memory

    def _in_files(self) -> Rows:
        lines = [line for name in self.manifest.files for line in (self.directory / name).read_text().splitlines()]
        return {(topic, id_): row for topic, id_, row in map(json.loads, lines)}

    def _check(self) -> None:
        if not self._open:
            raise Closed(f"region {self.name} is not open")
