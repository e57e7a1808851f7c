"""What a claim reads, writes and leaves alone: keepers, children, limits, other batches and instances."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, select

from sexton import contract
from sexton.contract import NewMark
from sexton.marks.kept import BY_LIMIT, LIVE, OWNER_BUSY, WAITS_FOR_CHILD, Kept, by_hold
from sexton.marks.model import (
    Candidate,
    ClaimRequest,
    ClaimResult,
    File,
    FilePage,
    MarkState,
    Reason,
    Ref,
    Span,
    WriteToken,
)
from sexton.marks.sql.keeper import Keeper
from sexton.operators.controls.model import ControlKind, Halted, NotEnabled
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.claims import FAR_MS, claim, drop_unclaimed, mark_keys, token
from tests.support.rig import DAY, Rig

TABLE, TABLET = Ref("dropped", "t"), Ref("tablet", "c")
FAMILY = Candidate(TABLE, files=1, children=frozenset({TABLET}))


class FakeKeeper(Keeper):
    """A keeper with fixed answers; it notes about what it was asked, and what was claimed."""

    def __init__(self, answers: Mapping[Ref, Kept], *, for_claims_only: bool = False) -> None:
        self.answers, self.for_claims_only = answers, for_claims_only
        self.judged: list[tuple[Ref, Ref | None]] = []
        self.claimed: list[Ref] = []

    def snapshot(self, token: WriteToken, refs: Collection[Ref], files: Span) -> Any:
        return None

    def blocking(
        self, tx: Connection, token: WriteToken, candidates: Sequence[Candidate], files: Span, now: int, snapshot: Any
    ) -> Mapping[Ref, Kept]:
        self.judged += [(candidate.ref, candidate.parent) for candidate in candidates]
        return self.answers

    def on_claimed(self, tx: Connection, token: WriteToken, claimed: Sequence[Candidate]) -> None:
        self.claimed += [candidate.ref for candidate in claimed]


def claim_store(rig: Rig, *keepers: FakeKeeper) -> ClaimStore:
    return ClaimStore(rig.db, rig.controls, keepers)


def mark_family(rig: Rig, instance: str = "shop") -> None:
    """Mark a table by its prefix, and a tablet below it."""
    rig.mark("dropped", NewMark(id="t", vault="disk", prefix="data/t/"), instance=instance)
    tablet = NewMark(id="c", vault="disk", prefix="data/t/c/", parent=("dropped", "t"))
    rig.mark("tablet", tablet, instance=instance)


def claim_family(rig: Rig, with_: WriteToken) -> ClaimResult:
    """Claim the table together with its tablet."""
    rig.stores.files.store(with_, [File("dropped", "t", "disk", "data/t/a.dat", 1)])
    return rig.stores.claims.claim(ClaimRequest(with_, [FAMILY], FAR_MS, {TABLET: Candidate(TABLET, parent=TABLE)}))


def claim_objects(rig: Rig, with_: WriteToken, name: str, objects: int) -> ClaimResult:
    """Claim a mark of so many objects, at most 10 within 24 hours."""
    mark_keys(rig, name)
    request = ClaimRequest(with_, [Candidate(Ref("dropped", name), files=objects)], FAR_MS, allowance=10)
    return rig.stores.claims.claim(request)


def rows_of(rig: Rig, instance: str) -> dict[str, list[str]]:
    """Return the marks, files and history of an instance."""
    t = rig.db.t
    with rig.db.read() as c:
        tables = (t.mark, t.file_list, t.mark_history)
        return {
            table.name: sorted(map(repr, c.execute(select(table).where(table.c.instance == instance))))
            for table in tables
        }


def settle(rig: Rig, with_: WriteToken) -> list[Ref]:
    """Settle the family, whose only file is deleted; return the marks whose records are removed with the table's."""
    result = KeyResult(key="data/t/a.dat", outcome=KeyOutcome.DELETED, bytes=1)
    rig.stores.outcomes.record(with_, FilePage("disk", [1], ["data/t/a.dat"]), [result])
    [table] = rig.stores.settlements.progress(with_, [TABLE])
    rig.stores.settlements.settle(with_, [table], 0)
    return table.absorbed


