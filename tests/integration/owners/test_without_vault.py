"""An owner is not asked before its instance has a vault, and learns when a vault was added."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.marks.kept import KeepReason
from sexton.marks.live import LiveEntry, Part
from sexton.owners import plugins
from sexton.owners.owners import Owners
from sexton.owners.plugin import OwnerPlugin
from sexton.owners.port import LiveParts, NotAsked, Owner
from tests.support.command import run
from tests.support.kept import kept_texts
from tests.support.rig import DAY, Rig, put, stores_of

DECLARED = ("marked_children", "keeps_records")
"""Methods that look at no record."""


class LedgerOwner(Owner):
    """Stores at the first question in which vaults its files are, and forgets that when a vault was added."""

    def __init__(self, vaults_of: Callable[[str], Sequence[Any]]) -> None:
        self._vaults_of, self.asked = vaults_of, list[str]()
        self.vaults: list[str] | None = None

    def __getattribute__(self, name: str) -> Any:
        if hasattr(Owner, name) and not name.startswith("_"):
            object.__getattribute__(self, "_ask")(name)
        return object.__getattribute__(self, name)

    def _ask(self, name: str) -> None:
        if name == "vaults_changed":
            self.vaults = None
            return
        self.asked.append(name)
        if self.vaults is None:
            self.vaults = [spec.name for spec in self._vaults_of("lake")]

    def live_as_of(self, instance: str) -> None:
        """Return None: it is read now."""

    def live_parts(self, instance: str, moment: str, connection: Any, rows: int) -> LiveParts:
        return LiveParts([Part("ledger")])

    def read_live(
        self, instance: str, moment: str, part: Part, connection: Any = None
    ) -> Iterator[Sequence[LiveEntry]]:
        yield [LiveEntry(vault, "data/a.dat", prefix=False, live=True) for vault in self.vaults or ()]


@pytest.fixture
def owner(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> LedgerOwner:
    """Return the owner of instance ``lake``, which has no vault; it is the same one in each process."""
    owner, find = LedgerOwner(rig.registry.vaults), plugins.find
    plugin = OwnerPlugin("stores what it has seen", build=lambda _: owner, knows_live=True, key_pattern="data/.*")
    monkeypatch.setattr(plugins, "find", lambda name: plugin if name == "ledger" else find(name))
    return owner


def test_no_command_and_no_round_asks_it(rig: Rig, owner: LedgerOwner, capsys: pytest.CaptureFixture[str]) -> None:
    commands = (
        "instance add lake --owner ledger",
        "enable lake",
        "plan lake",
        "status lake",
        "doctor",
        "why data/a.dat",
    )
    printed = [run(rig, capsys, *words.split()) for words in commands]
    rig.mark("dropped", NewMark(id="a", vault="disk", keys=("data/a.dat",)), instance="lake")
    rig.later(10_801)
    rig.recycler = rig.recycler_of(stores_of(rig.db).owners)
    report = rig.round("lake")

    assert set(owner.asked) <= set(DECLARED)
    assert [p.err for p in printed[:4]] == [""] * 4
    assert "lake has no vault yet" in printed[4].out
    assert [kept.reason for kept in report.kept] == [KeepReason.OWNER_SILENT]
    assert "lake has no vault yet" in next(iter(kept_texts(report)))
    assert rig.row("dropped", "a", "lake").state == "MARKED"


def test_it_learns_of_a_vault_that_was_added(
    rig: Rig, owner: LedgerOwner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "v").mkdir()
    for words in ("instance add lake --owner ledger", "plan lake", f"vault add lake disk --local {tmp_path / 'v'}"):
        assert run(rig, capsys, *words.split()).err == ""
    (tmp_path / "w").mkdir()
    run(rig, capsys, "vault", "add", "lake", "more", "--local", str(tmp_path / "w"))
    owners = stores_of(rig.db).owners
    [page] = owners.read_live("lake", "", Part("ledger"))

    assert [entry.vault for entry in page] == ["disk", "more"]


def test_k17_its_live_files_are_no_orphans_of_the_first_check(
    rig: Rig, owner: LedgerOwner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "v"
    put(root, "data/a.dat")
    for words in ("instance add lake --owner ledger", f"vault add lake disk --local {root}"):
        run(rig, capsys, *words.split())
    rig.later(2 * DAY)
    checked = Rig(rig.url, owner=stores_of(rig.db).owners).check(instance="lake")

    assert owner.vaults == ["disk"]
    assert (checked.whole, checked.found) == (True, {})


def test_every_question_is_refused_without_a_vault(rig: Rig, owner: LedgerOwner) -> None:
    owners = Owners(lambda _: owner, lambda _: ())

    for ask in (
        lambda: owners.live("lake", (), lambda: None),
        lambda: owners.expand("lake", (), lambda: None),
        lambda: owners.fence("lake", 1, (), lambda: None),
        lambda: owners.live_as_of("lake"),
        lambda: owners.live_parts("lake", "", None, 1),
        lambda: list(owners.read_live("lake", "", Part())),
        lambda: owners.live_entries_of("lake", ()),
    ):
        with pytest.raises(NotAsked, match="has no vault yet"):
            ask()
    assert (owners.live_objects("lake"), list(owners.resolvable("lake", ()))) == (None, [])
    assert owner.asked == []
