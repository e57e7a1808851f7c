"""The probe of a vault detects what its store supports; `vault add` validates, and takes over its own markers only.

It takes over a marker only of its own deployment that has no row.
"""

import errno
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.kernel.errors import BadInput
from sexton.operators.registry.add_remove import add_vault
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyOutcome, Marker, Probe, VaultSpec
from sexton.storage.port import VaultFault
from sexton.storage.s3.vault import S3Vault
from tests.servers.fault_proxy import FaultProxy
from tests.servers.postgres import new_database
from tests.servers.s3 import RunningS3
from tests.support.command import run
from tests.support.rig import DEPLOYMENT, Rig


@pytest.fixture
def spec(bucket: str) -> VaultSpec:
    return VaultSpec(instance="shop", name="cold", kind="s3", location=bucket, prefix="wh/")


@pytest.fixture
def s3_rig(tmp_path: Path, proxy: FaultProxy) -> Iterator[Rig]:
    """One instance ``shop`` without a vault; the store is behind the proxy."""
    rig = Rig(new_database(), endpoint_url=proxy.url)
    rig.registry.add_instance("shop")
    yield rig
    rig.db.close()


def add(rig: Rig, spec: VaultSpec) -> VaultSpec:
    return add_vault(rig.registry, spec, DEPLOYMENT, rig.endpoint_url)


def test_the_abilities_of_the_embedded_store_are_detected(
    spec: VaultSpec, proxy: FaultProxy, s3_server: RunningS3
) -> None:
    seen = S3Vault(spec, proxy.url).probe()

    assert seen == Probe(
        versioning="",
        per_key_errors=True,
        quiet=True,
        tells_absent=False,
        etag_single=True,
        etag_multi=True,
        object_lock="off",
        order="path",
        paging=True,
        start_after=True,
        encoding_type=True,
        wrong_credentials_refused=True,
    )
    assert s3_server.client().list_objects_v2(Bucket=spec.location)["KeyCount"] == 0


def test_a_versioned_bucket_is_probed_without_leftovers(
    spec: VaultSpec, proxy: FaultProxy, s3_server: RunningS3
) -> None:
    client = s3_server.client()
    client.put_bucket_versioning(Bucket=spec.location, VersioningConfiguration={"Status": "Enabled"})

    seen = S3Vault(spec, proxy.url).probe()

    assert (seen.versioning, seen.versions, seen.versions_paging, seen.left) == ("Enabled", True, False, 0)
    assert (seen.etag_single, seen.etag_multi) == (True, True)
    assert client.list_object_versions(Bucket=spec.location).get("Versions", []) == []


@pytest.mark.slow
def test_a_bucket_that_locks_objects_is_detected(
    spec: VaultSpec, s3_server: RunningS3, subtests: pytest.Subtests
) -> None:
    for rule, seen in [
        (None, "on"),
        ({"Mode": "COMPLIANCE", "Days": 30}, "COMPLIANCE for 30 days"),
        ({"Mode": "GOVERNANCE", "Years": 2}, "GOVERNANCE for 2 years"),
    ]:
        with subtests.test(rule=rule, seen=seen):
            client, name = s3_server.client(), f"lock-{uuid.uuid4().hex[:8]}"
            client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
            if rule:
                locks = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": rule}}
                client.put_object_lock_configuration(Bucket=name, ObjectLockConfiguration=locks)
            vault = S3Vault(spec.model_copy(update={"location": name}), s3_server.endpoint_url)

            assert vault.probe().object_lock == seen


def test_a_store_that_ignores_etags_is_detected(spec: VaultSpec, proxy: FaultProxy, subtests: pytest.Subtests) -> None:
    for deaf, single, multi in [
        ({"DeleteObjects"}, True, False),
        ({"DeleteObject"}, False, True),
        ({"DeleteObject", "DeleteObjects"}, False, False),
    ]:
        with subtests.test(deaf=deaf, single=single, multi=multi):
            proxy.ignores_etags = frozenset(deaf)

            seen = S3Vault(spec, proxy.url).probe()

            assert (seen.etag_single, seen.etag_multi) == (single, multi)


def test_a_store_that_refuses_the_probe_is_no_fault(spec: VaultSpec, proxy: FaultProxy) -> None:
    proxy.fail_next("DeleteObjects", 400, "MalformedXML", times=2)
    proxy.fail_next("DeleteObject", 501, "NotImplemented")

    seen = S3Vault(spec, proxy.url).probe()

    assert (seen.etag_multi, seen.quiet, seen.tells_absent, seen.etag_single) == (False, None, None, False)
    assert seen.start_after is True


