"""Rows of rounds and plans are deleted after 400 days, except those that something still needs."""

import shutil
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.recycle.rounds.sql import old_rows
from sexton.recycle.rounds.sql.old_rows import OldRows
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import Marker
from sexton.storage.port import VaultFault
from tests.support.rig import DAY, Rig

LONG = (old_rows.ROUND_DAYS + 1) * DAY


def deletes(rig: Rig, root: Path, id_: str) -> int:
    """Run a round that deletes one mark; return its number."""
    rig.drop(root, f"{id_}.dat", id_, later=10_801)
    report = rig.round()
    assert report.removed == 1
    assert report.round
    return report.round


def test_an_old_round_is_deleted_with_its_batches_and_plan(rig: Rig, root: Path) -> None:
    for n in range(3):
        deletes(rig, root, f"m{n}")
    rig.later(LONG)
    last = deletes(rig, root, "last")

    # A round has a claim at its beginning, too.
    assert [rig.count(table) for table in ("round", "plan", "tally", "claim")] == [1, 1, 1, 2]
    assert rig.count("batch") == rig.count("batch", round=last)


def test_a_round_with_a_claimed_mark_stays(rig: Rig, root: Path) -> None:
    first, between, second = (deletes(rig, root, id_) for id_ in "abc")
    rig.mark("dropped", NewMark(id="stuck", vault="disk", keys=("stuck.dat",)))
    rig.sql("UPDATE {}mark SET state = 'CLAIMED', batch = (SELECT max(id) FROM {}batch WHERE round = :r)", r=first)
    rig.later(LONG)
    rig.rounds.plan("shop", rig.policy, "test")
    OldRows(rig.db).forget_rounds("shop", lambda: None)

    assert rig.count("round", id=first) == rig.count("tally", round=first) == 1
    assert rig.count("batch", round=first) == 2
    assert rig.count("round", id=between) == 0
    assert rig.count("round", id=second) == 1  # the newest


def test_the_round_that_a_silent_vault_names_stays(rig: Rig, tmp_path: Path) -> None:
    root, other = rig.local(tmp_path / "v"), rig.local(tmp_path / "w", "other")
    deletes(rig, root, "a")
    named = deletes(rig, root, "b")
    away = shutil.move(other, tmp_path / "away")
    rig.later(LONG)
    last = deletes(rig, root, "c")
    shutil.move(away, other)

    assert rig.count("round") == 2
    assert rig.count("round", id=named) == rig.count("round", id=last) == 1
    rig.vaults.confirm("shop", "other")  # raises BEHIND if its round is unknown


def test_the_round_of_a_marker_that_could_not_be_replaced_stays(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, other = rig.local(tmp_path / "v"), rig.local(tmp_path / "w", "other")
    deletes(rig, root, "a")
    replace = LocalVault.replace_marker

    def fail(vault: LocalVault, marker: Marker) -> None:
        if marker.name == "other":
            raise VaultFault("other", "UNREACHABLE", "its disk is full")
        replace(vault, marker)

    with monkeypatch.context() as full:
        full.setattr(LocalVault, "replace_marker", fail)
        deletes(rig, root, "b")
    away = shutil.move(other, tmp_path / "away")
    rig.later(LONG)
    deletes(rig, root, "c")
    shutil.move(away, other)

    rig.vaults.confirm("shop", "other")  # raises BEHIND if its round is unknown


@pytest.mark.parametrize("days", [1, old_rows.ROUND_DAYS - 1])
def test_a_younger_round_stays(rig: Rig, root: Path, days: int) -> None:
    deletes(rig, root, "a")
    rig.later(days * DAY)
    deletes(rig, root, "b")

    assert rig.count("round") == rig.count("plan") == 2


def test_pages_of_rounds_are_deleted_with_a_heartbeat_each(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        deletes(rig, root, f"m{n}")
    rig.later(LONG)
    monkeypatch.setattr(old_rows, "PAGE_ROUNDS", 2)
    beats: list[int] = []
    OldRows(rig.db).forget_rounds("shop", lambda: beats.append(1))

    assert rig.count("round") == rig.count("plan") == 1  # the newest
    assert len(beats) == 6