class TestKeepers:
    def test_the_first_keeper_that_answers_counts(self, rig: Rig) -> None:
        mark_keys(rig, "a", "b")
        first, second = FakeKeeper({Ref("dropped", "a"): by_hold(1)}), FakeKeeper({Ref("dropped", "a"): LIVE})
        request = ClaimRequest(token(rig), [Candidate(Ref("dropped", "a")), Candidate(Ref("dropped", "b"))], FAR_MS)

        result = claim_store(rig, first, second).claim(request)

        assert (result.claimed, result.keep_reasons) == ({Ref("dropped", "b")}, {Ref("dropped", "a"): by_hold(1)})

    def test_keepers_judge_children_and_learn_what_is_claimed(self, rig: Rig) -> None:
        mark_family(rig)
        with_ = token(rig)
        request = ClaimRequest(with_, [FAMILY], FAR_MS)
        always, for_claims = FakeKeeper({TABLE: by_hold(1)}), FakeKeeper({TABLE: LIVE}, for_claims_only=True)

        assert claim_store(rig, for_claims, always).ask_keepers_outside_claim(with_, [FAMILY]) == {TABLE: by_hold(1)}
        assert for_claims.judged == []

        blocked = claim_store(rig, FakeKeeper({TABLET: by_hold(1)})).claim(request)
        assert (blocked.claimed, blocked.keep_reasons) == (set(), {TABLE: by_hold(1)})
        assert rig.count("mark", state="MARKED") == 2

        keeper = FakeKeeper({})
        claim_store(rig, keeper).claim(request)
        assert keeper.judged == [(TABLE, None), (TABLET, TABLE)]
        assert keeper.claimed == [TABLE]


class TestChildren:
    def test_a_child_is_claimed_with_its_parent(self, rig: Rig) -> None:
        mark_family(rig)
        rig.sql("UPDATE {}mark SET quarantined_reason = :reason WHERE id = 'c'", reason=Reason.BAD_KEY)
        with_ = token(rig)
        rig.stores.files.store(with_, [File("tablet", "c", "disk", "data/t/c/a.dat", 1)])

        assert claim_family(rig, with_).claimed == {TABLE}

        child, parent = rig.row(*TABLET), rig.row(*TABLE)
        assert (child.state, child.absorbed, child.batch) == (MarkState.CLAIMED, True, with_.batch)
        assert (parent.state, parent.absorbed, parent.batch) == (MarkState.CLAIMED, False, with_.batch)
        assert list(rig.stores.due_marks.claimed_marks(with_)) == [[TABLE]]
        assert child.quarantined_reason is None
        assert (rig.count_files(id="c"), rig.count_files(id="t")) == (0, 1)

    def test_only_claimed_children_leave_with_their_parent(self, rig: Rig) -> None:
        mark_family(rig)
        with_ = token(rig)
        claim_family(rig, with_)
        rig.mark("tablet", NewMark(id="late", vault="disk", prefix="data/t/late/", parent=("dropped", "t")))

        settle(rig, with_)
        assert rig.count("mark", state="CLAIMED") == 2  # the prefix is listed a second time first

        assert settle(rig, with_) == [TABLET]
        assert (rig.row("tablet", "late").state, rig.count("mark")) == (MarkState.MARKED, 1)
        assert rig.count("mark_history") == 2

    @pytest.mark.parametrize(
        ("files", "kept"), [({"keys": ("data/t",)}, WAITS_FOR_CHILD), ({"prefix": "data/t/"}, OWNER_BUSY)]
    )
    def test_a_child_that_its_owner_commits_keeps_its_parent(self, rig: Rig, files: Any, kept: Kept) -> None:
        """A commit also locks the prefixes above it."""
        child = Ref("prepared", "r1")
        rig.mark("dropped", NewMark(id="t", vault="disk", **files))
        with rig.db.write() as c:
            contract.prepare(c, "shop", "load", ["r1"], "disk", ["data/t/r1/"], 1, ("dropped", ["t"]))
        parent = Candidate(TABLE, children=frozenset({child}))
        with_ = token(rig)

        with rig.db.engine.connect() as owner:
            contract.commit(owner, "shop", ["r1"])
            result = rig.stores.claims.claim(ClaimRequest(with_, [parent], FAR_MS))  # does not wait for the owner
            owner.rollback()

        assert (result.claimed, result.keep_reasons) == (set(), {TABLE: kept})


