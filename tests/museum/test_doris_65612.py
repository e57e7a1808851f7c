"""Doris #65612: one entry that could not be recycled blocked the queue permanently, and its age the watermark.

Sexton skips a failing mark in the same round, quarantines it after eight failures and shows it. The age of the oldest
due mark leaves it out, and each reason has a way out.
"""

import json

import pytest

from sexton.contract import NewMark
from sexton.marks.model import MAX_FAILURES, Ref
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from tests.fault.conftest import Faulty
from tests.museum.tables import deleted_ids, marks
from tests.support.command import run
from tests.support.rig import GRACE
from tests.support.scrape import scrape

pytestmark = pytest.mark.slow

DENIED = {"stuck/denied.dat": "AccessDenied", "stuck/daily.dat": "AccessDenied"}
STUCK = {
    "denied": "DELETE_FAILED",
    "daily": "DELETE_FAILED",
    "nowhere": "UNKNOWN_VAULT",
    "notakey": "BAD_KEY",
    "nofiles": "UNEXPANDED",
    "json": "BAD_KEY",
}
KINDS = ("dropped", "compacted")


def stuck(cold: Faulty) -> None:
    """Mark things, older than all others of their kind, that no round can bring to an end."""
    cold.put(*DENIED, size=7)
    cold.proxy.fail_keys(DENIED)
    cold.rig.mark(
        "dropped",
        NewMark(id="denied", vault="cold", keys=("stuck/denied.dat",), bytes=7),
        NewMark(id="daily", vault="cold", keys=("stuck/daily.dat",), bytes=7),
        NewMark(id="nowhere", vault="lost", keys=("x/y.dat",)),
        NewMark(id="notakey", vault="cold", keys=("a/../b.dat",)),
        NewMark(id="nofiles", vault="cold"),
    )
    cold.rig.sql(
        "INSERT INTO {}mark (instance, kind, id, vault, keys) VALUES ('shop', 'dropped', 'json', 'cold', '[7]')"
    )
    cold.rig.later(60)


def others(cold: Faulty, turn: int) -> set[str]:
    """Write and mark what can go, of two kinds, and let all fall due; return the ids."""
    ids = [f"{kind}-{turn}-{n}" for kind in KINDS for n in range(10)]
    cold.put(*(f"data/{i}.dat" for i in ids), size=7)
    for kind in KINDS:
        named = (i for i in ids if i.startswith(kind))
        cold.rig.mark(kind, *(NewMark(id=i, vault="cold", keys=(f"data/{i}.dat",), bytes=7) for i in named))
    cold.rig.later(10_801)
    return set(ids)


def oldest_due(cold: Faulty, kind: str = "dropped") -> float | None:
    return scrape(cold.rig)("sexton_oldest_due_age_seconds", instance_id="shop", kind=kind)


def test_doris_65612_stuck_mark_is_quarantined_alone(cold: Faulty, capsys: pytest.CaptureFixture[str]) -> None:
    stuck(cold)
    reports, went = [], set()
    for turn in range(MAX_FAILURES + 1):
        went |= others(cold, turn)
        reports.append(cold.rig.round())

        assert deleted_ids(cold.rig) == went  # all of this round's, whatever is stuck before them
        assert set(cold.listing()) == DENIED.keys()
        assert (oldest_due(cold), oldest_due(cold, "compacted")) == (0, 0)

    row = cold.rig.row("dropped", "denied")
    shown = json.loads(run(cold.rig, capsys, "quarantine", "list", "shop", "--json").out)["items"]
    status = run(cold.rig, capsys, "status")
    tries = [keys for keys in cold.deletes() if "stuck/denied.dat" in keys]
    assert (row.state, row.failures) == ("CLAIMED", MAX_FAILURES)
    assert row.last_error.startswith("AccessDenied")
    assert {q["mark"]: q["reason"] for q in shown} == STUCK
    assert "quarantined" in status.out or "set aside" in status.out
    assert "DELETE_FAILED" in status.out
    assert scrape(cold.rig)("sexton_quarantined_marks", instance_id="shop", reason="DELETE_FAILED") == 2
    assert len(tries) == MAX_FAILURES
    assert reports[0].quarantined == 4
    assert [r.state for r in reports] == ["SUCCEEDED"] * len(reports)
    _has_a_way_out(cold, capsys, sum(r.deleted for r in reports))


def _has_a_way_out(cold: Faulty, capsys: pytest.CaptureFixture[str], deleted: int) -> None:
    """Assert that nothing is tried again at once, but what an operator retries is, and everything once a day."""
    cold.proxy.fail_keys(DENIED, times=0)
    early = cold.rig.round()
    cold.rig.s3(cold.server.create_bucket(), "lost")  # frees by itself what waits for it
    retried = run(cold.rig, capsys, "quarantine", "retry", "shop", "dropped/denied")
    discarded = [
        run(cold.rig, capsys, "quarantine", "discard", "shop", f"dropped/{i}", "--reason", "nonsense", "--yes")
        for i in ("notakey", "nofiles", "json")
    ]
    by_hand, left = cold.rig.round(), set(cold.listing())
    cold.rig.later(86_401)
    last = cold.rig.round()

    assert early.removed == 0
    assert (retried.code, [d.code for d in discarded]) == (0, [0, 0, 0])
    assert (by_hand.removed, left) == (2, {"stuck/daily.dat"})
    assert (last.removed, marks(cold.rig), cold.listing()) == (1, {}, {})
    # Of the other vault's key the store says as well that it is deleted.
    assert (deleted, by_hand.deleted, last.deleted) == (20 * (MAX_FAILURES + 1), 2, 1)


def test_doris_65612_unlisted_prefix_blocks_no_other_mark(cold: Faulty) -> None:
    cold.put("stuck/p/a.dat", size=7)
    cold.rig.mark("dropped", NewMark(id="unlisted", vault="cold", prefix="stuck/p/"))
    cold.rig.later(60)
    cold.proxy.fail_next("ListObjectsV2", 403, "AccessDenied", times=3)
    went: set[str] = set()
    for turn in range(3):
        went |= others(cold, turn)
        cold.rig.round()

        assert deleted_ids(cold.rig) == went
    cold.rig.round()
    cold.rig.later(GRACE + 1)
    cold.rig.round()

    assert deleted_ids(cold.rig) == {*went, "unlisted"}
    assert (marks(cold.rig), cold.listing()) == ({}, {})
    assert not QuarantineStore(cold.rig.db).list(ref=Ref("dropped", "unlisted"))
