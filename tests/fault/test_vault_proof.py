"""A copied, empty, foreign or overlapping vault deletes nothing."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sexton.contract import NewMark, undrop
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.storage.model import MARKER_KEY
from sexton.storage.port import VaultFault
from sexton.storage.vaults import ProvenVaults
from tests.fault.conftest import Faulty
from tests.servers.postgres import new_database
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put


@pytest.fixture
def rig() -> Rig:
    return Rig(new_database(), clock_step_seconds=2.6).instance().instance("other")


def test_r43_two_instances_never_share_a_directory(rig: Rig, tmp_path: Path) -> None:
    rig.local(tmp_path / "a")
    rig.local(tmp_path / "b" / "c", "inner")

    for place, vault in (("a", "disk"), ("a/b", "disk"), ("b", "inner")):
        with pytest.raises(BadInput, match=f"overlaps vault {vault} of instance shop"):
            rig.local(tmp_path / place, "mine", "other")

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


def test_r43_marker_of_another_deployment_is_refused(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    _make_foreign(root)
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


def _make_foreign(root: Path) -> None:
    marker = json.loads((root / MARKER_KEY).read_text())
    (root / MARKER_KEY).write_text(json.dumps(marker | {"deployment": "production"}))


def _unmount(root: Path) -> None:
    root.rename(root.with_name(f"{root.name}.away"))


def _empty(root: Path) -> None:
    _unmount(root)
    root.mkdir()


HARM: dict[str, Callable[[Path], object]] = {
    "absent": lambda root: (root / MARKER_KEY).unlink(),
    "foreign": _make_foreign,
    "unmounted": _unmount,
    "empty": _empty,
}
"""What happened to the vault of that name."""


def test_r44_unproved_vault_loses_no_record(rig: Rig, tmp_path: Path) -> None:
    roots = {name: rig.local(tmp_path / name, name) for name in (*HARM, "good")}
    for name, root in roots.items():
        put(root, "a.dat")
        put(root, "p/b.dat")
        rig.mark("dropped", NewMark(id=f"{name}-keys", vault=name, keys=("a.dat", "never.dat")))
        rig.mark("dropped", NewMark(id=f"{name}-prefix", vault=name, prefix="p/"))
    rig.later(10_801)
    for name, harm in HARM.items():
        harm(roots[name])

    report = rig.round()

    assert (report.claimed, report.deleted, report.absent) == (2, 2, 1)
    for name in HARM:
        assert sum(n for who, n in kept_texts(report).items() if who.startswith(f"vault {name}: ")) == 2
        assert [rig.row("dropped", f"{name}-{part}").state for part in ("keys", "prefix")] == ["MARKED", "MARKED"]
        root = roots[name] if name in ("absent", "foreign") else tmp_path / f"{name}.away"
        assert listing(root) == {"a.dat": 10, "p/b.dat": 10}
    assert listing(roots["good"]) == {}


def test_r44_marker_missing_after_the_claim_stops_the_deletes(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    rig.drop(root, "a.dat", "t", later=10_801)

    with installed(lambda name: (root / MARKER_KEY).unlink() if name == "claim.committed" else None):
        report = rig.round()

    assert listing(root) == {"a.dat": 10}
    assert (report.claimed, report.removed, report.waiting) == (1, 0, 1)


def test_r44_missing_bucket_loses_no_record(faulty: Faulty) -> None:
    faulty.drop("t", "a.dat")
    client = faulty.server.client()
    for key in ("a.dat", MARKER_KEY):
        client.delete_object(Bucket=faulty.bucket, Key=key)
    client.delete_bucket(Bucket=faulty.bucket)

    report = faulty.rig.round()

    assert (report.claimed, report.absent) == (0, 0)
    assert list(kept_texts(report)) == ["vault cold: NO_BUCKET"]
    assert faulty.rig.row("dropped", "t").state == "MARKED"
    with pytest.raises(VaultFault, match="NO_BUCKET"):
        faulty.rig.s3("no-such-bucket", "new")


def test_r44_clone_with_another_deployment_id_deletes_nothing(rig: Rig, tmp_path: Path) -> None:
    rig.local(tmp_path / "v")

    with pytest.raises(VaultFault, match="FOREIGN_MARKER"):
        ProvenVaults(rig.registry.vault, "staging").get("shop", "disk")


def test_a_round_with_nothing_due_names_a_vault_without_marker(rig: Rig, tmp_path: Path) -> None:
    (rig.local(tmp_path / "v") / MARKER_KEY).unlink()

    report = rig.round()
    rig.registry.observe("shop")

    assert (report.due, report.faults, report.vaults) == (0, 0, {"disk": "NO_MARKER"})
    assert rig.round().vaults == {}  # in observe mode it looks at none


@pytest.mark.slow
def test_r44_database_restored_from_a_backup_never_deletes(tmp_path: Path) -> None:
    """Nor does it catch up by counting rounds."""
    rig = Rig(new_database()).instance()
    root = rig.local(tmp_path / "v")
    rig.drop(root, "a.dat", "a", later=10_801)
    restored = rig.copy()
    with rig.db.write() as c:
        undrop(c, "shop", "dropped", ["a"])
    for _ in range(3):
        rig.round()

    reports = [restored.round() for _ in range(6)]

    assert [(r.claimed, kept_texts(r)) for r in reports] == [(0, {"vault disk: BEHIND": 1})] * 6
    assert kept_texts(rig.round()) == {}
    assert kept_texts(restored.round()) == {"vault disk: BEHIND": 1}
    assert listing(root) == {"a.dat": 10}


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
    rig.drop(root, "d/a.dat", "m", later=10_801)
    get = rig.vaults.get

    def unmount_after(instance: str, name: str):  # type: ignore[no-untyped-def]
        vault = get(instance, name)
        if threading.current_thread().name.startswith("delete"):
            _empty(root)
            (root / "d").mkdir()
        return vault

    rig.vaults.get = unmount_after  # type: ignore[method-assign]
    report = rig.round()

    assert (report.absent, report.removed, report.waiting) == (0, 0, 1)
    assert listing(tmp_path / "v.away") == {"d/a.dat": 10}


def test_vault_added_during_a_round_quarantines_no_mark(rig: Rig, tmp_path: Path) -> None:
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
