"""`sexton blockers` names every reason that keeps a mark, a topic's entries or a binlog's records, with the way out."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.marks.kept import KeepReason, Kept, describe
from sexton.marks.model import Reason
from sexton.runtime.worker_rows import WorkerPresence, WorkerStore
from sexton.wal.model import BlockReason
from tests.servers.postgres import new_database
from tests.support.command import run
from tests.support.rig import DAY, Rig, put

NUMBERS = count(1)
LISTED_AS_OF_NOW = {KeepReason.APPROVAL, KeepReason.QUARANTINED}
"""They have rows of their own, from plans and marks, whatever the last round counted."""


@pytest.fixture(autouse=True)
def _no_temporal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.runtime.temporal.waiting.PATIENCE_SECONDS", 0.0)


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A rig of which each test has an instance of its own."""
    rig = Rig(new_database())
    yield rig
    rig.db.close()


@pytest.fixture
def shop(rig: Rig) -> str:
    """The name of the test's instance."""
    name = f"shop-{next(NUMBERS)}"
    rig.instance(name)
    return name


def blockers(rig: Rig, capsys: pytest.CaptureFixture[str], instance: str) -> list[dict[str, Any]]:
    """Return the rows of the command."""
    answer = run(rig, capsys, "blockers", instance, "--json")
    rows: list[dict[str, Any]] = json.loads(answer.out)["items"]
    return rows


