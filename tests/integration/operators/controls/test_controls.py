"""Stops, lists and windows act on running rounds within a page; a wrong name of an instance is answered with help."""

import re
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import ALL, Control, ControlKind, Halted, NotEnabled
from sexton.operators.controls.store import ControlStore
from sexton.operators.registry.store import Registry
from sexton.recycle.model import STOPPED, RoundReport
from sexton.recycle.rounds.ledger import Ledger
from tests.support.command import run
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put


@pytest.fixture(autouse=True)
def _every_proof_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 5 s passed between any two pages."""
    monkeypatch.setattr("sexton.recycle.pipeline.active_lease.RENEW_SECONDS", 0.0)


def fill(rig: Rig, root: Path, marks: int = 30, vault: str = "disk") -> None:
    for n in range(marks):
        put(root, f"{n}.dat")
        rig.mark("dropped", NewMark(id=uuid.uuid4().hex, vault=vault, keys=(f"{n}.dat",)))
    rig.later(10_801)


def at(point: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Act when a point is reached for the first time."""
    left = iter([act])

    def hook(name: str) -> None:
        if name == point and (first := next(left, None)):
            first()

    return hook


def stopped(rig: Rig, point: str) -> RoundReport:
    """Run a round that is stopped at a point, and end it as the workflow does; nothing stops the next one."""
    with installed(at(point, lambda: rig.controls.put(ControlKind.STOP, "shop"))), pytest.raises(Halted):
        rig.round(run=point)
    rig.controls.remove(ControlKind.STOP, "shop")
    opened = rig.rounds.open("shop", point, None, rig.policy)
    return rig.rounds.close(Ledger().close_order(opened, None, None, STOPPED, "shop is stopped"))


