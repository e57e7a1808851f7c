"""The commands `sexton why`, `deletions` and `quarantine` work without Temporal."""

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
from tests.support.rig import GRACE, INTERVAL, RETENTION, listing


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


def test_a_question_that_makes_no_sense_is_refused(offline: Run, shop: Database) -> None:
    for words, code, says in [
        (("deletions", "99"), 1, "there is no round 99"),
        (("deletions", "first"), 64, "ROUND"),
        (("deletions", "1", "--outcome", "lost"), 64, "'lost' is no outcome"),
        (("why", "x", "--instance", "nobody"), 1, "unknown instance nobody"),
        (("why", "x", "--last", "9d"), 64, "--last goes with --deep"),
        (("why", "a\udcffb"), 64, "has bytes that are no text here"),
        (("why", "a\0b"), 64, "'a\\x00b' is not text"),
        (("why", "x", "--deep", "--last", "soon"), 64, "'soon' is not a duration"),
    ]:
        refused = offline(*words)

        assert refused.returncode == code
        assert says in refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.fixture
def aside(shop: Database) -> Database:
    """The shop, its mark t1 set aside for failed deletes."""
    mark = shop.t.mark
    poison = {"quarantined_reason": "DELETE_FAILED", "failures": 8, "last_error": "AccessDenied: no"}
    with shop.write() as c:
        c.execute(mark.update().values(**poison))
    return shop


def reasons(db: Database) -> list[str | None]:
    with db.read() as c:
        return [r.quarantined_reason for r in c.execute(db.t.mark.select())]


def test_quarantined_mark_is_listed_and_retried(offline: Run, aside: Database) -> None:
    listed = offline("quarantine", "list", "shop", "--reason", "DELETE_FAILED", "--json")
    people = offline("quarantine", "list")
    other = offline("quarantine", "list", "--reason", "BAD_KEY", "--json")
    retried = offline("quarantine", "retry", "shop", "dropped/t1")
    nothing = offline("quarantine", "retry", "shop", "--all")

    [mark] = json.loads(listed.stdout)["items"]
    assert (mark["mark"], mark["failures"], mark["last_error"]) == ("t1", 8, "AccessDenied: no")
    assert "dropped/t1" in people.stdout
    assert "AccessDenied: no" in people.stdout
    assert json.loads(other.stdout)["items"] == []
    assert (retried.returncode, "tries 1 mark again" in retried.stdout) == (0, True)
    assert (nothing.returncode, "no matching mark is quarantined" in nothing.stdout) == (0, True)
    assert reasons(aside) == [None]


def test_discard_removes_the_mark_and_leaves_its_files(offline: Run, aside: Database, tmp_path: Path) -> None:
    discard = ("quarantine", "discard", "shop", "dropped/t1", "--reason", "kept by hand")

    unanswered = offline(*discard)
    between = reasons(aside)
    discarded = offline(*discard, "--yes")
    story = offline("why", "t1", "--json")

    assert (unanswered.returncode, between) == (1, ["DELETE_FAILED"])
    assert "1 key in vault disk, 10 B" in unanswered.stdout
    assert discarded.returncode == 0
    assert reasons(aside) == []
    assert listing(tmp_path / "v") == {"data/a.dat": 10}
    events = json.loads(story.stdout)["items"][0]["events"]
    assert [e["event"] for e in events] == ["marked", "discarded"]
    assert "discarded: kept by hand, its remaining files were left (0 objects were deleted" in events[1]["text"]


def test_discard_says_which_files_stay(offline: Run, aside: Database) -> None:
    mark = aside.t.mark
    discard = ("quarantine", "discard", "shop", "dropped/t1", "--reason", "x")

    quarantined = offline(*discard)
    with aside.write() as c:
        c.execute(mark.update().values(quarantined_reason=None, first_pass_at=aside.now(c)))
    after_first_pass = offline(*discard)

    assert "these files stay: 1 key in vault disk" in quarantined.stdout
    later = "its files are deleted; only what came or was undeleted later stays of: 1 key in vault disk"
    assert later in after_first_pass.stdout


def test_wrong_argument_leaves_the_mark_quarantined(offline: Run, aside: Database) -> None:
    for words, code, says in [
        (("list", "nobody"), 1, "unknown instance nobody"),
        (("list", "--reason", "BAD_LUCK"), 64, "'BAD_LUCK' is not one of"),
        (("retry", "shop"), 64, "exactly one"),
        (("retry", "shop", "dropped/t1", "--all"), 64, "exactly one"),
        (("retry", "shop", "dropped/t2"), 1, "is not quarantined"),
        (("retry", "nobody", "--all"), 1, "unknown instance nobody"),
        (("discard", "shop", "t1", "--reason", "x", "--yes"), 64, "write KIND/ID"),
        (("discard", "shop", "dropped/t2", "--reason", "x", "--yes"), 1, "is not quarantined"),
        (("discard", "shop", "dropped/t1", "--yes"), 64, "--reason"),
        (("discard", "shop", "dropped/t1", "--reason", "", "--yes"), 64, "--reason is empty"),
    ]:
        refused = offline("quarantine", *words)

        assert refused.returncode == code
        assert says in refused.stderr
        assert "Traceback" not in refused.stderr
        assert reasons(aside) == ["DELETE_FAILED"]
