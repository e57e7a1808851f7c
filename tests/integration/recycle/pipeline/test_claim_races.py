"""Committers, undroppers and a claimer run at once, and no committed or undropped mark is claimed."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from sexton import contract
from sexton.contract import Collected, NewMark, Refused
from sexton.interfaces import selftest
from sexton.kernel import crash_points
from sexton.marks.kept import OWNER_BUSY
from sexton.marks.model import Candidate, ClaimRequest, Ref
from tests.support.claims import FAR_MS, claim, token
from tests.support.crashes import at_point
from tests.support.door import door_at
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.kept import kept_texts
from tests.support.locks import wait_for_lock_waiter
from tests.support.pauses import Pauses
from tests.support.rig import Rig, listing, put

PAUSE_SECONDS = 0.02
SLEEP = """
CREATE FUNCTION doze() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_sleep(random() * 0.02); RETURN coalesce(OLD, NEW); END $$;
CREATE TRIGGER doze AFTER UPDATE ON sexton.instance_guard FOR EACH ROW EXECUTE FUNCTION doze();
CREATE TRIGGER doze BEFORE DELETE ON sexton.mark FOR EACH STATEMENT EXECUTE FUNCTION doze();
CREATE TRIGGER doze_on_row BEFORE DELETE ON sexton.mark FOR EACH ROW WHEN (OLD.state = 'MARKED')
    EXECUTE FUNCTION doze();
"""


@pytest.fixture
def arena(rig: Rig) -> Rig:
    """A database that pauses where committers, undroppers and claimers meet."""
    rig.sql(SLEEP)
    return rig


@pytest.mark.slow
def test_no_committed_or_undropped_mark_is_claimed(arena: Rig) -> None:
    """Whoever wins; the interleavings that matter are forced below."""
    with crash_points.installed(Pauses(PAUSE_SECONDS)):
        result = selftest.run(arena.db, marks=400, threads=4)

    assert (result.committed_and_claimed, result.undropped_and_claimed, result.lost) == (0, 0, 0), result


def test_the_race_detects_a_faulty_owner_and_leaves_no_rows(arena: Rig) -> None:
    def blind(c: object, instance: str, ids: list[str]) -> None:
        """An owner that believes its transaction is still open, and never asks."""

    with crash_points.installed(Pauses(PAUSE_SECONDS)):
        eventually(
            "a race is lost",
            lambda: selftest.run(arena.db, marks=160, threads=2, commit=blind).committed_and_claimed > 0,
        )

    for table in ("mark", "mark_history", "file_list", "batch", "round", "tally", "lease"):
        assert arena.count(table) == 0, table
    assert [i.id for i in arena.registry.instances()] == ["shop"]
    assert arena.count("instance_guard") == 2


def test_a_claim_does_not_wait_for_an_owners_commit(rig: Rig) -> None:
    rig.prepare("r1", "r2", ttl=1)
    write_token = token(rig, "prepared")
    with rig.db.engine.connect() as owner:
        contract.commit(owner, "shop", ["r1"])

        first = claim(rig, write_token, "prepared", "r1", "r2")  # waiting would end with GuardBusy

        assert (first.claimed, first.keep_reasons) == ({Ref("prepared", "r2")}, {Ref("prepared", "r1"): OWNER_BUSY})
        assert rig.count_files(id="r1") == 0
        owner.rollback()
    second = claim(rig, write_token, "prepared", "r1")

    assert (second.claimed, second.keep_reasons) == ({Ref("prepared", "r1")}, {})


def test_a_commit_open_during_the_claim_keeps_its_files(rig: Rig, root: Path) -> None:
    put(root, "data/r1/a.dat")
    rig.prepare("r1", ttl=1)
    rig.later(259_202)
    with rig.db.engine.connect() as owner:
        contract.commit(owner, "shop", ["r1"])

        report = rig.round()

        assert (kept_texts(report), report.claimed) == ({"owner's transaction": 1}, 0)
        owner.commit()

    assert (rig.round().due, listing(root), rig.count("mark")) == (0, {"data/r1/a.dat": 10}, 0)


def test_r08_a_mark_committed_before_the_claim_is_not_claimed(rig: Rig, root: Path) -> None:
    put(root, "data/r1/a.dat")
    put(root, "data/r2/b.dat")
    rig.prepare("r1", "r2", ttl=1)
    rig.later(259_202)

    with crash_points.installed(at_point("resolve.stored", lambda: rig.commit("r1"))):
        report = rig.round()

    assert (report.due, report.claimed, report.failed) == (2, 1, 0)
    assert listing(root) == {"data/r1/a.dat": 10}
    assert rig.row("prepared", "r1") is None
    assert (rig.count("mark_history"), rig.count_files()) == (0, 0)


@pytest.mark.parametrize(
    ("point", "kind"),
    [
        ("claim.guarded", "dropped"),
        ("claim.written", "dropped"),
        ("claim.checked", "prepared"),
        ("claim.written", "prepared"),
    ],
)
def test_a_commit_that_waited_for_a_claim_sees_it(rig: Rig, point: str, kind: str) -> None:
    rig.prepare("t", ttl=1)
    rig.mark("dropped", NewMark(id="t", vault="disk", prefix="data/t/"))
    write_token = token(rig, kind)

    with ThreadPoolExecutor(2) as pool, door_at(point) as door:
        claimer = pool.submit(rig.stores.claims.claim, ClaimRequest(write_token, [Candidate(Ref(kind, "t"))], FAR_MS))
        assert door.reached.wait(PATIENCE_SECONDS)
        undrop = partial(rig.undrop_marks, "dropped", "t")
        owner = pool.submit(undrop if kind == "dropped" else partial(rig.commit, "t"))
        wait_for_lock_waiter(rig.db)
        door.open()

        assert claimer.result(PATIENCE_SECONDS).claimed == {Ref(kind, "t")}
        with pytest.raises(Refused if kind == "dropped" else Collected, match=r"t (is )?claimed in batch"):
            owner.result(PATIENCE_SECONDS)
    assert rig.row(kind, "t").state == "CLAIMED"


def test_a_claim_behind_an_open_undrop_finds_nothing(rig: Rig) -> None:
    rig.mark("dropped", NewMark(id="t", vault="disk", prefix="data/t/"))
    write_token = token(rig)

    with rig.db.write() as owner, ThreadPoolExecutor(1) as pool:
        contract.undrop(owner, "shop", "dropped", ["t"])
        claimer = pool.submit(
            rig.stores.claims.claim, ClaimRequest(write_token, [Candidate(Ref("dropped", "t"))], FAR_MS)
        )
        wait_for_lock_waiter(rig.db)
        owner.commit()

        result = claimer.result(PATIENCE_SECONDS)

    assert (result.claimed, result.keep_reasons, rig.count("mark")) == (frozenset(), {}, 0)
