"""A mark may wait longer than its kind: its own extra retention ends before the retention of its kind starts."""

from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from sexton.contract import ContractError, NewMark, Refused
from sexton.kernel.errors import BadInput
from tests.support.planned import DAY, marks_by_kind
from tests.support.rig import RETENTION, Rig, listing, put


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    """A vault with two files, and a mark of each; the second one waits ten days longer."""
    rig.instance().local(tmp_path / "v")
    for name in ("now", "later"):
        put(tmp_path / "v", f"{name}/0.dat")
    rig.mark(
        "dropped",
        NewMark(id="now", vault="disk", prefix="now/"),
        NewMark(id="later", vault="disk", prefix="later/", extra_retention_seconds=10 * DAY),
    )
    return tmp_path / "v"


def test_only_marks_past_their_own_retention_are_deleted(rig: Rig, root: Path) -> None:
    rig.later(RETENTION["dropped"] + 60)
    assert marks_by_kind(rig.plan()) == {"dropped": 1}

    rig.round()
    assert list(listing(root)) == ["later/0.dat"]

    rig.round(after=10 * DAY - 120)
    assert list(listing(root)) == ["later/0.dat"]

    rig.round(after=120)
    assert listing(root) == {}


def test_undrop_is_possible_until_it_ends(rig: Rig, root: Path) -> None:
    row = rig.row("dropped", "later")
    assert row.retention_starts_at == row.marked_at + 10 * DAY * 1000
    rig.round(after=RETENTION["dropped"] + 60)

    assert rig.undrop_marks("dropped", "later") == 1
    with pytest.raises(Refused):
        rig.undrop_marks("dropped", "now")


def test_an_absurd_one_is_refused(rig: Rig) -> None:
    for seconds in (-1, 10 * 365 * DAY + 1):
        with pytest.raises(BadInput, match="extra_retention_seconds"):
            rig.mark("dropped", NewMark(id="x", vault="disk", prefix="x/", extra_retention_seconds=seconds))
    for kind, seconds in (("dropped", -1), ("dropped", 10 * 365 * DAY + 1), ("prepared", DAY)):
        with pytest.raises((IntegrityError, ContractError), match="extra_retention"):
            rig.sql(
                "INSERT INTO {}mark (instance, kind, id, vault, prefix, extra_retention_seconds)"
                " VALUES ('shop', :kind, 'x', 'disk', 'x/', :seconds)",
                kind=kind,
                seconds=seconds,
            )
