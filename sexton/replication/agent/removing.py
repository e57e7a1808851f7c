"""Remove the binlogs of one tablet up to a version: files first, and a page's keys only when none of its files stayed.

All keys from the tablet's first one on are looked at, so what an earlier cut left is caught up. What cannot be read
stays with its files, and its siblings go (Doris, ``Tablet::gc_binlogs``; it is quarantined instead of skipped).
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from sexton.kernel.crash_points import reached
from sexton.replication.agent import layout
from sexton.replication.agent.layout import BinlogFiles, Malformed
from sexton.replication.agent.model import NOTHING, GrantedCut, Removed, SweepOutcome, Swept
from sexton.replication.agent.port import MetaStore, StoreFault
from sexton.storage import model as storage
from sexton.storage.local.files import folder, unlink_together

PAGE_KEYS = 1_000
PAGE_FILES = 1_000
MOST_DETAIL = 400


class _Stays(Exception):
    """A file could not be removed."""


class Removal:
    """The removal of one tablet's binlogs. ``keys``: entries in one page."""

    def __init__(self, meta: MetaStore, cut: GrantedCut, heartbeat: Callable[[], None], keys: int = PAGE_KEYS) -> None:
        self._meta, self._cut, self._heartbeat, self._keys = meta, cut, heartbeat, keys
        self._cleared, self._sound = NOTHING, cut.version
        self._counts = {"files": 0, "keys": 0, "bytes": 0}
        self._wrong: dict[SweepOutcome, str] = {}

    def run(self) -> Removed:
        """Remove what may go; what is in the way is an answer.

        Raises:
            NoStore, OtherBackend, StoreBusy: about all tablets.
        """
        try:
            self._remove()
        except Malformed as e:
            self._is(SweepOutcome.QUARANTINED, str(e))
        except (_Stays, StoreFault, OSError) as e:
            self._is(SweepOutcome.FAILED, str(e))
        worst = (SweepOutcome.UNKNOWN, SweepOutcome.FAILED, SweepOutcome.QUARANTINED)
        outcome = next((its for its in worst if its in self._wrong), SweepOutcome.DONE)
        version, detail = min(self._cleared, self._sound), self._wrong.get(outcome, "")[:MOST_DETAIL]
        return Removed(uid=self._cut.uid, version=version, outcome=outcome, detail=detail)

    def counted(self) -> Swept:
        """Return what was removed so far, in numbers."""
        return Swept(**self._counts)

    def _remove(self) -> None:
        uid, version = self._cut.uid, self._cut.version
        with self._meta.proven():
            registered = self._meta.get(layout.tablet_key(uid))
        if registered is None:
            self._is(SweepOutcome.UNKNOWN, f"tablet {uid} is not registered here")
            return
        tablet, folders = layout.tablet(registered)
        if tablet != self._cut.tablet:
            raise Malformed(f"{uid} is registered as tablet {tablet}, the cut is of {self._cut.tablet}")
        for stray in next(self._meta.scan(*layout.strays(uid), 1), ()):
            self._read([stray], tablet)
        for page in self._meta.scan(*layout.bounds(uid, version), self._keys):
            self._page(self._read(page, tablet), folders)
            # The next page may begin with the same version: another rowset's.
            self._cleared = max(self._cleared, _version(page[-1][0]) - 1)
            self._heartbeat()
        self._cleared = version

    def _page(self, binlogs: Sequence[BinlogFiles], folders: Sequence[str]) -> None:
        if not binlogs:
            return
        with self._meta.proven() as root:
            self._unlink(root, folders, chain.from_iterable(its.files() for its in binlogs))
            reached("backend.files.deleted")
            keys = [key for its in binlogs for key in its.both()]
            self._meta.remove(keys)
            self._counts["keys"] += len(keys)
            reached("backend.keys.removed")

    def _unlink(self, root: int, folders: Sequence[str], names: Iterator[str]) -> None:
        """Unlink files, durably. One that refuses does not spare those after it: all of them may go."""
        first = next(names, None)
        if first is None:
            return
        names, stays = chain([first], names), ""
        where = "/".join([*folders, layout.FOLDER])
        try:
            with folder(root, [*folders, layout.FOLDER]) as inner:
                while some := list(islice(names, PAGE_FILES)):
                    for its in unlink_together(inner, "", some):
                        if its.outcome is storage.KeyOutcome.DELETED:
                            self._counts["files"] += 1
                            self._counts["bytes"] += its.bytes or 0
                        elif its.outcome is storage.KeyOutcome.FAILED:
                            stays = stays or f"{where}/{its.key} cannot be removed: {its.reason}"
                    self._heartbeat()
        except FileNotFoundError as e:
            # With entries that name files there was a folder: it is out of reach, not empty.
            raise _Stays(f"{where} is not there, and entries name files in it; is its disk mounted?") from e
        except OSError as e:
            raise _Stays(f"{where}: {e}") from e
        if stays:
            raise _Stays(stays)

    def _read(self, page: Sequence[tuple[bytes, bytes]], tablet: str) -> list[BinlogFiles]:
        """Return the sound entries; remember below which version nothing else was found."""
        sound = []
        for key, value in page:
            try:
                sound.append(layout.binlog(key, value, self._cut.uid, tablet))
            except Malformed as e:
                self._sound = min(self._sound, NOTHING if e.version is None else e.version - 1)
                self._is(SweepOutcome.QUARANTINED, str(e))
        return sound

    def _is(self, outcome: SweepOutcome, why: str) -> None:
        self._wrong.setdefault(outcome, why)


def _version(key: bytes) -> int:
    try:
        return layout.parse_key(key).version
    except Malformed as e:
        return NOTHING if e.version is None else e.version