def test_every_reason_to_keep_a_mark_is_named(
    rig: Rig, shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.local(tmp_path / "v", instance=shop)
    report = rig.round(shop)
    kept = {Kept(reason, "7", "why"): 1 for reason in KeepReason}
    body = report.model_copy(update={"kept": kept}).model_dump(mode="json")
    rig.update("round", {"instance": shop}, report=body)

    rows = {row["held_by"]: row for row in blockers(rig, capsys, shop)}

    named = {answer.reason for answer in kept if describe(answer) in rows}
    assert set(KeepReason) - named == LISTED_AS_OF_NOW
    no_way_out = {answer.reason for answer in kept if answer.reason in named and not rows[describe(answer)]["way_out"]}
    assert no_way_out == {KeepReason.OTHER}


@pytest.mark.slow
def test_quarantined_mark_is_named_at_once(
    rig: Rig, shop: str, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    rig.mark("dropped", NewMark(id="a", vault="nowhere", keys=("a.dat",)), instance=shop)
    rig.round(shop, after=10_801)
    [first] = [row for row in blockers(rig, capsys, shop) if row["held_by"].startswith("quarantined")]
    assert first["count"] == 1
    for reason in Reason:
        with subtests.test(reason=reason):
            rig.update("mark", {"instance": shop}, quarantined_reason=str(reason))

            [row] = [row for row in blockers(rig, capsys, shop) if row["held_by"] == f"quarantined: {reason}"]

            assert (row["count"], row["what"]) == (1, "1 mark")
            assert row["since_at"] == rig.row("dropped", "a", shop).marked_at
            assert f"sexton quarantine list {shop} --reason {reason};" in row["way_out"]
            # A retry of CHANGED deletes the object that exists now, so it is one of two choices.
            decides = "then decide for each: sexton quarantine discard, or retry"
            retries = f"once the cause is gone: sexton quarantine retry {shop} --reason {reason}"
            assert row["way_out"].endswith(decides if reason is Reason.CHANGED else retries)


def test_every_reason_that_blocks_a_topic_is_named(
    rig: Rig, shop: str, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    rig.insert("wal_topic", name="blocked", instance=shop, enabled=True, fault="the log refused it", blocked={})
    rig.insert("wal_region", topic="blocked", region="r1", epoch=1, source="map", state="MAPPED")
    for n in range(5):
        rig.insert("wal_topic", name=f"off-{n}", instance=shop, enabled=False)
    [off] = [row for row in blockers(rig, capsys, shop) if row["held_by"] == BlockReason.NOT_ENABLED]
    assert (off["what"], off["count"]) == ("topic off-0, off-1, off-2 and 2 more", 5)
    for reason in set(BlockReason) - {BlockReason.NOT_ENABLED}:
        with subtests.test(reason=reason):
            rig.update("wal_topic", {"name": "blocked"}, blocked={str(reason): 1_000})

            [row] = [row for row in blockers(rig, capsys, shop) if row["held_by"] == reason]

            assert (row["what"], row["since_at"]) == ("topic blocked", 1_000)
            assert row["way_out"] == "sexton wal explain blocked"
            assert row["why"] == {BlockReason.SILENT: "region r1", BlockReason.FAULT: "the log refused it"}.get(
                reason, ""
            )


def test_lagging_regions_and_replays_are_named(rig: Rig, shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    rig.insert("wal_topic", name="lags", instance=shop, enabled=True, log_start=0, log_end=5_000_000)
    region = {"topic": "lags", "epoch": 1, "source": "flushed", "state": "MAPPED", "mapped_node": "n1"}
    for name, keep_from in (("slow", 100), ("slower", 50), ("quick", 4_999_999)):
        rig.insert("wal_region", **region, region=name, keep_from=keep_from)
    pin = {"id": "p", "topic": "lags", "region": "quick", "start": 7, "node": "n2", "kafka_id": "", "log_end": 0}
    rig.insert("wal_pin", **pin, opened_at=rig.now(), expires_at=rig.now() + DAY * 1_000)

    rows = {row["held_by"]: row for row in blockers(rig, capsys, shop)}

    assert rows["region slower, slow"]["what"] == "topic lags: 4,999,950 entries from 50 on"
    assert rows["region slower, slow"]["why"] == "not flushed by node n1"
    assert rows["replay of region quick"]["what"] == "topic lags: entries from 7 on"


def test_silent_followers_and_backends_are_named(rig: Rig, shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    rig.insert("journal_head", instance=shop, seq=10, trimmed=0)
    for name, seen in (("fe-1", rig.now() - 3_600_000), ("fe-2", rig.now())):
        rig.insert("journal_follower", instance=shop, name=name, applied=4, seen_at=seen)
    copy = {"instance": shop, "tablet": "t", "db": "sales", "tbl": "orders", "part": "p", "continuous_version": 9}
    copy["fresh_until"] = rig.now() + DAY * 1_000
    for backend in ("b1", "b2"):
        rig.insert("backend", instance=shop, name=backend, pulled_at=rig.now() - (3_600_000 if backend == "b1" else 0))
        rig.insert("replica", **copy, uid=backend, backend=backend, desired=9, granted=9, acked=3)

    rows = {row["held_by"]: row for row in blockers(rig, capsys, shop)}

    assert rows["follower fe-1"]["what"] == "journal: 6 entries after 4"
    assert rows["backend b1"]["what"] == "binlogs of 1 replica"
    assert not {"follower fe-2", "backend b2"} & rows.keys()


def test_incomplete_and_endless_checks_are_named(
    rig: Rig, shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(rig.local(tmp_path / "v", instance=shop), "a.dat")
    report = rig.check(instance=shop)
    rig.runs.begin(shop, "endless")
    rig.later(2 * DAY)

    rows = [row for row in blockers(rig, capsys, shop) if row["held_by"] == "incomplete check"]

    assert not report.whole
    assert [row["why"] for row in rows] == ["it has not ended", "; ".join(report.run.missing_inputs)]
    assert rows[0]["way_out"].startswith(f"sexton check cancel {shop}")


def test_rows_fit_80_columns(
    rig: Rig, shop: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sexton.interfaces.cli.output.PIPED_WIDTH", 80)
    rig.insert("wal_topic", name="long", instance=shop, enabled=True, quarantined="its end is 3, but " + "x " * 60)

    shown = run(rig, capsys, "blockers", shop).out

    assert "quarantine" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_without_temporal_it_says_what_is_not_listed(rig: Rig, shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    alone = run(rig, capsys, "blockers", shop)
    WorkerStore(rig.db).report(WorkerPresence(worker="w", role="control"))
    answer = run(rig, capsys, "blockers", shop)

    assert "no worker reports to the database" in " ".join(alone.out.split())
    assert (answer.code, answer.out.strip()) == (0, "nothing in the database blocks deletions")
    assert "Temporal did not answer: schedule, workers, paused checks, purges and binlog GCs" in answer.err
    assert "While it is away, no round begins" in answer.err
