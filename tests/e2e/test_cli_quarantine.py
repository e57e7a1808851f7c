"""The command `sexton quarantine` works without Temporal."""

import json
from pathlib import Path

import pytest

from sexton.database.engine import Database
from tests.e2e.conftest import Run
from tests.support.rig import listing


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


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
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
    ],
)
def test_wrong_argument_leaves_the_mark_quarantined(
    offline: Run, aside: Database, words: tuple[str, ...], code: int, says: str
) -> None:
    refused = offline("quarantine", *words)

    assert refused.returncode == code
    assert says in refused.stderr
    assert "Traceback" not in refused.stderr
    assert reasons(aside) == ["DELETE_FAILED"]
