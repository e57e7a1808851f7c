"""A mark whose files a store refuses is quarantined: listed with reason, shown to its owner, retried or discarded."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sexton.contract import Collected, NewMark, Refused
from sexton.database.guard import UnknownInstance
from sexton.kernel.errors import BadInput
from sexton.marks.model import MAX_FAILURES, DueMark, Expansion, Place, Reason, Ref
from sexton.operators.holds.model import Hold
from sexton.operators.registry.undelete import find_later_deletions, hold_on, hold_place
from sexton.owners.plugin import OwnerContext
from sexton.owners.sql.owner import SqlOwner
from sexton.recycle.pipeline.sql import due_marks, quarantine
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.model import KeyOutcome
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, adopt_order
from tests.integration.recycle.pipeline.refusing import refused_round
from tests.support.command import run
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.files import stored_files
from tests.support.locks import lock_waiters
from tests.support.rig import DAY, GRACE, Rig, listing, put
from tests.support.undeletes import what_deletes


@pytest.fixture
def store(rig: Rig, root: Path) -> QuarantineStore:
    """The quarantine with two marks of an unknown vault, ``dropped/lost`` and ``prepared/r``."""
    put(root, "a.dat")
    rig.prepare("r", vault="nowhere", ttl=1)
    rig.mark("dropped", NewMark(id="lost", vault="nowhere", keys=("a.dat",)))
    assert rig.round(after=300_000).quarantined == 2
    return QuarantineStore(rig.db)


class TestQuarantine:
    """The ways out."""

    def test_retry_releases_one_mark_a_reason_or_all(self, rig: Rig, store: QuarantineStore) -> None:
        assert store.retry("shop", reason="BAD_KEY") == 0
        assert store.retry("shop", ref=Ref("dropped", "lost")) == 1
        assert store.retry("shop") == 1
        assert store.list() == []
        assert rig.round().quarantined == 2  # the cause has not changed

    def test_a_discarded_mark_keeps_its_files_and_its_id(self, rig: Rig, root: Path, store: QuarantineStore) -> None:
        store.discard("shop", Ref("dropped", "lost"), "its vault is gone for good")
        store.discard("shop", Ref("prepared", "r"), "the same")

        assert listing(root) == {"a.dat": 10}
        assert (rig.count("mark"), rig.count("mark_history")) == (0, 2)
        assert rig.count("mark_history", discarded="its vault is gone for good", objects=0) == 1
        with pytest.raises(Collected):
            rig.commit("r")
        with pytest.raises(Refused, match="gone"):
            rig.undrop_marks("dropped", "lost")

    def test_a_half_deleted_mark_is_discarded_and_counted(self, rig: Rig, root: Path) -> None:
        put(root, "t/a.dat")
        put(root, "t/dir/b.dat")
        rig.mark("dropped", NewMark(id="half", vault="disk", keys=("t/a.dat", "t/dir")))
        rig.round(after=DUE_SECONDS)
        rig.sql("UPDATE {}mark SET failures = :failures", failures=MAX_FAILURES - 1)
        rig.round()
        store = QuarantineStore(rig.db)
        (found,) = store.list("shop")
        assert "give the mark up permanently: sexton quarantine discard shop dropped/half" in what_deletes(rig, "t/")

        store.discard("shop", Ref("dropped", "half"), "dir is a directory")

        assert (found.state, found.reason, found.failures) == ("CLAIMED", "DELETE_FAILED", MAX_FAILURES)
        assert (rig.count("mark"), rig.count_files()) == (0, 0)
        assert listing(root) == {"t/dir/b.dat": 10}
        assert rig.count("mark_history", objects=1, bytes=10) == 1
        assert sum(row.deleted for row in rig.rows("tally")) == 1
        assert rig.round().waiting == 0

    def test_only_a_quarantined_mark_is_listed_retried_or_discarded(self, rig: Rig, store: QuarantineStore) -> None:
        rig.mark("dropped", NewMark(id="fine", vault="disk", keys=("b.dat",)))

        assert [(q.kind, q.id, q.reason, q.keys, q.prefix) for q in store.list("shop")] == [
            ("dropped", "lost", "UNKNOWN_VAULT", 1, None),
            ("prepared", "r", "UNKNOWN_VAULT", 0, "data/r/"),
        ]
        assert store.list(reason="BAD_KEY") == []
        for act in (
            lambda: store.discard("shop", Ref("dropped", "fine"), "no"),
            lambda: store.retry("shop", ref=Ref("dropped", "fine")),
            lambda: store.discard("shop", Ref("dropped", "lost"), " "),
        ):
            with pytest.raises(BadInput):
                act()
        with pytest.raises(UnknownInstance):
            store.retry("nobody")
        assert rig.count("mark") == 3


def set_reasons(rig: Rig, **reasons: str) -> None:
    """Quarantine marks, each for a reason."""
    for id_, reason in reasons.items():
        rig.update("mark", {"id": id_}, quarantined_reason=reason)


class TestChanged:
    """What was written anew after it was marked: trying it again deletes what is there now."""

    def test_a_retry_of_changed_objects_is_confirmed(
        self, rig: Rig, store: QuarantineStore, capsys: pytest.CaptureFixture[str]
    ) -> None:
        set_reasons(rig, lost="CHANGED")

        why = run(rig, capsys, "why", "lost").out
        every = run(rig, capsys, "quarantine", "retry", "shop", "--all", "--deletes-current")

        assert "to keep the object that exists now: sexton quarantine discard shop dropped/lost --reason TEXT" in why
        assert "to delete it: sexton quarantine retry shop dropped/lost" in why
        assert "to try it again" not in why
        assert (every.code, "--reason CHANGED --deletes-current" in every.err) == (64, True)
        for words in (("--reason", "CHANGED"), ("dropped/lost",)):
            asked = run(rig, capsys, "quarantine", "retry", "shop", *words)
            between = {q.id for q in store.list()}
            told = run(rig, capsys, "quarantine", "retry", "shop", *words, "--deletes-current")

            assert (asked.code, between) == (1, {"lost", "r"})
            assert "a retry deletes the object that exists now" in asked.err
            assert "repeat it with --deletes-current" in asked.err
            assert (told.code, told.err, "tries 1 mark again" in told.out) == (0, "", True)
            assert [q.id for q in store.list()] == ["r"]
            set_reasons(rig, lost="CHANGED")

    def test_other_retries_ask_nothing_and_leave_changed_objects(
        self, rig: Rig, store: QuarantineStore, capsys: pytest.CaptureFixture[str]
    ) -> None:
        set_reasons(rig, lost="CHANGED")

        every = run(rig, capsys, "quarantine", "retry", "shop", "--all")

        assert every.code == 0
        assert "1 mark with overwritten objects stays quarantined" in every.out
        assert "sexton quarantine list shop --reason CHANGED" in every.out
        assert "tries 1 mark again" in every.out
        assert [(q.id, q.reason) for q in store.list()] == [("lost", "CHANGED")]

        set_reasons(rig, r="UNKNOWN_VAULT")
        told = [run(rig, capsys, "quarantine", "retry", "shop", "--reason", "UNKNOWN_VAULT") for _ in range(2)]

        assert [t.code for t in told] == [0, 0]
        assert "tries 1 mark again" in told[0].out
        assert told[1].out == "no matching mark is quarantined\n"
        assert [q.id for q in store.list()] == ["lost"]

    def test_an_object_that_changes_during_a_retry_keeps_its_mark(
        self, rig: Rig, store: QuarantineStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        look = QuarantineStore.list

        def changes(store: QuarantineStore, *given: Any, **named: Any) -> Any:
            seen = look(store, *given, **named)
            set_reasons(rig, lost="CHANGED")
            return seen

        monkeypatch.setattr(QuarantineStore, "list", changes)
        printed = run(rig, capsys, "quarantine", "retry", "shop", "dropped/lost")
        monkeypatch.undo()

        assert printed.code == 1
        assert {q.id: q.reason for q in store.list()}["lost"] == "CHANGED"


HOLD = Hold(instance="shop", scope="prefix", vault="disk", prefix="t/", reason="a test")


class NamingOwner(SqlOwner):
    """An owner that names the files of its marks."""

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> Mapping[Ref, Expansion]:
        places = (Place(vault="disk", keys=("k0.dat", "k1.dat")),)
        return {mark.ref: Expansion(places=places, fence=False) for mark in marks}


def test_a_hold_counts_marks_whose_deletes_are_tried_again(rig: Rig, root: Path) -> None:
    rig.drop(root, "t/a.dat", "m", later=DUE_SECONDS)
    refused_round(rig, "t/a.dat")

    _, claimed = rig.holds.place(HOLD, DAY)
    rig.round()

    assert (claimed, listing(root)) == (1, {})


def test_an_undelete_needs_all_files_that_the_owner_names(rig: Rig, root: Path) -> None:
    put(root, "k0.dat")
    put(root, "k1.dat")
    rig.recycler = rig.recycler_of(NamingOwner(OwnerContext(rig.db, rig.registry)))
    rig.mark("dropped", NewMark(id="m", vault=None))
    rig.later(DUE_SECONDS)
    refused_round(rig, "k1.dat", outcome=KeyOutcome.CHANGED)
    QuarantineStore(rig.db).retry("shop", ref=Ref("dropped", "m"))
    put(root, "k0.dat")
    rig.later(GRACE + 1)
    refused_round(rig, "k0.dat")
    assert [file.key for file in stored_files(rig.db)] == ["k1.dat"]

    hold = hold_place(rig.holds, hold_on("shop", "disk", "k0.dat"))
    assert find_later_deletions(rig.db, hold) == {Ref("dropped", "m")}  # only its owner knows its files


def test_a_discard_and_a_second_pass_lock_in_one_order(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mark in ("m1", "m2"):
        rig.drop_files(root, mark, f"{mark}/a.dat", prefix=f"{mark}/")
    rig.round(after=DUE_SECONDS)
    for name in ("m1/late1.dat", "m1/late2.dat", "m2/late.dat"):
        put(root, name)
    rig.later(GRACE + 1)
    refused_round(rig, "m1/late2.dat", "m2/late.dat")
    rig.later(GRACE + 60)
    order, mark_is_locked, files_are_carried = adopt_order(rig), threading.Event(), threading.Event()
    sums, carry = quarantine.sum_files, due_marks.carry_over

    def wait_for_the_other(*arguments: Any, **options: Any) -> Any:
        mark_is_locked.set()
        eventually(
            "the second pass has its files, or waits for the mark",
            lambda: files_are_carried.is_set() or lock_waiters(rig.db),
        )
        return sums(*arguments, **options)

    def carry_slowly(*arguments: Any) -> None:
        carry(*arguments)
        files_are_carried.set()
        eventually("the discard is done, or waits for files", lambda: discarding.done() or lock_waiters(rig.db))

    monkeypatch.setattr(quarantine, "sum_files", wait_for_the_other)
    monkeypatch.setattr(due_marks, "carry_over", carry_slowly)
    with ThreadPoolExecutor(1) as thread:
        discarding = thread.submit(QuarantineStore(rig.db).discard, "shop", Ref("dropped", "m2"), "its files stay")
        assert mark_is_locked.wait(PATIENCE_SECONDS)
        rig.recycler.adopt(order, 1, lambda: None)

    assert discarding.result().id == "m2"
    assert listing(root).keys() == {"m2/late.dat"}


def aside(rig: Rig, kind: str, id_: str, reason: Reason, instance: str = "shop") -> None:
    rig.mark(kind, NewMark(id=id_, vault="disk", keys=("a",)), instance=instance)
    rig.update("mark", {"instance": instance, "kind": kind, "id": id_}, quarantined_reason=reason)


def test_marks_that_only_the_owner_frees_are_read_in_pages(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.recycle.pipeline.sql.owner_marks.ASKED_AT_ONCE", 2)
    rig.instance("other")
    for kind, id_ in (("dropped", "c"), ("dropped", "a"), ("compacted", "b"), ("prepared", "a"), ("dropped", "b")):
        aside(rig, kind, id_, Reason.SCHEMA_MISSING)
    aside(rig, "dropped", "failed", Reason.DELETE_FAILED)
    aside(rig, "dropped", "other", Reason.SCHEMA_MISSING, "other")
    rig.mark("dropped", NewMark(id="free", vault="disk", keys=("a",)))

    for freed in (False, True):
        pages = []
        for page in rig.stores.owner_marks.quarantined("shop"):
            pages.append([m.ref for m in page])
            if freed:  # as a round does where the owner has mended them
                rig.stores.owner_marks.free("shop", pages[-1])

        assert pages == [
            [Ref("compacted", "b"), Ref("dropped", "a")],
            [Ref("dropped", "b"), Ref("dropped", "c")],
            [Ref("prepared", "a")],
        ]
        assert rig.count("mark", instance="shop", quarantined_reason=Reason.SCHEMA_MISSING) == (0 if freed else 5)
