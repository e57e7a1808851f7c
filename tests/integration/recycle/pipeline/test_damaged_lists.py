"""A file list whose bytes were changed in the database keeps its own marks, and nothing else."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.marks.model import Reason, Ref
from sexton.operators.holds.store import Hold
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.rounds.ledger import Ledger
from sexton.storage.local.vault import LocalVault
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS
from tests.integration.recycle.pipeline.refusing import refusing
from tests.support.rig import DAY, GRACE, Rig, listing, put

HOLD = Hold(instance="shop", scope="prefix", vault="disk", prefix="t/", reason="a test")


@pytest.fixture
def root(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the vault of a mark whose delete failed, and whose list was damaged then; another mark is claimed, too."""
    root = rig.local(tmp_path / "v")
    put(root, "t/a.dat")
    put(root, "u/b.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("t/a.dat",)), NewMark(id="n", vault="disk", prefix="u/"))
    rig.later(DUE_SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(LocalVault, "delete", refusing("t/a.dat"))
        rig.round()
    assert listing(root).keys() == {"t/a.dat"}
    rig.sql("UPDATE {}file_list SET results = :damaged", damaged=b"\x00")
    return root


def test_a_damaged_list_keeps_only_its_own_marks(rig: Rig, root: Path) -> None:
    put(root, "u/late.dat")
    put(root, "w/c.dat")
    rig.mark("dropped", NewMark(id="o", vault="disk", keys=("w/c.dat",)))
    rig.later(DUE_SECONDS + GRACE)

    rig.round()

    assert listing(root).keys() == {"t/a.dat"}
    assert rig.row("dropped", "m").quarantined_reason == Reason.FILES_UNREADABLE
    assert rig.count("file_list") == 0


@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
def test_a_retry_lists_and_checks_the_files_again(rig: Rig, root: Path, held: bool) -> None:
    rig.round()
    assert QuarantineStore(rig.db).retry("shop", reason=Reason.FILES_UNREADABLE) == 1
    if held:
        rig.holds.place(HOLD, 10 * DAY)
    rig.later(2 * DAY)

    rig.round()

    assert listing(root).keys() == ({"t/a.dat"} if held else set())


def test_a_poisoned_mark_of_a_damaged_list_is_not_forgotten(rig: Rig, root: Path) -> None:
    rig.sql("UPDATE {}mark SET quarantined_reason = 'DELETE_FAILED' WHERE id = 'm'")
    rig.sql("UPDATE {}batch SET state = 'OPEN'")  # its worker died

    rig.round()
    rig.later(2 * DAY)
    rig.round()

    assert rig.row("dropped", "m").quarantined_reason == Reason.FILES_UNREADABLE
    assert listing(root).keys() == {"t/a.dat"}


def test_a_hold_is_placed_beside_a_damaged_list(rig: Rig, root: Path) -> None:
    _, claimed = rig.holds.place(HOLD, DAY)

    assert claimed == 2
    assert [hold.prefix for hold in rig.holds.active("shop")] == ["t/"]


def test_a_round_closes_beside_a_damaged_list(rig: Rig, root: Path) -> None:
    opened, plan = rig.rounds.open("shop", "next", None, rig.policy), rig.plan()

    report = rig.rounds.close(Ledger().close_order(opened, plan.id, plan, "FAILED", "adopt: a list is damaged"))

    assert report.state == "FAILED"


def test_the_mark_of_a_removed_list_can_be_discarded(rig: Rig, root: Path) -> None:
    rig.round()

    discarded = QuarantineStore(rig.db).discard("shop", Ref("dropped", "m"), "its files stay")

    assert discarded.reason == Reason.FILES_UNREADABLE
    assert listing(root).keys() == {"t/a.dat"}
