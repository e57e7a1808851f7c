"""Sweep a backend: pull granted cuts, delete the binlogs up to them, and acknowledge; page by page, tablet by tablet.

A sweep stores nothing: cuts that were not acknowledged are granted again, and deleting them again does no harm.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

from sexton.kernel.crash_points import reached
from sexton.replication.agent import model
from sexton.replication.agent.meta import SqliteMeta
from sexton.replication.agent.model import (
    MAX_MESSAGES,
    NOTHING,
    BinlogFiles,
    CutDone,
    GrantedCut,
    GrantedCutPage,
    Malformed,
    SweepOrder,
    SweepOutcome,
    Swept,
)
from sexton.replication.errors import OtherBackend, StoreFault
from sexton.storage import model as storage
from sexton.storage.local.files import open_folder, unlink_all

if TYPE_CHECKING:  # httpx may not be installed
    from sexton.replication.agent.http import HttpCuts

log = logging.getLogger(__name__)
WAIT_SECONDS = 1.0
PAGE_KEYS = 1_000
PAGE_FILES = 1_000
MAX_DETAIL_CHARACTERS = 400


class BackendSweeper:
    """Sweeps one backend, one sweep at a time: a second call waits for the end of the first."""

    def __init__(self, meta: SqliteMeta, cuts: "HttpCuts", instance: str = "", keys: int = PAGE_KEYS) -> None:
        """``instance``: of the backend; empty: not known. ``keys``: entries of a tablet that are deleted together."""
        self._meta, self._cuts, self._instance, self._keys = meta, cuts, instance, keys
        self._lock = threading.Lock()

    def sweep(self, heartbeat: Callable[[], None], order: SweepOrder | None = None) -> Swept:
        """Delete the granted binlogs, by default of all tablets. It can be repeated, and stopped anywhere.

        ``heartbeat`` is called between tablets and between pages of one; it may raise to stop the sweep there.

        Raises:
            NoStore, OtherBackend, StoreBusy: the data directory cannot be used; nothing counts as deleted.
            ApiSilent, ApiRefused: the API grants no cuts, or accepts no acknowledgement.
        """
        order = order or SweepOrder()
        if order.instance and self._instance and order.instance != self._instance:
            raise OtherBackend(f"this backend belongs to instance {self._instance}, the order to {order.instance}")
        swept = Swept()
        while not self._lock.acquire(timeout=WAIT_SECONDS):
            heartbeat()
        try:
            after = order.after
            while True:
                with self._meta.proven():
                    page = self._cuts.page(after)
                in_range = [cut for cut in page.cuts if not order.until or cut.uid <= order.until]
                swept += self._sweep_page(page._replace(cuts=in_range), heartbeat)
                after = page.next
                if not after or (order.until and after >= order.until):
                    break
        finally:
            self._lock.release()
        log.info("swept: %s", swept.model_dump_json(exclude_defaults=True))
        return swept

    def _sweep_page(self, page: GrantedCutPage, heartbeat: Callable[[], None]) -> Swept:
        messages = tuple(f"a cut cannot be read: {item}" for item in page.refused)
        for message in messages:
            log.error("%s", message)
        swept = Swept(pages=1, failed=len(messages), said=messages[:MAX_MESSAGES])
        done = list[CutDone]()
        highest: dict[str, GrantedCut] = {}
        for cut in page.cuts:
            if cut.uid not in highest or cut.version > highest[cut.uid].version:
                highest[cut.uid] = cut
        for cut in highest.values():
            removal = Removal(self._meta, cut, heartbeat, self._keys)
            removed = removal.run()
            done.append(removed)
            swept += removal.counts() + Swept(tablets=1)
            if removed.outcome != SweepOutcome.DONE:
                message = f"tablet {removed.uid}: {removed.outcome}: {removed.detail}"
                log.warning("%s", message)
                swept += Swept(said=(message,), **{removed.outcome: 1})
            heartbeat()
        if done:
            self._cuts.acknowledge(done)
            reached("backend.acknowledged")
        return swept


class _FileStays(Exception):
    """A file could not be deleted."""


class Removal:
    """The deletion of one tablet's binlogs: files first, and a page's keys only if all its files are gone.

    Every run reads all keys from the tablet's first one, so it also deletes leftovers of earlier runs. An entry that
    cannot be read is quarantined and stays with its files, while the others are deleted (Doris' ``Tablet::gc_binlogs``
    skips it). ``keys``: entries in one page.
    """

    def __init__(self, meta: SqliteMeta, cut: GrantedCut, heartbeat: Callable[[], None], keys: int = PAGE_KEYS) -> None:
        self._meta, self._cut, self._heartbeat, self._keys = meta, cut, heartbeat, keys
        self._cleared = NOTHING
        """All entries up to this version are read."""
        self._sound = cut.version
        """No entry up to this version is quarantined."""
        self._counts = {"files": 0, "keys": 0, "bytes": 0}
        self._problems: dict[SweepOutcome, str] = {}

    def run(self) -> CutDone:
        """Delete the binlogs; a problem of this tablet becomes its outcome.

        Raises:
            NoStore, OtherBackend, StoreBusy: a problem that concerns all tablets.
        """
        try:
            self._remove()
        except Malformed as e:
            self._record_problem(SweepOutcome.QUARANTINED, str(e))
        except (_FileStays, StoreFault, OSError) as e:
            self._record_problem(SweepOutcome.FAILED, str(e))
        by_severity = (SweepOutcome.UNKNOWN, SweepOutcome.FAILED, SweepOutcome.QUARANTINED)
        outcome = next((problem for problem in by_severity if problem in self._problems), SweepOutcome.DONE)
        version = min(self._cleared, self._sound)
        detail = self._problems.get(outcome, "")[:MAX_DETAIL_CHARACTERS]
        return CutDone(uid=self._cut.uid, version=version, outcome=outcome, detail=detail)

    def counts(self) -> Swept:
        """Return what was deleted so far, in numbers."""
        return Swept(**self._counts)

    def _remove(self) -> None:
        uid, version = self._cut.uid, self._cut.version
        with self._meta.proven():
            registered = self._meta.get(model.tablet_key(uid))
        if registered is None:
            self._record_problem(SweepOutcome.UNKNOWN, f"tablet {uid} is not registered here")
            return
        tablet, folders = model.parse_tablet(registered)
        if tablet != self._cut.tablet:
            raise Malformed(f"{uid} is registered as tablet {tablet}, but the cut is for tablet {self._cut.tablet}")
        for stray in next(self._meta.scan(*model.stray_key_range(uid), 1), ()):
            self._sound_entries([stray], tablet)
        for page in self._meta.scan(*model.key_range(uid, version), self._keys):
            entries = self._sound_entries(page, tablet)
            if entries:
                with self._meta.proven() as root:
                    self._unlink(root, folders, chain.from_iterable(entry.files() for entry in entries))
                    reached("backend.files.deleted")
                    keys = [key for entry in entries for key in entry.both_keys()]
                    self._meta.remove(keys)
                    self._counts["keys"] += len(keys)
                    reached("backend.keys.removed")
            # The next page may begin with the same version: an entry of another rowset.
            self._cleared = max(self._cleared, _version(page[-1][0]) - 1)
            self._heartbeat()
        self._cleared = version

    def _unlink(self, root: int, folders: Sequence[str], names: Iterator[str]) -> None:
        """Delete files durably. A file that cannot be deleted does not stop the deletion of the others."""
        first = next(names, None)
        if first is None:
            return
        names, problem = chain([first], names), ""
        path = "/".join([*folders, model.FOLDER])
        try:
            with open_folder(root, [*folders, model.FOLDER]) as inner:
                while page := list(islice(names, PAGE_FILES)):
                    for result in unlink_all(inner, page):
                        if result.outcome is storage.KeyOutcome.DELETED:
                            self._counts["files"] += 1
                            self._counts["bytes"] += result.bytes or 0
                        elif result.outcome is storage.KeyOutcome.FAILED:
                            problem = problem or f"{path}/{result.key} cannot be deleted: {result.reason}"
                    self._heartbeat()
        except FileNotFoundError as e:
            # Entries name files in the folder, so it must exist: it is out of reach, not empty.
            raise _FileStays(f"{path} does not exist, but entries name files in it; is its disk mounted?") from e
        except OSError as e:
            raise _FileStays(f"{path}: {e}") from e
        if problem:
            raise _FileStays(problem)

    def _sound_entries(self, page: Sequence[tuple[bytes, bytes]], tablet: str) -> list[BinlogFiles]:
        """Return the entries that can be read; quarantine the others."""
        sound = []
        for key, value in page:
            try:
                sound.append(model.parse_entry(key, value, self._cut.uid, tablet))
            except Malformed as e:
                self._sound = min(self._sound, NOTHING if e.version is None else e.version - 1)
                self._record_problem(SweepOutcome.QUARANTINED, str(e))
        return sound

    def _record_problem(self, outcome: SweepOutcome, why: str) -> None:
        self._problems.setdefault(outcome, why)


def _version(key: bytes) -> int:
    try:
        return model.parse_key(key).version
    except Malformed as e:
        return NOTHING if e.version is None else e.version
