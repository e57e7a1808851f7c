"""The order of settling, how outcomes decide it, and what a take-over does with an older attempt's files.

Log the outcomes, delete the owner's records, then the marks. Fakes stand for the stores.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.marks.file_list import ListedFile
from sexton.marks.kept import by_vault
from sexton.marks.model import CHUNK_MARKS, Ref, Settlement
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.pipeline.decide import DeletionProgress
from sexton.recycle.pipeline.settle import Settler, log_deletions
from sexton.recycle.pipeline.sql.files import Leftovers, sort_leftovers
from sexton.storage.model import KeyOutcome
from sexton.storage.port import UnknownVault, VaultFault

REFS = [Ref("dropped", name) for name in ("gone", "swept", "failed")]
CHILD = Ref("tablet", "child")


def make_row(ref: Ref, vault: str = "disk") -> AuditRow:
    """Return the logged outcome of one file of a mark."""
    return AuditRow(1, "shop", 1, 1, 1, ref.kind, ref.id, vault, "a.dat", 1, "deleted", "")


class World:
    """One batch with three settled marks, whose stores, owner and log note each call in ``calls``."""

    def __init__(self, log_error: Exception | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.faults: dict[str, str] = {}
        self.log_error = log_error
        self.discarded: frozenset[Ref] = frozenset()
        self.outcomes: Sequence[Sequence[AuditRow]] = [[make_row(ref) for ref in REFS]]
        self.states = dict(zip(REFS, (Settlement.GONE, Settlement.SECOND_PASS, Settlement.FAILED), strict=True))
        active_lease = SimpleNamespace(
            keep_alive=lambda: self.calls.append(("alive", None)),
            retry_throttled=lambda request: request(),
            add_fault=lambda vault, reason, _detail: self.faults.update({vault: reason}),
        )
        token = SimpleNamespace(batch=7)
        self.work: Any = SimpleNamespace(token=token, active_lease=active_lease, instance="shop")
        self.active_lease: Any = active_lease

    def write(self, rows: Sequence[AuditRow]) -> None:
        if self.log_error is not None and rows[0].vault == "disk":
            raise self.log_error
        self.calls.append(("log", [Ref(r.kind, r.id) for r in rows]))

    def forget(self, instance: str, find_refs: Any) -> None:
        self.calls.append(("forget", (instance, find_refs("connection"))))

    def lock_finished(self, connection: Any, token: Any, refs: Collection[Ref]) -> frozenset[Ref]:
        assert (connection, token) == ("connection", self.work.token)
        return frozenset(refs)

    def progress(self, token: Any, refs: Sequence[Ref]) -> Sequence[Any]:
        absorbed = {REFS[0]: (CHILD,)}
        gone = Settlement.GONE
        return [
            SimpleNamespace(ref=ref, settlement=self.states.get(ref, gone), absorbed=list(absorbed.get(ref, ())))
            for ref in refs
        ]

    def record_finished(self, token: Any, refs: Sequence[Ref]) -> frozenset[Ref]:
        self.calls.append(("finished", list(refs)))
        return frozenset(refs) - self.discarded

    def settle(self, token: Any, marks: Sequence[Any], upload_grace_seconds: int) -> None:
        self.calls.append(("settle", [m.ref for m in marks]))

    def run(self, refs: Sequence[Ref] = REFS, *, logged: bool = False, records: bool = True) -> Any:
        def of_marks(token: Any, refs: Sequence[Ref]) -> Iterable[Sequence[AuditRow]]:
            return self.outcomes

        stores: Any = SimpleNamespace(outcomes=SimpleNamespace(of_marks=of_marks), settlements=self)
        log: Any = SimpleNamespace(write=self.write)
        deleter: Any = None
        owner: Any = SimpleNamespace(forget=self.forget, keeps_records=lambda _: records)
        return Settler(stores, owner, log, deleter).settle(self.work, refs, 600, logged=logged)

    def done(self) -> list[tuple[str, Any]]:
        """Return the calls but for heartbeats."""
        return [call for call in self.calls if call[0] != "alive"]


def test_the_log_comes_first_and_the_marks_last() -> None:
    world = World()

    assert world.run() == {}

    gone, records = [REFS[0]], ("shop", [REFS[0], CHILD])
    assert world.done() == [("log", REFS), ("finished", gone), ("forget", records), ("settle", REFS)]
    world = World()
    world.discarded = frozenset({REFS[0]})
    world.run()
    assert ("forget", ("shop", [])) in world.done()  # no record of a discarded mark is removed


def test_only_marks_that_are_gone_and_have_records_are_forgotten() -> None:
    without_records, not_gone, logged = World(), World(), World()
    not_gone.states[REFS[0]] = Settlement.SECOND_PASS

    without_records.run(records=False)
    not_gone.run()
    logged.run(logged=True)

    assert [name for name, _ in without_records.done()] == [name for name, _ in not_gone.done()] == ["log", "settle"]
    assert [name for name, _ in logged.done()] == ["finished", "forget", "settle"]  # outcomes are logged once


def test_marks_that_cannot_be_logged_keep_their_records() -> None:
    errors: dict[str, Exception] = {
        "UNREACHABLE": VaultFault("disk", "UNREACHABLE", "no route"),
        "audit DENIED": VaultFault("archive", "DENIED", "403"),
        "UNKNOWN_VAULT": UnknownVault("no vault disk"),
    }
    for reason, error in errors.items():
        world = World(error)
        world.outcomes = [[make_row(REFS[0]), make_row(REFS[1], "cold"), make_row(REFS[2])]]

        assert world.run() == {by_vault("disk", reason): 2}
        assert world.faults == {"disk": reason}
        assert world.done() == [("log", [REFS[1]]), ("settle", [REFS[1]])]


def test_other_errors_of_the_log_end_the_work() -> None:
    world = World(RuntimeError("disk full"))

    with pytest.raises(RuntimeError, match="disk full"):
        world.run()

    assert world.done() == []


def test_many_marks_are_settled_in_chunks_with_heartbeats() -> None:
    world = World()
    refs = [Ref("dropped", str(n)) for n in range(CHUNK_MARKS + 1)]

    world.run(refs, logged=True)

    settled = [refs for name, refs in world.calls if name == "settle"]
    assert [len(chunk) for chunk in settled] == [CHUNK_MARKS, 1]
    assert [name for name, _ in world.calls].count("alive") == 2


def test_each_vaults_outcomes_are_logged_together() -> None:
    world = World()
    rows = [make_row(REFS[0], "disk"), make_row(REFS[1], "cold"), make_row(REFS[2], "disk")]

    log: Any = SimpleNamespace(write=world.write)
    assert log_deletions(log, world.active_lease, [rows]) == {}

    assert world.done() == [("log", [REFS[1]]), ("log", [REFS[0], REFS[2]])]


FAILED = Counter({"disk": 1})
DONE = DeletionProgress(Ref("dropped", "m"), "disk", files=3, done=3)


SETTLEMENTS = [
    (DONE, Settlement.GONE),
    (replace(DONE, files=0, done=0), Settlement.GONE),
    (replace(DONE, done=2), Settlement.WAITING),
    (replace(DONE, done=2, failed=FAILED), Settlement.FAILED),
    (replace(DONE, done=2, changed=True), Settlement.CHANGED),
    (replace(DONE, done=1, changed=True, failed=FAILED), Settlement.CHANGED),
    (replace(DONE, lacking="SCHEMA_MISSING"), Settlement.LACKING),
    (replace(DONE, lacking="SCHEMA_MISSING", done=2), Settlement.WAITING),
    (replace(DONE, prefix="data/"), Settlement.SECOND_PASS),
    (replace(DONE, prefix="data/", first_pass_at=1), Settlement.GONE),
    (replace(DONE, prefix="data/", lacking="SCHEMA_MISSING"), Settlement.LACKING),
]


def test_a_mark_is_settled_by_its_outcomes() -> None:
    for progress, settlement in SETTLEMENTS:
        assert progress.settlement is settlement, progress


@given(
    st.builds(
        DeletionProgress,
        ref=st.just(DONE.ref),
        vault=st.just("disk"),
        prefix=st.none() | st.just("p/"),
        first_pass_at=st.none() | st.just(1),
        files=st.integers(0, 3),
        done=st.integers(0, 3),
        failed=st.sampled_from((Counter(), FAILED)),
        changed=st.booleans(),
        lacking=st.none() | st.just("SCHEMA_MISSING"),
    )
)
def test_a_record_is_removed_only_if_all_is_confirmed(progress: DeletionProgress) -> None:
    confirmed = progress.done >= progress.files and not progress.failed and not progress.changed
    seen_twice = progress.prefix is None or progress.first_pass_at is not None

    assert (progress.settlement is Settlement.GONE) == (confirmed and not progress.lacking and seen_twice)
    assert (progress.settlement is Settlement.SECOND_PASS) == (confirmed and not progress.lacking and not seen_twice)


MARK = Ref("dropped", "m")
FIRST_PASS = {MARK: SimpleNamespace(first_pass_at=None)}
SECOND_PASS = {MARK: SimpleNamespace(first_pass_at=1_000)}
KEPT, DROPPED, RETRIED = Leftovers([], [], 0), Leftovers([7], [], 0), Leftovers([], [7], 0)
UNCLAIMED: dict[Ref, SimpleNamespace] = {}
LEFTOVERS = [
    (UNCLAIMED, (None, KeyOutcome.DELETED, KeyOutcome.FAILED), DROPPED, DROPPED),
    (FIRST_PASS, (None, KeyOutcome.DELETED, KeyOutcome.CHANGED), KEPT, KEPT),
    (FIRST_PASS, (KeyOutcome.FAILED,), RETRIED, RETRIED),
    (SECOND_PASS, (KeyOutcome.DELETED, KeyOutcome.ABSENT, KeyOutcome.HIDDEN), KEPT, KEPT),
    (SECOND_PASS, (None, KeyOutcome.FAILED, KeyOutcome.CHANGED), Leftovers([], [], 1), DROPPED),
]
"""Claimed marks, outcomes of a file, what becomes of it before and at the second pass."""


def test_files_of_an_older_attempt_are_dropped_retried_or_kept() -> None:
    for claimed, outcomes, before, at_second_pass in LEFTOVERS:
        for outcome in outcomes:
            file = ListedFile(7, MARK, "disk", "m.dat", None, outcome, "")

            assert sort_leftovers([file], claimed, second_pass=False) == before, (claimed, outcome)
            assert sort_leftovers([file], claimed, second_pass=True) == at_second_pass, (claimed, outcome)
