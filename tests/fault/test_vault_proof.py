"""A copied, empty, foreign or overlapping vault deletes nothing."""

import json
import shutil
import threading
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.errors import BadInput
from sexton.storage.model import MARKER_KEY, VaultSpec
from sexton.storage.port import VaultFault
from tests.fault.conftest import Faulty, rig_and_backup_before_an_undrop
from tests.servers.postgres import new_database
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(new_database(), clock_step_seconds=2.6).instance().instance("other")


@pytest.mark.parametrize(("first", "second"), [("a", "a"), ("a", "a/b"), ("a/b", "a")])
def test_r43_two_instances_never_share_a_directory(rig: Rig, tmp_path: Path, first: str, second: str) -> None:
    rig.local(tmp_path / first)

    with pytest.raises(BadInput, match="overlaps vault disk of instance shop"):
        rig.local(tmp_path / second, "mine", "other")

    assert rig.registry.vaults("other") == []
    markers = [p for p in tmp_path.rglob("vault.json") if json.loads(p.read_text())["instance"] == "other"]
    assert markers == []


@pytest.mark.slow
def test_r43_overlapping_s3_prefixes_are_refused(faulty: Faulty) -> None:
    faulty.rig.instance("other")
    bucket = faulty.server.create_bucket()
    faulty.rig.s3(bucket, "left", prefix="u1/")

    faulty.rig.s3(bucket, "right", instance="other", prefix="u10/")
    for prefix in ("", "u1/", "u1/deep/"):
        with pytest.raises(BadInput, match="overlaps vault"):
            faulty.rig.s3(bucket, "wrong", instance="other", prefix=prefix)


def test_r43_marker_of_another_deployment_is_refused(tmp_path: Path) -> None:
    ours = Rig(new_database()).instance()
    root = ours.local(tmp_path / "v")
    marker = json.loads((root / MARKER_KEY).read_text())
    (root / MARKER_KEY).write_text(json.dumps(marker | {"deployment": "production"}))
    other_rig = Rig(new_database()).instance()

    with pytest.raises(BadInput, match="deployment production"):
        other_rig.local(root)
    (root / "inner").mkdir()
    with pytest.raises(BadInput, match="lies inside vault disk"):
        other_rig.local(root / "inner")
    with pytest.raises(BadInput, match=r"inside .* lies another vault"):
        other_rig.local(tmp_path)


def test_repeated_vault_add_finishes_an_interrupted_one(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    uuid = rig.registry.vault("shop", "disk").uuid
    rig.sql("DELETE FROM {}vault")

    rig.local(root)

    assert rig.registry.vault("shop", "disk").uuid == uuid


def _absent(root: Path) -> None:
    (root / MARKER_KEY).unlink()


def _foreign(root: Path) -> None:
    marker = json.loads((root / MARKER_KEY).read_text())
    (root / MARKER_KEY).write_text(json.dumps(marker | {"deployment": "production"}))


def _unmounted(root: Path) -> None:
    shutil.move(root, root.with_name("elsewhere"))


def _empty(root: Path) -> None:
    _unmounted(root)
    root.mkdir()


@pytest.mark.parametrize("harm", [_absent, _foreign, _unmounted, _empty])
def test_r44_unproved_vault_loses_no_record(rig: Rig, tmp_path: Path, harm) -> None:  # type: ignore[no-untyped-def]
    root = rig.local(tmp_path / "v")
    good = rig.local(tmp_path / "good", "good")
    put(root, "a.dat")
    put(root, "p/b.dat")
    put(good, "c.dat")
    rig.mark("dropped", NewMark(id="keys", vault="disk", keys=("a.dat", "never.dat")))
    rig.mark("dropped", NewMark(id="prefix", vault="disk", prefix="p/"))
    rig.mark("dropped", NewMark(id="good", vault="good", keys=("c.dat",)))
    rig.later(10_801)
    harm(root)

    report = rig.round()

    assert (report.removed, report.deleted, report.absent) == (1, 1, 0)
    assert sum(n for who, n in kept_texts(report).items() if who.startswith("vault disk: ")) == 2
    assert [rig.row("dropped", i).state for i in ("keys", "prefix")] == ["MARKED", "MARKED"]
    assert listing(good) == {}
    left = root if root.exists() and listing(root) else root.with_name("elsewhere")
    assert listing(left) == {"a.dat": 10, "p/b.dat": 10}


def test_r44_marker_missing_after_the_claim_stops_the_deletes(rig: Rig, tmp_path: Path) -> None:
    from sexton.kernel.crash_points import installed

    root = rig.local(tmp_path / "v")
    put(root, "a.dat")
    rig.mark("dropped", NewMark(id="t", vault="disk", keys=("a.dat",)))
    rig.later(10_801)

    with installed(lambda name: _absent(root) if name == "claim.committed" else None):
        report = rig.round()

    assert listing(root) == {"a.dat": 10}
    assert (report.claimed, report.removed, report.waiting) == (1, 0, 1)


def test_r44_missing_bucket_loses_no_record(faulty: Faulty) -> None:
    faulty.put("a.dat")
    faulty.rig.mark("dropped", NewMark(id="t", vault="cold", keys=("a.dat",)))
    faulty.rig.later(10_801)
    client = faulty.server.client()
    for key in ("a.dat", MARKER_KEY):
        client.delete_object(Bucket=faulty.bucket, Key=key)
    client.delete_bucket(Bucket=faulty.bucket)

    report = faulty.rig.round()

    assert (report.claimed, report.absent) == (0, 0)
    assert list(kept_texts(report)) == ["vault cold: NO_BUCKET"]
    assert faulty.rig.row("dropped", "t").state == "MARKED"


def test_r44_clone_with_another_deployment_id_deletes_nothing(rig: Rig, tmp_path: Path) -> None:
    from sexton.storage.vaults import ProvenVaults

    rig.local(tmp_path / "v")
    clone = ProvenVaults(rig.registry.vault, "staging")

    with pytest.raises(VaultFault, match="FOREIGN_MARKER"):
        clone.get("shop", "disk")


def test_a_vault_needs_an_existing_bucket(faulty: Faulty) -> None:
    spec = VaultSpec(instance="shop", name="new", kind="s3", location="no-such-bucket")
    from sexton.operators.registry.add_vault import add_vault

    with pytest.raises(VaultFault, match="NO_BUCKET"):
        add_vault(faulty.rig.registry, spec, "test-rig", faulty.proxy.url)


def test_a_round_with_nothing_due_names_a_vault_without_marker(rig: Rig, tmp_path: Path) -> None:
    (rig.local(tmp_path / "v") / MARKER_KEY).unlink()

    report = rig.round()
    rig.registry.observe("shop")

    assert (report.due, report.faults, report.vaults) == (0, 0, {"disk": "NO_MARKER"})
    assert rig.round().vaults == {}  # in observe mode it looks at none


@pytest.mark.slow
def test_r44_a_database_restored_from_a_backup_deletes_nothing(tmp_path: Path) -> None:
    rig, restored, root = rig_and_backup_before_an_undrop(tmp_path)
    rig.round()

    report = restored.round()

    assert listing(root) == {"a.dat": 10}
    assert (report.claimed, kept_texts(report)) == (0, {"vault disk: BEHIND": 1})
    rig.round()
    assert kept_texts(restored.round()) == {"vault disk: BEHIND": 1}


@pytest.mark.slow
def test_only_one_of_a_database_and_its_clone_deletes(tmp_path: Path) -> None:
    rig = Rig(new_database()).instance()
    rig.local(tmp_path / "v")
    rig.round()
    clone = rig.copy()
    clone.round()
    for one in (rig, clone):
        one.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)))
        one.later(10_801)

    assert kept_texts(rig.round()) == {"vault disk: BEHIND": 1}
    assert kept_texts(clone.round()) == {}