def test_a_missing_or_forbidden_bucket_is_a_fault_of_the_probe(spec: VaultSpec, proxy: FaultProxy) -> None:
    with pytest.raises(VaultFault, match="NO_BUCKET"):
        S3Vault(spec.model_copy(update={"location": "nowhere-at-all"}), proxy.url).probe()
    proxy.fail_next("PutObject", 403, "AccessDenied")

    with pytest.raises(VaultFault, match="DENIED"):
        S3Vault(spec, proxy.url).probe()


def test_a_directory_is_not_probed(tmp_path: Path) -> None:
    seen = LocalVault(VaultSpec(instance="shop", name="disk", kind="local", location=str(tmp_path))).probe()

    assert (seen.order, seen.tells_absent, seen.etag_single, seen.versioning) == ("byte", True, None, "")
    assert list(tmp_path.iterdir()) == []


def test_add_stores_the_probe_and_the_vault_respects_it(s3_rig: Rig, spec: VaultSpec, proxy: FaultProxy) -> None:
    proxy.ignores_etags = frozenset({"DeleteObjects"})
    add(s3_rig, spec.model_copy(update={"conditional": True}))
    vault = s3_rig.vaults.get("shop", "cold")
    proxy.client.put_object(Bucket=spec.location, Key="wh/d/1", Body=b"x")

    (result,) = vault.delete(["d/1"], ["0" * 32])

    stored = s3_rig.registry.vault("shop", "cold")
    assert (stored.conditional, stored.versions) == (True, "keep")
    assert stored.probe is not None
    assert (stored.probe.etag_single, stored.probe.etag_multi, stored.probe.at > 0) == (True, False, True)
    assert result.outcome is KeyOutcome.CHANGED


def test_a_conditional_vault_is_refused_where_etags_are_ignored(
    s3_rig: Rig, spec: VaultSpec, proxy: FaultProxy, s3_server: RunningS3
) -> None:
    proxy.ignores_etags = frozenset({"DeleteObject", "DeleteObjects"})

    with pytest.raises(BadInput, match="does not honour If-Match"):
        add(s3_rig, spec.model_copy(update={"conditional": True}))
    assert (list(s3_rig.registry.vaults()), S3Vault(spec, proxy.url).read_marker()) == ([], None)
    add(s3_rig, spec)
    assert [v.name for v in s3_rig.registry.vaults()] == ["cold"]
    assert s3_server.client().list_objects_v2(Bucket=spec.location)["KeyCount"] == 1


def test_contradictory_options_are_refused(s3_rig: Rig, spec: VaultSpec, tmp_path: Path) -> None:
    for versions, conditional, refused_kinds in [
        ("keep", False, []),
        ("keep", True, ["local"]),
        ("purge", False, ["local"]),
        ("purge", True, ["s3", "local"]),
    ]:
        name = f"{versions}-{conditional}".lower()
        wanted = spec.model_copy(update={"versions": versions, "conditional": conditional, "name": name})
        place = tmp_path / name
        place.mkdir()
        local = {"kind": "local", "location": str(place), "prefix": "", "name": f"{name}-disk"}

        refused = []
        for one in (wanted.model_copy(update={"prefix": f"{name}/"}), wanted.model_copy(update=local)):
            try:
                add(s3_rig, one)
            except BadInput:
                refused.append(one.kind)
        assert refused == refused_kinds, name


