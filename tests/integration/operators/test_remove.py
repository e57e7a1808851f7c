"""An instance or a vault that nothing needs can be removed: its rows end, its history and its objects stay."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from sexton.contract import NewMark
from sexton.database.guard import UnknownInstance
from sexton.kernel import crash_points
from sexton.kernel.errors import BadInput, NotFound
from sexton.marks.model import Ref
from sexton.marks.sql.keeper import Use
from sexton.marks.sql.prepared import PreparedKeeper
from sexton.operators.holds.model import Hold
from sexton.operators.registry import add_remove
from sexton.operators.registry.add_remove import InUse
from sexton.owners.catalog.model import NewTable, Schema
from sexton.owners.catalog.store import Catalog
from sexton.owners.plugins import add_instance, remove_instance
from sexton.storage.kinds import open_vault
from sexton.storage.local.vault import LocalVault
from sexton.storage.port import UnknownVault, VaultFault
from tests.integration.protection.registrations import DUE, protect
from tests.support.command import run
from tests.support.crashes import Crash, crash_at
from tests.support.rig import Rig, listing, put, stores_of

MARKER = "_sexton/vault.json"


def remove_vault(rig: Rig, instance: str = "shop", *, gone: bool = False) -> bool:
    """Remove the vault ``disk``."""
    vault = open_vault(rig.registry.vault(instance, "disk"), endpoint_url="")
    return add_remove.remove_vault(rig.db, stores_of(rig.db).keepers, vault, gone=gone)


def test_a_vault_is_removed_with_its_marker_and_no_object(rig: Rig, root: Path) -> None:
    rig.drop(root, "old.dat", "m", later=DUE)
    put(root, "live.dat")
    rig.round()
    stores_of(rig.db).paces.put_cap("shop/disk", 5, "", "anna")

    assert remove_vault(rig)

    assert not (root / MARKER).exists()
    assert listing(root) == {"live.dat": 10}
    assert (rig.count("vault"), rig.count("pace_cap"), rig.count("mark_history")) == (0, 0, 1)
    with pytest.raises(UnknownVault):
        remove_vault(rig)
    rig.local(root, "again", instance="shop")  # the place is free for another name


def test_a_vault_is_needed_by_marks_that_may_be_in_it(rig: Rig, tmp_path: Path) -> None:
    add_instance(rig.db, rig.registry, "lake", "catalog")
    rig.local(tmp_path / "v", instance="lake")
    Catalog(rig.db, "lake").create_table(NewTable(id="t", indexes={"i": Schema()}))
    Catalog(rig.db, "lake").drop_table("t")

    with pytest.raises(InUse, match="1 mark "):
        remove_vault(rig, "lake")


def test_a_vault_that_something_needs_is_not_removed(rig: Rig, root: Path) -> None:
    rig.drop(root, "old.dat", "m")
    put(root, "live.dat")
    protect(rig, "copy", "live.dat")
    hold = Hold(instance="shop", scope="prefix", vault="disk", prefix="a/", reason="an incident")
    held, _ = rig.holds.place(hold, 60)

    with pytest.raises(InUse) as refused:
        remove_vault(rig)

    for use in ("1 mark (let rounds", "1 protection (", "1 hold (sexton hold release"):
        assert use in str(refused.value)
    assert (root / MARKER).exists()
    rig.protections.release("shop", "copy")
    rig.holds.release(held.id)
    rig.round(after=DUE)
    assert remove_vault(rig)


class Freeze(PreparedKeeper):
    """A keeper that needs one vault."""

    def uses(self, _c: Connection, instance: str, vault: str | None) -> Iterator[Use]:
        yield Use(self._db.t.vault.c.name == (vault or "disk"), self._db.t.vault, "freeze", f"thaw {instance}")


def test_any_keeper_can_need_a_vault_or_an_instance(rig: Rig, tmp_path: Path) -> None:
    rig.local(tmp_path / "v")
    vault, keepers = open_vault(rig.registry.vault("shop", "disk"), endpoint_url=""), (Freeze(rig.db),)

    with pytest.raises(InUse, match=r"vault disk of shop is still needed: it has 1 freeze \(thaw shop\)"):
        add_remove.remove_vault(rig.db, keepers, vault)
    with pytest.raises(InUse, match=r"instance shop is still needed: it has 1 vault .*; 1 freeze \(thaw shop\)"):
        remove_instance(rig.db, rig.registry, keepers, "shop")


def denied(vault: LocalVault) -> None:
    raise VaultFault(vault.spec.name, "DENIED", "read-only")


def test_a_marker_that_a_killed_removal_left_hinders_nobody(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as m:
        m.setattr(LocalVault, "remove_marker", denied)  # is called after the commit
        with pytest.raises(VaultFault, match="the vault is removed, but its marker stays: read-only"):
            remove_vault(rig)
    assert ((root / MARKER).exists(), rig.count("vault")) == (True, 0)

    rig.local(root)

    assert remove_vault(rig)
    assert not (root / MARKER).exists()


def test_an_older_copy_of_the_database_removes_no_marker(rig: Rig, root: Path) -> None:
    rig.drop(root, "old.dat", "m", later=DUE)
    copy = rig.copy()
    rig.round()
    copy.later(DUE)

    with pytest.raises(VaultFault, match="BEHIND"):
        remove_vault(copy)

    assert (root / MARKER).exists()


def test_the_marker_of_another_vault_stays(rig: Rig, tmp_path: Path) -> None:
    root, other = rig.local(tmp_path / "v"), rig.local(tmp_path / "w", "other")
    foreign = (other / MARKER).read_bytes()
    (root / MARKER).write_bytes(foreign)

    assert not remove_vault(rig)

    assert (root / MARKER).read_bytes() == foreign


def test_marks_of_a_vault_that_is_gone_can_be_discarded(rig: Rig, root: Path) -> None:
    rig.drop(root, "claimed.dat", "claimed", later=DUE)
    with crash_points.installed(crash_at("claim.committed")), pytest.raises(Crash):
        rig.round()
    rig.drop(root, "due.dat", "due", later=DUE)
    rig.mark("dropped", NewMark(id="changed", vault="disk", prefix="p/"))
    rig.sql("UPDATE {}mark SET quarantined_reason = 'CHANGED' WHERE id = 'changed'")
    with pytest.raises(BadInput, match="is not gone"):
        remove_vault(rig, gone=True)
    shutil.rmtree(root)
    with pytest.raises(VaultFault):
        remove_vault(rig)

    assert not remove_vault(rig, gone=True)

    report = rig.round()
    reasons = {id_: rig.row("dropped", id_).quarantined_reason for id_ in ("claimed", "due")}
    assert (report.state, reasons) == ("SUCCEEDED", dict.fromkeys(reasons, "UNKNOWN_VAULT"))
    assert rig.row("dropped", "changed").quarantined_reason == "CHANGED"  # a new vault of this name frees it not
    rig.later(60)  # no request of the interrupted round is on its way any more
    for id_ in reasons:
        stores_of(rig.db).quarantine.discard("shop", Ref("dropped", id_), "the bucket is gone")
    assert (rig.count("mark"), rig.count_files()) == (1, 0)


def test_an_instance_is_removed_when_nothing_needs_it(rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rig.drop(root, "old.dat", "m", later=DUE)
    held, _ = rig.holds.place(Hold(instance="shop", scope="instance", reason="an incident"), 60)

    refused = run(rig, capsys, "instance", "remove", "shop", "--yes")
    rig.holds.release(held.id)
    rig.round()
    rig.check()
    remove_vault(rig)
    removed = run(rig, capsys, "instance", "remove", "shop", "--yes", "--reason", "sold")

    assert refused.code == 1
    for use in ("1 vault (sexton vault remove shop VAULT)", "1 mark (", "1 hold ("):
        assert use in refused.err
    assert (removed.code, removed.out.splitlines()[-1]) == (0, "instance shop is removed; its history stays")
    with pytest.raises(UnknownInstance):
        rig.registry.instance("shop")
    ended = ("instance", "instance_guard", "vault", "mark", "finding")
    assert [rig.count(table) for table in ended] == [0, 1, 0, 0, 0]
    kept = ("mark_history", "round", "hold", "check_run")
    assert [rig.count(table, instance="shop") for table in kept] == [1, 1, 1, 1]
    with pytest.raises(BadInput, match="was removed, and its history stays; choose another name"):
        rig.instance()


def test_the_records_of_an_instance_end_with_it_alone(rig: Rig) -> None:
    for instance in ("lake", "sea"):
        add_instance(rig.db, rig.registry, instance, "catalog")
        Catalog(rig.db, instance).create_table(NewTable(id="t", indexes={"i": Schema()}))

    remove_instance(rig.db, rig.registry, stores_of(rig.db).keepers, "lake")

    add_instance(rig.db, rig.registry, "lake", "catalog")
    with pytest.raises(NotFound):
        Catalog(rig.db, "lake").drop_table("t")
    Catalog(rig.db, "sea").drop_table("t")