def test_disk_unmounted_before_the_delete_loses_no_record(tmp_path: Path) -> None:
    rig = Rig(new_database()).instance()
    root = rig.local(tmp_path / "v")
    put(root, "d/a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("d/a.dat",)))
    rig.later(10_801)
    get = rig.vaults.get

    def unmount_after(instance: str, name: str):  # type: ignore[no-untyped-def]
        vault = get(instance, name)
        if threading.current_thread().name.startswith("delete"):
            root.rename(tmp_path / "elsewhere")
            (tmp_path / "v" / "d").mkdir(parents=True)
        return vault

    rig.vaults.get = unmount_after  # type: ignore[method-assign]
    report = rig.round()

    assert (report.absent, report.removed, report.waiting) == (0, 0, 1)
    assert listing(tmp_path / "elsewhere") == {"d/a.dat": 10}


def test_vault_added_during_a_round_quarantines_no_mark(tmp_path: Path) -> None:
    rig = Rig(new_database()).instance()
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("a.dat",)))
    rig.later(10_801)
    quarantine = rig.stores.quarantine.quarantine

    def added_meanwhile(token, problems) -> None:  # type: ignore[no-untyped-def]
        if problems:
            rig.local(tmp_path / "v")
        quarantine(token, problems)

    rig.stores.quarantine.quarantine = added_meanwhile  # type: ignore[method-assign]
    rig.round()

    assert rig.row("dropped", "m").quarantined_reason is None


@pytest.mark.slow
def test_restored_database_never_catches_up_by_counting_rounds(tmp_path: Path) -> None:
    rig, restored, root = rig_and_backup_before_an_undrop(tmp_path)
    for _ in range(3):
        rig.round()

    held = [kept_texts(restored.round()) for _ in range(6)]

    assert held == [{"vault disk: BEHIND": 1}] * 6
    assert listing(root) == {"a.dat": 10}
    assert kept_texts(rig.round()) == {}


@pytest.mark.slow
def test_clone_is_detected_in_each_of_its_rounds(tmp_path: Path) -> None:
    rig = Rig(new_database()).instance()
    root = rig.local(tmp_path / "v")
    rig.round()
    clone = rig.copy()
    rig.round()
    put(root, "a.dat")
    clone.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)))
    clone.later(10_801)

    assert [kept_texts(clone.round()) for _ in range(4)] == [{"vault disk: BEHIND": 1}] * 4
    assert listing(root) == {"a.dat": 10}
