"""The commands `sexton why`, `deletions` and `quarantine` work without Temporal."""

import json
from pathlib import Path

import pytest
from sqlalchemy import select

from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from tests.e2e.conftest import Run, ended_round, items
from tests.support.rig import Rig, listing


@pytest.fixture
def told(shop: Rig) -> int:
    """The number of a round that deleted two objects of a mark that SQL has forgotten, and failed at one of ``t1``."""
    shop.registry.enable("shop")
    number = ended_round(shop)
    with shop.db.read() as c:
        row = AuditRow(shop.db.now(c), "shop", number, 1, 1, "dropped", "old", "disk", "data/old", 7, "deleted", "")
    other = row._replace(seq=2, key="data/öld")
    failed = row._replace(seq=3, id="t1", key="data/a.dat", outcome="failed", reason="AccessDenied", bytes=None)
    ParquetAudit(AuditLocations(shop.vaults, shop.registry.vaults), 400).write([row, other, failed])
    return number


def test_why_finds_an_expired_history_with_deep(offline: Run, shop: Rig, told: int) -> None:
    unknown, shallow = offline("why", "no/such/key", "--json"), offline("why", "data/old")
    deep = offline("why", "data/old", "--deep", "--last", "1d")
    [story] = items(offline("why", "old", "--deep", "--json"))
    nobody = offline("why", "data/olx", "--deep")
    [known] = items(offline("why", "t1", "--deep", "--json"))

    assert (unknown.returncode, items(unknown)) == (1, [])
    assert shallow.returncode == 1
    assert "sexton why data/old --deep reads 1 file of it" in shallow.stderr
    assert deep.returncode == 0
    assert "shop  dropped old" in deep.stdout
    assert f"gone: data/old in vault disk deleted, 7 bytes, batch 1, round {told}" in deep.stdout
    assert [e["event"] for e in story["events"]] == ["object_deleted", "object_deleted"]
    assert (nobody.returncode, "nothing is known of data/olx" in nobody.stderr) == (1, True)
    assert (known["mark"], known["events"][0]["event"]) == ("t1", "marked")


def test_deletions_prints_each_object_from_its_configured_place(
    offline: Run, shop: Rig, told: int, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    url = f"{tmp_path}/elsewhere"
    places = AuditLocations(shop.vaults, shop.registry.vaults, audit_url=url, deployment=shop.deployment)
    with shop.db.read() as c:
        row = AuditRow(shop.db.now(c), "shop", told, 2, 1, "dropped", "new", "disk", "data/new", 7, "deleted", "")
    ParquetAudit(places, 400).write([row])

    both = offline("deletions", str(told), SEXTON_AUDIT__AUDIT_URL=f"file://{url}")
    everything = offline("deletions", str(told))
    failed = offline("deletions", str(told), "--outcome", "failed", "--json")
    (tmp_path / "v").rename(tmp_path / "unmounted")
    unreadable = offline("deletions", str(told))

    assert ("data/new" in both.stdout, len(both.stdout.splitlines())) == (True, 4)
    assert ("data/new" in everything.stdout, len(everything.stdout.splitlines())) == (False, 3)
    assert "deleted  disk  data/öld 7 bytes  (dropped old, batch 1)" in everything.stdout
    [line] = [json.loads(line) for line in failed.stdout.splitlines()]
    assert (line["key"], line["bytes"], line["reason"]) == ("data/a.dat", None, "AccessDenied")
    assert (unreadable.returncode, unreadable.stdout, "vault disk: NO_" in unreadable.stderr) == (1, "", True)


def test_quarantined_mark_is_listed_retried_and_discarded(offline: Run, shop: Rig, tmp_path: Path) -> None:
    mark = shop.db.t.mark
    poison = {"quarantined_reason": "DELETE_FAILED", "failures": 8, "last_error": "AccessDenied: no"}
    discard = ("quarantine", "discard", "shop", "dropped/t1", "--reason", "kept by hand")

    def set_aside(**values: object) -> None:
        with shop.db.write() as c:
            c.execute(mark.update().values(**values))

    def reasons() -> list[str | None]:
        with shop.db.read() as c:
            return list(c.execute(select(mark.c.quarantined_reason)).scalars())

    set_aside(**poison)
    listed, people = offline("quarantine", "list", "shop", "--json"), offline("quarantine", "list")
    other = offline("quarantine", "list", "--reason", "BAD_KEY", "--json")
    retried = offline("quarantine", "retry", "shop", "dropped/t1")
    after_retry, nothing = reasons(), offline("quarantine", "retry", "shop", "--all")
    with shop.db.read() as c:
        set_aside(first_pass_at=shop.db.now(c))
    second_pass = offline(*discard)
    set_aside(first_pass_at=None, **poison)
    set_aside(keys=["data/a.dat", "data/gone.dat"])
    unanswered, between = offline(*discard), reasons()
    set_aside(vault="nowhere")
    unknown = offline(*discard)
    discarded = offline(*discard, "--yes")
    [story] = items(offline("why", "t1", "--json"))

    [row] = items(listed)
    assert (row["mark"], row["failures"], row["last_error"]) == ("t1", 8, "AccessDenied: no")
    assert ("dropped/t1" in people.stdout, "AccessDenied: no" in people.stdout, items(other)) == (True, True, [])
    assert (retried.returncode, "tries 1 mark again" in retried.stdout, after_retry) == (0, True, [None])
    assert (nothing.returncode, "no matching mark is quarantined" in nothing.stdout) == (0, True)
    later = "its files are deleted; only what came or was undeleted later stays: 1 object of 1 key in vault disk, 10 B"
    assert later in second_pass.stdout
    assert (unanswered.returncode, between) == (1, ["DELETE_FAILED"])
    assert "its files stay: 1 object of 2 keys in vault disk, 10 B" in unanswered.stdout
    assert "its files stay: 2 keys in vault nowhere, 10 B per its owner; it is unknown what exists: " in unknown.stdout
    assert (discarded.returncode, reasons()) == (0, [])
    assert listing(tmp_path / "v") == {"data/a.dat": 10}
    assert [e["event"] for e in story["events"]] == ["marked", "discarded"]
    text = "discarded: kept by hand, its remaining files were left (0 objects were deleted"
    assert text in story["events"][1]["text"]
