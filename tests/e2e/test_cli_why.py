"""The commands `sexton why` and `sexton deletions` work without Temporal."""

import json
from pathlib import Path

import pytest

from sexton.database.engine import Database
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.registry.store import Registry
from sexton.operators.stores import operator_stores
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds.model import CloseOrder
from sexton.recycle.rounds.sql.store import RoundStore
from sexton.storage.vaults import ProvenVaults
from tests.e2e.conftest import Run, settings
from tests.support.rig import GRACE, INTERVAL, RETENTION


@pytest.fixture
def told(shop: Database, tmp_path: Path) -> int:
    """The number of a round that deleted two objects of a mark that SQL has forgotten, and failed at one of ``t1``."""
    registry = Registry(shop)
    registry.enable("shop")
    rounds = RoundStore(shop, LeaseStore(shop), operator_stores(shop), INTERVAL)
    opened = rounds.open("shop", "run", None, policy(RETENTION, GRACE))
    rounds.close(CloseOrder(opened=opened, plan=None, outcome="SUCCEEDED"))
    with shop.read() as c:
        row = AuditRow(shop.now(c), "shop", opened.round, 1, 1, "dropped", "old", "disk", "data/old", 7, "deleted", "")
    vaults = ProvenVaults(registry.vault, settings(tmp_path, "")["SEXTON_DEPLOYMENT"])
    other = row._replace(seq=2, key="data/öld")
    failed = row._replace(seq=3, id="t1", key="data/a.dat", outcome="failed", reason="AccessDenied", bytes=None)
    ParquetAudit(AuditLocations(vaults, registry.vaults), 400).write([row, other, failed])
    return opened.round


def test_why_fails_for_an_unknown_object(offline: Run, shop: Database) -> None:
    as_text = offline("why", "no/such/key")
    as_json = offline("why", "no/such/key", "--json")

    assert (as_text.returncode, as_text.stdout) == (1, "")
    assert "nothing is known of no/such/key" in as_text.stderr
    assert "--deep" not in as_text.stderr
    assert (as_json.returncode, json.loads(as_json.stdout)["items"]) == (1, [])


def test_why_finds_an_expired_history_with_deep(offline: Run, shop: Database, told: int) -> None:
    shallow = offline("why", "data/old")
    deep = offline("why", "data/old", "--deep", "--last", "1d")
    as_json = offline("why", "old", "--deep", "--json")
    nobody = offline("why", "data/olx", "--deep")

    assert shallow.returncode == 1
    assert "sexton why data/old --deep reads 1 file of it" in shallow.stderr
    assert deep.returncode == 0
    assert "shop  dropped old" in deep.stdout
    assert f"gone: data/old in vault disk deleted, 7 bytes, batch 1, round {told}" in deep.stdout
    [story] = json.loads(as_json.stdout)["items"]
    assert [e["event"] for e in story["events"]] == ["object_deleted", "object_deleted"]
    assert (nobody.returncode, "nothing is known of data/olx" in nobody.stderr) == (1, True)


def test_deep_search_repeats_no_known_event(offline: Run, shop: Database, told: int) -> None:
    deep = offline("why", "t1", "--deep", "--json")

    [one] = json.loads(deep.stdout)["items"]
    assert (one["mark"], one["events"][0]["event"]) == ("t1", "marked")


def test_audit_prints_each_object_of_a_round(offline: Run, shop: Database, told: int) -> None:
    everything = offline("deletions", str(told))
    failed = offline("deletions", str(told), "--outcome", "failed", "--json")

    assert len(everything.stdout.splitlines()) == 3
    assert "deleted  disk  data/öld 7 bytes  (dropped old, batch 1)" in everything.stdout
    [row] = [json.loads(line) for line in failed.stdout.splitlines()]
    assert (row["key"], row["bytes"], row["reason"]) == ("data/a.dat", None, "AccessDenied")


def test_deletions_reads_the_audit_at_its_configured_place(
    offline: Run, shop: Database, told: int, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    registry, deployment, url = Registry(shop), settings(tmp_path, "")["SEXTON_DEPLOYMENT"], f"{tmp_path}/elsewhere"
    vaults = ProvenVaults(registry.vault, deployment)
    places = AuditLocations(vaults, registry.vaults, audit_url=url, deployment=deployment)
    with shop.read() as c:
        row = AuditRow(shop.now(c), "shop", told, 2, 1, "dropped", "new", "disk", "data/new", 7, "deleted", "")
    ParquetAudit(places, 400).write([row])

    there = offline("deletions", str(told), SEXTON_AUDIT__AUDIT_URL=f"file://{url}")
    unset = offline("deletions", str(told))

    assert "data/new" in there.stdout
    assert len(there.stdout.splitlines()) == 4
    assert "data/new" not in unset.stdout


def test_unreadable_audit_is_an_error(offline: Run, shop: Database, told: int, tmp_path: Path) -> None:
    (tmp_path / "v").rename(tmp_path / "unmounted")

    printed = offline("deletions", str(told))

    assert (printed.returncode, printed.stdout) == (1, "")
    assert "vault disk: NO_" in printed.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("deletions", "99"), 1, "there is no round 99"),
        (("deletions", "first"), 64, "ROUND"),
        (("deletions", "1", "--outcome", "lost"), 64, "'lost' is no outcome"),
        (("why", "x", "--instance", "nobody"), 1, "unknown instance nobody"),
        (("why", "x", "--last", "9d"), 64, "--last goes with --deep"),
        (("why", "a\udcffb"), 64, "has bytes that are no text here"),
        (("why", "a\0b"), 64, "'a\\x00b' is not text"),
        (("why", "x", "--deep", "--last", "soon"), 64, "'soon' is not a duration"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    offline: Run, shop: Database, words: tuple[str, ...], code: int, says: str
) -> None:
    refused = offline(*words)

    assert refused.returncode == code
    assert says in refused.stderr
    assert "Traceback" not in refused.stderr