def test_r32_a_control_set_during_a_round_acts_within_a_page(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.registry.add_instance("other")
    for size, small in (("CHUNK_MARKS", 10), ("GROUP_FILES", 10), ("GROUPS_AT_ONCE", 1)):
        monkeypatch.setattr(f"sexton.recycle.pipeline.ranges.{size}", small)
    for kind, name in [
        (ControlKind.STOP, "shop"),
        (ControlKind.STOP, ALL),
        (ControlKind.BLACKLIST, "shop"),
        (ControlKind.WHITELIST, "other"),
        (ControlKind.WINDOW, "{closed}"),
    ]:
        fill(rig, root)
        weekday = (rig.now() // 86_400_000 + 3 + 3) % 7  # three days from today
        name = name.format(closed=("mon", "tue", "wed", "thu", "fri", "sat", "sun")[weekday] + " 00:00-01:00")

        with installed(at("marks.removed", partial(rig.controls.put, kind, name))), pytest.raises(Halted):
            rig.round()

        assert len(listing(root)) == 20, (kind, name)
        assert rig.count("mark", state="CLAIMED") == 0
        rig.controls.remove(kind, name)
        rig.round(after=61)
        assert listing(root) == {}


def test_r32_the_blacklist_wins_over_the_whitelist(rig: Rig, root: Path) -> None:
    fill(rig, root)
    rig.controls.put(ControlKind.WHITELIST, "shop")
    rig.controls.put(ControlKind.BLACKLIST, "shop", "in doubt")

    with pytest.raises(Halted, match=r"shop is on the blacklist \(by .*in doubt\)"):
        rig.round()

    rig.controls.remove(ControlKind.BLACKLIST, "shop")
    assert rig.round().removed == 30


def test_r33_a_stop_after_the_claim_delays_deletes_until_start(
    rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(rig, root)

    report = stopped(rig, "claim.committed")
    shown = run(rig, capsys, "round", "show", str(report.round)).out

    assert (report.waiting, report.deleted, len(listing(root))) == (30, 0, 30)
    assert "claimed and not finished: 30 marks; the next round deletes what is left of them\n" in shown
    assert rig.count("mark", state="CLAIMED") == 30
    assert rig.round(after=61).removed == 30
    assert listing(root) == {}


def test_a_stopped_round_counts_its_deletions_once(rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(rig, root)
    put(root, "next.dat")

    first = stopped(rig, "outcomes.recorded")
    left = len(listing(root)) - 1
    shown = run(rig, capsys, "round", "show", str(first.round)).out
    rig.mark("dropped", NewMark(id="next", vault="disk", keys=("next.dat",)))
    second = rig.round(after=10_801)

    assert (first.state, first.waiting, first.deleted) == (STOPPED, 30, 30 - left)
    assert 0 < first.bytes_freed == 10 * first.deleted
    assert f"{first.deleted} deleted" in shown
    assert "the next round deletes what is left of them" in shown
    assert (second.waiting, second.deleted) == (0, left + 1)
    assert listing(root) == {}


def test_a_stop_just_before_the_claim_prevents_it(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.recycle.pipeline.active_lease.RENEW_SECONDS", 5.0)  # only the claim itself can see it
    fill(rig, root)

    with installed(at("resolve.stored", lambda: rig.controls.put(ControlKind.STOP, "shop"))), pytest.raises(Halted):
        rig.round()

    assert rig.count("mark", state="MARKED") == 30
    assert len(listing(root)) == 30


def test_r34_only_vaults_on_the_whitelist_are_touched(rig: Rig, tmp_path: Path) -> None:
    roots = {name: rig.local(tmp_path / name, name) for name in ("a", "b", "c")}
    for name, root in roots.items():
        fill(rig, root, 5, name)
    rig.controls.put(ControlKind.VAULT_WHITELIST, "a")
    rig.controls.put(ControlKind.VAULT_WHITELIST, "shop/b")

    report = rig.round()

    assert {name: len(listing(root)) for name, root in roots.items()} == {"a": 0, "b": 0, "c": 5}
    assert kept_texts(report) == {"vault c: not on the vault whitelist": 5}
    assert report.vaults == {"a": "normal", "b": "normal", "c": "NOT_LISTED"}
    assert report.faults == 0


def test_a_vault_off_the_whitelist_keeps_its_claimed_files(rig: Rig, tmp_path: Path) -> None:
    roots = {name: rig.local(tmp_path / name, name) for name in ("a", "b")}
    for name, root in roots.items():
        fill(rig, root, 5, name)

    with installed(at("claim.committed", lambda: rig.controls.put(ControlKind.VAULT_WHITELIST, "a"))):
        rig.round()

    assert {name: len(listing(root)) for name, root in roots.items()} == {"a": 0, "b": 5}
    assert rig.count("mark", state="CLAIMED", vault="b") == 5
    rig.controls.remove(ControlKind.VAULT_WHITELIST, "a")
    rig.round()
    assert listing(roots["b"]) == {}


def test_lists_in_the_settings_are_respected(rig: Rig) -> None:
    controls = ControlStore(rig.db, [Control(kind=ControlKind.BLACKLIST, name="shop", set_by="the settings")])

    with pytest.raises(Halted, match="by the settings"):
        controls.check("shop")
    assert controls.admit("other") == frozenset()


def test_a_control_with_an_invalid_name_or_reason_is_refused(rig: Rig, root: Path) -> None:
    for kind, name, reason, error in [
        (ControlKind.STOP, "nobody", "", UnknownInstance),
        (ControlKind.BLACKLIST, ALL, "", UnknownInstance),
        (ControlKind.VAULT_WHITELIST, "nowhere", "", BadInput),
        (ControlKind.VAULT_WHITELIST, "other/disk", "", BadInput),
        (ControlKind.WINDOW, "always", "", BadInput),
        (ControlKind.WINDOW, "daily 24:00-06:00", "", BadInput),
        (ControlKind.STOP, "shop", "\udcff", BadInput),
    ]:
        with pytest.raises(error):
            rig.controls.put(kind, name, reason)

    assert rig.controls.all() == ()


def test_observe_stops_the_deletes_of_a_running_round(rig: Rig, root: Path) -> None:
    fill(rig, root, 5)

    with installed(at("claim.committed", lambda: rig.registry.observe("shop"))), pytest.raises(NotEnabled):
        rig.round()

    assert len(listing(root)) == 5
    assert rig.count("mark", state="CLAIMED") == 5


def test_a_second_stop_keeps_the_first_reason_and_time(rig: Rig) -> None:
    first = rig.controls.put(ControlKind.STOP, "shop", "restoring a backup", by="ada")
    rig.later(3_600)
    second = rig.controls.put(ControlKind.STOP, "shop", "drill", by="bob")

    with pytest.raises(Halted) as halted:
        rig.controls.admit("shop")

    [stored] = rig.controls.all()
    assert [rig.controls.remove(ControlKind.STOP, "shop") for _ in "12"] == [True, False]
    assert (stored.reason, stored.set_by, stored.set_at) == ("drill", "bob", second.since)
    assert (stored.first_reason, stored.first_set_by, stored.since) == ("restoring a backup", "ada", first.since)
    assert re.search(
        r"shop is stopped by bob: drill \(on \S+ \S+ UTC; first stopped by ada: restoring a backup, on \S+ \S+ UTC\)",
        str(halted.value),
    )


def test_a_wrong_or_missing_instance_is_answered_with_help(database_url: str) -> None:
    db = Database.open(database_url)
    registry = Registry(db)

    with pytest.raises(BadInput, match="no instance is registered; add one: sexton instance add NAME"):
        registry.resolve_instance(None)
    with pytest.raises(BadInput, match="use lower-case letters, digits, - and _, at most 63; the first is a letter or"):
        registry.add_instance("My Shop")
    db.close()