def test_add_list_and_probe_print_the_result_of_the_probe(
    s3_rig: Rig, spec: VaultSpec, proxy: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in [
        ("--local", ".", "--conditional"),
        ("--local", ".", "--versions", "purge"),
        ("--s3", "bucket", "--versions", "all"),
        ("--at", "s3://bucket", "--s3", "bucket"),
        ("--at", "ftp://bucket/wh"),
    ]:
        assert run(s3_rig, capsys, "vault", "add", "shop", "cold", *words).code == 64
    added = run(s3_rig, capsys, "vault", "add", "shop", "cold", "--s3", f"{spec.location}/wh", "--conditional")
    listed = json.loads(run(s3_rig, capsys, "vault", "list", "--json").out)["items"]
    table = run(s3_rig, capsys, "vault", "probe", "shop", "cold")
    proxy.ignores_etags = frozenset({"DeleteObject", "DeleteObjects"})
    worse = run(s3_rig, capsys, "vault", "probe", "shop", "cold", "--json")

    assert (added.code, listed[0]["conditional"], listed[0]["versions"]) == (0, True, "keep")
    assert (table.code, "If-Match, one delete" in table.out) == (0, True)
    assert (worse.code, bool(json.loads(worse.out)["unsupported"])) == (1, True)
    assert json.loads(worse.out)["etag_single"] is False
    stored = s3_rig.registry.vault("shop", "cold").probe
    assert stored is not None
    assert stored.etag_multi is False


def _place(root: Path, name: str) -> VaultSpec:
    """Return a vault that is not registered yet, in an empty directory."""
    (root / name).mkdir()
    return VaultSpec(instance="shop", name=name, kind="local", location=str(root / name))


def _leave_marker(spec: VaultSpec, **changes: object) -> Marker:
    """Leave a marker without a row, as a command that was killed before it stored the row did."""
    marker = Marker(vault_uuid="9f0c", deployment=DEPLOYMENT, instance="shop", name="other")
    marker = marker.model_copy(update=changes)
    LocalVault(spec).write_marker(marker)
    return marker


def test_a_marker_without_a_row_is_taken_over_on_request(rig: Rig, tmp_path: Path) -> None:
    cold, ahead = _place(tmp_path, "cold"), _place(tmp_path, "ahead")
    left = _leave_marker(cold)
    _leave_marker(ahead, vault_uuid="9f0d", round=7, run="r7")

    with pytest.raises(BadInput, match=r"no such vault.*add --take-over"):
        add_vault(rig.registry, cold, DEPLOYMENT, "")
    added = add_vault(rig.registry, cold, DEPLOYMENT, "", take_over=True)
    add_vault(rig.registry, ahead, DEPLOYMENT, "", take_over=True)

    assert added.uuid == left.vault_uuid
    assert rig.vaults.get("shop", "cold").read_marker() == left.model_copy(update={"name": "cold"})
    with pytest.raises(VaultFault, match="BEHIND"):  # its round is unknown
        rig.vaults.get("shop", "ahead")


def test_a_take_over_from_another_deployment_or_vault_is_refused(rig: Rig, tmp_path: Path) -> None:
    registered = add_vault(rig.registry, _place(tmp_path, "cold"), DEPLOYMENT, "")
    for name, changes, message in [
        ("foreign", {"deployment": "test-another"}, "in deployment test-another"),
        ("copy", {"vault_uuid": registered.uuid, "name": "cold"}, "which is registered"),
    ]:
        spec = _place(tmp_path, name)
        left = _leave_marker(spec, **changes)

        with pytest.raises(BadInput, match=f"{message}; two must not delete in one place"):
            add_vault(rig.registry, spec, DEPLOYMENT, "", take_over=True)
        assert LocalVault(spec).read_marker() == left


def test_adding_a_vault_again_needs_the_same_values(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("vault", "add", "shop", "cold", "--local")
    first, second = (run(rig, capsys, *words, _place(tmp_path, name).location) for name in ("cold", "other"))
    before = rig.registry.vaults()
    again = run(rig, capsys, *words, str(tmp_path / "cold"))
    profile = run(rig, capsys, "vault", "add", "shop", "cold", "--s3", "bucket", "--profile", "p")

    assert (first.code, "already" in first.out, again.code) == (0, False, 0)
    assert f"vault cold of shop is registered already: local {tmp_path / 'cold'}/, marker " in again.out
    assert (second.code, profile.code, rig.registry.vaults()) == (1, 1, before)
    assert f"has a vault cold already, with location '{tmp_path / 'cold'}', not '{tmp_path / 'other'}'" in second.err
    assert all(text in profile.err for text in ("kind 'local', not 's3'", "profile '', not 'p'"))


def test_a_refused_name_leaves_nothing_in_the_place(rig: Rig, tmp_path: Path) -> None:
    spec = _place(tmp_path, "cold")
    for name in ("Cold", "_cold", "c" * 64, "c/d", ""):
        with pytest.raises(BadInput, match="lower-case letters, digits, - and _"):
            add_vault(rig.registry, spec.model_copy(update={"name": name}), DEPLOYMENT, "")

    assert list(Path(spec.location).iterdir()) == []
    assert add_vault(rig.registry, spec, DEPLOYMENT, "").name == "cold"


def test_a_full_disk_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    vault = LocalVault(VaultSpec(instance="shop", name="disk", kind="local", location=str(tmp_path)))
    monkeypatch.setattr("sexton.storage.local.vault.open_location", full)

    with pytest.raises(VaultFault, match=f"No space left on device; make room on the disk of {tmp_path}: a deletion"):
        vault.read_marker()
