"""A mark whose files a store refuses is quarantined: listed with reason, shown to its owner, retried or discarded."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from sexton.contract import Collected, NewMark, Refused, commit, prepare, undrop
from sexton.database.guard import UnknownInstance
from sexton.kernel.errors import BadInput
from sexton.marks.model import DueMark, Expansion, Place, Reason, Ref
from sexton.operators.holds.model import Hold
from sexton.operators.registry.undelete_check import UndeleteUnsafe, ensure_undelete_is_safe
from sexton.owners.plugin import OwnerContext
from sexton.owners.sql.owner import SqlOwner
from sexton.recycle.pipeline.sql import due_marks, quarantine, settlement
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyOutcome, KeyResult
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, adopt_order
from tests.integration.recycle.pipeline.refusing import refused_round, refusing
from tests.support.command import run
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.files import stored_files
from tests.support.locks import lock_waiters
from tests.support.rig import DAY, GRACE, Rig, listing, put


class TestQuarantine:
    """The ways out."""

    def aside(self, rig: Rig, tmp_path: Path) -> QuarantineStore:
        root = rig.local(tmp_path / "v")
        put(root, "a.dat")
        with rig.db.write() as c:
            prepare(c, "shop", "load", ["r"], "nowhere", ["r/"], 1)
        rig.mark("dropped", NewMark(id="lost", vault="nowhere", keys=("a.dat",)))
        rig.later(300_000)
        assert rig.round().quarantined == 2
        return QuarantineStore(rig.db)

    def test_a_quarantined_mark_is_listed_with_its_reason(self, rig: Rig, tmp_path: Path) -> None:
        found = self.aside(rig, tmp_path).list("shop")

        assert [(q.kind, q.id, q.reason, q.keys, q.prefix) for q in found] == [
            ("dropped", "lost", "UNKNOWN_VAULT", 1, None),
            ("prepared", "r", "UNKNOWN_VAULT", 0, "r/"),
        ]
        assert QuarantineStore(rig.db).list(reason="BAD_KEY") == []

    def test_retry_releases_one_mark_a_reason_or_all(self, rig: Rig, tmp_path: Path) -> None:
        store = self.aside(rig, tmp_path)

        assert store.retry("shop", reason="BAD_KEY") == 0
        assert store.retry("shop", ref=Ref("dropped", "lost")) == 1
        assert store.retry("shop") == 1
        assert store.list() == []
        assert rig.round().quarantined == 2  # the cause has not changed

    def test_a_discarded_mark_keeps_its_files_and_its_id(self, rig: Rig, tmp_path: Path) -> None:
        store = self.aside(rig, tmp_path)

        store.discard("shop", Ref("dropped", "lost"), "its vault is gone for good")
        store.discard("shop", Ref("prepared", "r"), "the same")

        assert listing(tmp_path / "v") == {"a.dat": 10}
        assert (rig.count("mark"), rig.count("mark_history")) == (0, 2)
        assert rig.count("mark_history", discarded="its vault is gone for good", objects=0) == 1
        with rig.db.write() as c, pytest.raises(Collected):
            commit(c, "shop", ["r"])
        with rig.db.write() as c, pytest.raises(Refused, match="gone"):
            undrop(c, "shop", "dropped", ["lost"])

    @pytest.mark.slow
    def test_a_half_deleted_mark_can_be_discarded(self, rig: Rig, root: Path) -> None:
        put(root, "a.dat")
        put(root, "dir/b.dat")
        rig.mark("dropped", NewMark(id="half", vault="disk", keys=("a.dat", "dir")))
        rig.later(10_801)
        for _ in range(8):
            rig.round()
        store = QuarantineStore(rig.db)
        (found,) = store.list("shop")

        store.discard("shop", Ref("dropped", "half"), "dir is a directory")

        assert (found.state, found.reason, found.failures) == ("CLAIMED", "DELETE_FAILED", 8)
        assert (rig.count("mark"), rig.count_files()) == (0, 0)
        assert listing(root) == {"dir/b.dat": 10}
        assert rig.round().waiting == 0

    def test_only_a_quarantined_mark_is_retried_or_discarded(self, rig: Rig, tmp_path: Path) -> None:
        store = self.aside(rig, tmp_path)
        rig.mark("dropped", NewMark(id="fine", vault="disk", keys=("b.dat",)))

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


class TestChanged:
    """What was written anew after it was marked: trying it again deletes what is there now."""

    def changed(self, rig: Rig, tmp_path: Path) -> QuarantineStore:
        """Set two marks aside, ``dropped/lost`` because an object changed."""
        store = TestQuarantine().aside(rig, tmp_path)
        rig.sql("UPDATE {}mark SET quarantined_reason = 'CHANGED', last_error = 'another ETag' WHERE id = 'lost'")
        return store

    def test_retry_all_can_exclude_a_reason(self, rig: Rig, tmp_path: Path) -> None:
        store = self.changed(rig, tmp_path)

        assert store.retry("shop", but=Reason.CHANGED) == 1
        assert [(q.id, q.reason) for q in store.list()] == [("lost", "CHANGED")]

    def test_retry_all_leaves_changed_objects_in_quarantine(
        self, rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store = self.changed(rig, tmp_path)

        all_ = run(rig, capsys, "quarantine", "retry", "shop", "--all")

        assert all_.code == 0
        assert "1 mark with overwritten objects stays quarantined" in all_.out
        assert "sexton quarantine list shop --reason CHANGED" in all_.out
        assert "tries 1 mark again" in all_.out
        assert [q.id for q in store.list()] == ["lost"]

    def test_why_names_both_ways_out_of_a_changed_object(
        self, rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.changed(rig, tmp_path)

        told = run(rig, capsys, "why", "lost").out

        assert "to keep the object that exists now: sexton quarantine discard shop dropped/lost --reason TEXT" in told
        assert "to delete it: sexton quarantine retry shop dropped/lost" in told
        assert "to try it again" not in told

    @pytest.mark.parametrize("words", [("--reason", "CHANGED"), ("dropped/lost",)], ids=["reason", "mark"])
    def test_the_command_confirms_a_retry_of_changed_objects(
        self, rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
    ) -> None:
        store = self.changed(rig, tmp_path)

        asked = run(rig, capsys, "quarantine", "retry", "shop", *words)
        between = {q.id for q in store.list()}
        told = run(rig, capsys, "quarantine", "retry", "shop", *words, "--deletes-current")

        assert (asked.code, between) == (1, {"lost", "r"})
        assert "a retry deletes the object that exists now" in asked.err
        assert "repeat it with --deletes-current" in asked.err
        assert (told.code, told.err, "tries 1 mark again" in told.out) == (0, "", True)
        assert [q.id for q in store.list()] == ["r"]

    def test_an_object_that_changes_during_a_retry_keeps_its_mark(
        self, rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = TestQuarantine().aside(rig, tmp_path)
        look = QuarantineStore.list

        def changes(store: QuarantineStore, *given: Any, **named: Any) -> Any:
            seen = look(store, *given, **named)
            rig.sql("UPDATE {}mark SET quarantined_reason = 'CHANGED' WHERE id = 'lost'")
            return seen

        monkeypatch.setattr(QuarantineStore, "list", changes)
        printed = run(rig, capsys, "quarantine", "retry", "shop", "dropped/lost")
        monkeypatch.undo()

        assert printed.code == 1
        assert {q.id: q.reason for q in store.list()}["lost"] == "CHANGED"

    def test_all_never_deletes_what_exists_now(
        self, rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.changed(rig, tmp_path)

        printed = run(rig, capsys, "quarantine", "retry", "shop", "--all", "--deletes-current")

        assert (printed.code, "--reason CHANGED --deletes-current" in printed.err) == (64, True)

    def test_the_command_confirms_no_retry_of_other_reasons(
        self, rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store = self.changed(rig, tmp_path)

        told = [
            run(rig, capsys, "quarantine", "retry", "shop", *words)
            for words in (("--reason", "UNKNOWN_VAULT"), ("--reason", "UNKNOWN_VAULT"))
        ]

        assert [t.code for t in told] == [0, 0]
        assert "tries 1 mark again" in told[0].out
        assert told[1].out == "no matching mark is quarantined\n"
        assert [q.id for q in store.list()] == ["lost"]


@pytest.mark.slow
def test_objects_deleted_before_a_discard_are_counted(rig: Rig, root: Path) -> None:
    put(root, "a.dat")
    put(root, "dir/b.dat")
    rig.mark("dropped", NewMark(id="half", vault="disk", keys=("a.dat", "dir")))
    rig.later(10_801)
    for _ in range(8):
        rig.round()

    QuarantineStore(rig.db).discard("shop", Ref("dropped", "half"), "dir is a directory")

    assert rig.count("mark_history", objects=1, bytes=10) == 1
    with rig.db.read() as c:
        assert sum(c.execute(select(rig.db.t.tally.c.deleted)).scalars()) == 1


HOLD = Hold(instance="shop", scope="prefix", vault="disk", prefix="t/", reason="a test")


class NamingOwner(SqlOwner):
    """An owner that names the files of its marks."""

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> Mapping[Ref, Expansion]:
        places = (Place(vault="disk", keys=("k0.dat", "k1.dat")),)
        return {mark.ref: Expansion(places=places, fence=False) for mark in marks}


def change(name: str) -> Any:
    """Return a replacement of ``LocalVault.delete`` that finds another object under one key."""
    delete = refusing(name)

    def find_changed(*arguments: Any) -> list[KeyResult]:
        return [r._replace(outcome=KeyOutcome.CHANGED) if r.key == name else r for r in delete(*arguments)]

    return find_changed


def test_a_hold_counts_marks_whose_deletes_are_tried_again(rig: Rig, root: Path) -> None:
    rig.drop(root, "t/a.dat", "m", later=DUE_SECONDS)
    refused_round(rig, "t/a.dat")

    _, claimed = rig.holds.place(HOLD, DAY)
    rig.round()

    assert (claimed, listing(root)) == (1, {})


def test_an_undelete_needs_all_files_that_the_owner_names(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, "k0.dat")
    put(root, "k1.dat")
    rig.recycler = rig.recycler_of(NamingOwner(OwnerContext(rig.db, rig.registry)))
    rig.mark("dropped", NewMark(id="m", vault=None))
    rig.later(DUE_SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(LocalVault, "delete", change("k1.dat"))
        rig.round()
    QuarantineStore(rig.db).retry("shop", ref=Ref("dropped", "m"))
    put(root, "k0.dat")
    rig.later(GRACE + 1)
    refused_round(rig, "k0.dat")
    assert [file.key for file in stored_files(rig.db)] == ["k1.dat"]

    with pytest.raises(UndeleteUnsafe, match="mark dropped m"):
        ensure_undelete_is_safe(rig.db, "shop", "disk", keys=("k0.dat",))


def test_an_undelete_is_safe_beside_lists_of_other_marks(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "MAX_FAILURES", 1)
    root = rig.local(tmp_path / "v")
    put(root, "t/a.dat")
    put(root, "u/b.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", prefix="t/"), NewMark(id="n", vault="disk", keys=("u/b.dat",)))
    rig.later(DUE_SECONDS)
    refused_round(rig, "u/b.dat")
    rig.holds.place(HOLD, DAY)

    rig.rounds.open("shop", "the next round", None, rig.policy)

    ensure_undelete_is_safe(rig.db, "shop", "disk", prefix="t/")


def test_a_discard_and_a_second_pass_lock_in_one_order(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mark in ("m1", "m2"):
        put(root, f"{mark}/a.dat")
        rig.mark("dropped", NewMark(id=mark, vault="disk", prefix=f"{mark}/"))
    rig.later(DUE_SECONDS)
    rig.round()
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
    rig.sql(
        "UPDATE {}mark SET quarantined_reason = :reason WHERE instance = :instance AND kind = :kind AND id = :id",
        reason=reason,
        instance=instance,
        kind=kind,
        id=id_,
    )


@pytest.mark.parametrize("freed", [False, True])
def test_marks_that_only_the_owner_frees_are_read_in_pages(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, freed: bool
) -> None:
    monkeypatch.setattr("sexton.recycle.pipeline.sql.owner_marks.ASKED_AT_ONCE", 2)
    rig.instance("other")
    for kind, id_ in (("dropped", "c"), ("dropped", "a"), ("compacted", "b"), ("prepared", "a"), ("dropped", "b")):
        aside(rig, kind, id_, Reason.SCHEMA_MISSING)
    aside(rig, "dropped", "failed", Reason.DELETE_FAILED)
    aside(rig, "dropped", "other", Reason.SCHEMA_MISSING, "other")
    rig.mark("dropped", NewMark(id="free", vault="disk", keys=("a",)))

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