class TestLimit:
    def test_claims_of_one_batch_share_the_limit(self, rig: Rig) -> None:
        with_ = token(rig)

        kept = [claim_objects(rig, with_, f"m{n}", objects).keep_reasons for n, objects in enumerate((4, 4, 3, 2, 1))]

        assert [list(answers.values()) for answers in kept] == [[], [], [BY_LIMIT], [], [BY_LIMIT]]

    def test_the_limit_counts_for_24_hours_and_one_instance(self, rig: Rig) -> None:
        rig.instance("zoo")
        rig.mark("dropped", NewMark(id="m0", vault="disk", keys=("m0.dat",)), instance="zoo")
        in_zoo = token(rig, run="zoo", instance="zoo")
        full = ClaimRequest(in_zoo, [Candidate(Ref("dropped", "m0"), files=10)], FAR_MS, allowance=10)
        assert rig.stores.claims.claim(full).keep_reasons == {}
        first = token(rig, run="first")
        assert claim_objects(rig, first, "m1", 10).keep_reasons == {}
        assert list(claim_objects(rig, first, "m2", 1).keep_reasons.values()) == [BY_LIMIT]
        rig.later(DAY - 60)
        assert list(claim_objects(rig, token(rig, run="second"), "m3", 1).keep_reasons.values()) == [BY_LIMIT]
        rig.later(DAY + 60)

        assert claim_objects(rig, token(rig, run="third"), "m4", 10).keep_reasons == {}


class TestOtherBatchesAndInstances:
    def test_another_instances_marks_and_files_stay(self, rig: Rig) -> None:
        rig.instance("zoo")
        for instance in ("shop", "zoo"):
            mark_family(rig, instance)
        in_zoo = token(rig, run="zoo", instance="zoo")
        rig.stores.files.store(in_zoo, [File("tablet", "c", "disk", "data/t/c/b.dat", 1)])
        claim(rig, in_zoo, "dropped", "t")
        result = KeyResult(key="data/t.dat", outcome=KeyOutcome.FAILED, reason="AccessDenied")
        rig.stores.outcomes.record(in_zoo, FilePage("disk", [2], ["data/t.dat"]), [result])
        before = rows_of(rig, "zoo")

        with_ = token(rig)
        assert claim_family(rig, with_).claimed == {TABLE}
        settle(rig, with_)
        settle(rig, with_)

        assert rows_of(rig, "zoo") == before
        assert (rig.count("mark", instance="shop"), rig.count("file_list", instance="shop")) == (0, 0)

    def test_another_batch_neither_claims_nor_settles_a_claimed_mark(self, rig: Rig) -> None:
        mark_keys(rig, "a")
        first, second = token(rig, number=0), token(rig, number=1)
        claim(rig, first, "dropped", "a")

        assert claim(rig, second, "dropped", "a").claimed == set()

        assert (rig.count_files(batch=first.batch), rig.count_files(batch=second.batch)) == (1, 0)
        assert rig.stores.settlements.progress(second, [Ref("dropped", "a")]) == []
        assert len(rig.stores.settlements.progress(first, [Ref("dropped", "a")])) == 1
        rig.sql("UPDATE {}mark SET quarantined_reason = :reason WHERE id = 'a'", reason=Reason.CHANGED)
        assert rig.stores.settlements.progress(first, [Ref("dropped", "a")]) == []

    def test_files_that_a_dead_round_stored_are_not_deleted(self, rig: Rig) -> None:
        mark_keys(rig, "a")
        dead, alive = token(rig, number=0), token(rig, number=1)
        rig.stores.files.store(dead, [File("dropped", "a", "disk", "data/other.dat", 1)])

        claim(rig, alive, "dropped", "a")

        assert rig.stores.files.pages(dead, 0, 10) == []
        assert [page.keys for page in rig.stores.files.pages(alive, 0, 10)] == [["data/a.dat"]]
        drop_unclaimed(rig, dead)
        assert (rig.count_files(batch=dead.batch), rig.count_files(batch=alive.batch)) == (0, 1)


def test_no_claim_is_made_where_nothing_may_be_deleted(rig: Rig) -> None:
    mark_keys(rig, "a")
    with_ = token(rig)

    for stopped in ("shop", "*"):
        rig.controls.put(ControlKind.STOP, stopped, "drill")
        with pytest.raises(Halted):
            claim(rig, with_, "dropped", "a")
        rig.controls.remove(ControlKind.STOP, stopped)
    rig.registry.observe("shop")
    with pytest.raises(NotEnabled):
        claim(rig, with_, "dropped", "a")

    assert rig.row("dropped", "a").state == MarkState.MARKED
