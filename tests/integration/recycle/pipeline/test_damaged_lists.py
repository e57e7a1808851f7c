"""A file list whose bytes were changed in the database keeps its own marks, and nothing else."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.marks.file_results import DamagedList
from sexton.marks.model import Reason, Ref
from sexton.operators.holds.model import Hold
from sexton.recycle.pipeline import resolve
from sexton.recycle.pipeline.sql import quarantine
from sexton.recycle.pipeline.sql.files import FileStore
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.rounds.ledger import Ledger
from tests.integration.protection.registrations import protect
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS
from tests.integration.recycle.pipeline.refusing import refused_round
from tests.support.claims import claim, drop_unclaimed, token
from tests.support.locks import wait_for_lock_waiter
from tests.support.rig import DAY, GRACE, Rig, listing, put

HOLD = Hold(instance="shop", scope="prefix", vault="disk", prefix="t/", reason="a test")


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    """Return the vault of a mark whose delete failed, and whose list was damaged then; another mark is claimed, too."""
    root = rig.local(tmp_path / "v")
    put(root, "t/a.dat")
    put(root, "u/b.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("t/a.dat",)), NewMark(id="n", vault="disk", prefix="u/"))
    rig.later(DUE_SECONDS)
    refused_round(rig, "t/a.dat")
    assert listing(root).keys() == {"t/a.dat"}
    damage(rig)
    return root


def damage(rig: Rig, **where: object) -> bytes:
    """Damage the only list, or the one with some values; return the bytes that the first one had."""
    results: bytes = rig.rows("file_list")[0].results
    rig.update("file_list", where, results=b"\x00")
    return results


def test_a_damaged_list_keeps_only_its_own_marks(rig: Rig, root: Path) -> None:
    put(root, "u/late.dat")
    rig.drop(root, "w/c.dat", "o")

    rig.round(after=DUE_SECONDS + GRACE)

    assert listing(root).keys() == {"t/a.dat"}
    assert rig.row("dropped", "m").quarantined_reason == Reason.FILES_UNREADABLE


@pytest.mark.parametrize("column", ["files", "results"])
def test_a_damaged_list_between_others_stops_no_adoption(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    root, keys = rig.local(tmp_path / "v"), ("a", "b", "c")
    monkeypatch.setattr(resolve, "CHUNK_FILES", 1)  # a chunk, and so a list, for each mark
    for key in keys:
        rig.drop(root, key, key)
    rig.later(DUE_SECONDS)
    refused_round(rig, *keys)
    rig.update("file_list", {"first_key": keys[1]}, **{column: b"\x00"})

    rig.round()

    assert (listing(root).keys(), rig.count("mark"), rig.count("file_list")) == ({keys[1]}, 1, 1)
    assert rig.row("dropped", keys[1]).quarantined_reason == Reason.FILES_UNREADABLE


def test_a_retry_needs_the_list_to_be_restored(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    rig.drop(root, "t/a.dat", "m", later=DUE_SECONDS)
    refused_round(rig, "t/a.dat")
    results, store = damage(rig), QuarantineStore(rig.db)

    for _ in range(2):
        rig.round()
        assert (listing(root).keys(), rig.count("file_list")) == ({"t/a.dat"}, 1)
        assert store.retry("shop", reason=Reason.FILES_UNREADABLE) == 1
    rig.update("file_list", results=results)
    rig.round()

    assert (listing(root), rig.count("file_list"), rig.count("mark")) == ({}, 0, 0)


def test_no_protection_is_promised_for_keys_of_a_damaged_list(rig: Rig, root: Path) -> None:
    for _ in range(2):
        with pytest.raises(DamagedList, match="sexton quarantine list"):
            protect(rig, "copy", "t/a.dat")
        rig.round()
    QuarantineStore(rig.db).discard("shop", Ref("dropped", "m"), "its files stay")

    protect(rig, "copy", "t/a.dat")

    assert rig.count("file_list") == 0


def test_a_damaged_list_of_a_closed_batch_stops_no_second_pass(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    rig.mark("dropped", NewMark(id="p", vault="disk", prefix="t/"))
    rig.round(after=DUE_SECONDS)
    put(root, "t/late1.dat")
    put(root, "t/late2.dat")
    rig.later(GRACE + 1)
    refused_round(rig, "t/late2.dat")
    damage(rig)

    rig.round(after=2 * GRACE)
    assert listing(root) == {}
    rig.round(after=GRACE + 1)  # it found objects: it looks once more

    assert (rig.count("mark"), rig.count("file_list")) == (0, 0)


def test_a_poisoned_mark_of_a_damaged_list_is_not_forgotten(rig: Rig, root: Path) -> None:
    rig.sql("UPDATE {}mark SET quarantined_reason = 'DELETE_FAILED' WHERE id = 'm'")
    rig.sql("UPDATE {}batch SET state = 'OPEN'")  # its worker died

    rig.round()
    rig.round(after=2 * DAY)

    assert rig.row("dropped", "m").quarantined_reason == Reason.FILES_UNREADABLE
    assert listing(root).keys() == {"t/a.dat"}


def test_a_damaged_list_stops_no_hold_and_no_discard(rig: Rig, root: Path) -> None:
    hold, claimed = rig.holds.place(HOLD, DAY)
    assert claimed == 2
    assert [hold.prefix for hold in rig.holds.active("shop")] == ["t/"]
    rig.holds.release(hold.id)

    opened, plan = rig.rounds.open("shop", "next", None, rig.policy), rig.plan()
    report = rig.rounds.close(Ledger().close_order(opened, plan.id, plan, "FAILED", "adopt: a list is damaged"))
    assert report.state == "FAILED"

    rig.round()
    discarded = QuarantineStore(rig.db).discard("shop", Ref("dropped", "m"), "its files stay")
    assert discarded.reason == Reason.FILES_UNREADABLE
    assert (listing(root).keys(), rig.count("file_list")) == ({"t/a.dat"}, 0)


def test_marks_of_other_chunks_are_not_quarantined(rig: Rig) -> None:
    rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"data/{name}.dat",)) for name in "abc"))
    write_token = token(rig)
    for number, name in enumerate("abc", 1):
        claim(rig, write_token, "dropped", name)
        rig.sql(f"UPDATE {{}}mark SET files_after = {number - 1}, last_file = {number} WHERE id = '{name}'")
    damage(rig, last=2)

    drop_unclaimed(rig, write_token)

    reasons = [rig.row("dropped", name).quarantined_reason for name in "abc"]
    assert reasons == [None, Reason.FILES_UNREADABLE, None]


def test_a_damaged_list_is_given_up_beside_a_discard(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    sum_files = quarantine.sum_files
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("data/m.dat",)))
    write_token = token(rig)
    claim(rig, write_token, "dropped", "m")
    rig.sql("UPDATE {}mark SET quarantined_reason = 'DELETE_FAILED' WHERE id = 'm'")
    damage(rig)

    with ThreadPoolExecutor(1) as pool:

        def sums_after_take_over(*given: Any, **options: Any) -> Any:
            """Take over while the mark is locked, and wait until the take-over waits for it."""
            taking_over.append(pool.submit(drop_unclaimed, rig, write_token))
            wait_for_lock_waiter(rig.db)
            return sum_files(*given, **options)

        taking_over: list[Future[None]] = []
        monkeypatch.setattr(quarantine, "sum_files", sums_after_take_over)
        QuarantineStore(rig.db).discard("shop", Ref("dropped", "m"), "its files stay")
        taking_over[0].result()

    assert (rig.count("mark"), rig.count("file_list")) == (0, 0)


def test_a_damaged_list_settles_nothing_and_is_kept_if_restored(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("data/m.dat",)))
    write_token, give_up = token(rig), FileStore._give_up
    claim(rig, write_token, "dropped", "m")
    results = damage(rig)
    with pytest.raises(DamagedList):
        rig.stores.settlements.progress(write_token, [Ref("dropped", "m")])

    def give_up_late(*given: object, **more: object) -> object:
        rig.update("file_list", results=results)
        return give_up(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(FileStore, "_give_up", give_up_late)
    drop_unclaimed(rig, write_token)

    assert (rig.row("dropped", "m").quarantined_reason, rig.count_files()) == (None, 1)
