"""moto, a second implementation of S3, holds a vault: it is added, listed, deleted from, purged and undeleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.operators.registry.add_vault import add_vault
from sexton.storage.model import KeyOutcome, VaultSpec
from tests.servers.moto import MotoS3
from tests.servers.postgres import new_database
from tests.support.rig import DEPLOYMENT, Rig


@pytest.fixture
def server(moto_server: MotoS3) -> MotoS3:
    return moto_server


@pytest.fixture
def rig(tmp_path: Path, server: MotoS3) -> Iterator[Rig]:
    """One instance ``shop`` without a vault; the store is moto's."""
    rig = Rig(new_database(), endpoint_url=server.endpoint_url)
    rig.registry.add_instance("shop")
    yield rig
    rig.db.close()


def _spec(bucket: str, **options: object) -> VaultSpec:
    return VaultSpec.model_validate(
        {"instance": "shop", "name": "cold", "kind": "s3", "location": bucket, "prefix": "wh/"} | options
    )


def _keys(server: MotoS3, bucket: str) -> list[str]:
    listed = server.client().list_objects_v2(Bucket=bucket)
    return [entry["Key"] for entry in listed.get("Contents", ())]


def test_probe_leaves_only_the_marker_of_the_vault(rig: Rig, server: MotoS3) -> None:
    bucket = server.create_bucket()

    added = add_vault(rig.registry, _spec(bucket), DEPLOYMENT, server.endpoint_url)

    assert added.probe is not None
    assert (added.probe.versioning, added.probe.order, added.probe.paging, added.probe.left) == ("", "byte", True, 0)
    assert _keys(server, bucket) == ["wh/_sexton/vault.json"]


def test_probe_detects_what_the_server_ignores(rig: Rig, server: MotoS3) -> None:
    bucket = server.create_bucket()

    probe = add_vault(rig.registry, _spec(bucket, conditional=True), DEPLOYMENT, server.endpoint_url).probe

    assert probe is not None
    assert (probe.etag_single, probe.etag_multi, probe.wrong_credentials_refused) == (True, False, False)
    assert (probe.quiet, probe.tells_absent, probe.per_key_errors) == (False, False, None)


def test_key_that_the_server_cannot_list_is_kept(rig: Rig, server: MotoS3) -> None:
    bucket = server.create_bucket()
    server.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    add_vault(rig.registry, _spec(bucket, versions="purge"), DEPLOYMENT, server.endpoint_url)
    server.client().put_object(Bucket=bucket, Key="wh/d/c\x01c", Body=b"x")

    result = rig.vaults.get("shop", "cold").delete(["d/c\x01c"])[0]

    assert (result.outcome, result.reason[:4]) == (KeyOutcome.THROTTLED, "500:")
    assert server.client().head_object(Bucket=bucket, Key="wh/d/c\x01c")["ContentLength"] == 1


@pytest.mark.slow
def test_vault_lists_and_deletes_exactly_the_named_keys(rig: Rig, server: MotoS3) -> None:
    bucket = server.create_bucket()
    add_vault(rig.registry, _spec(bucket), DEPLOYMENT, server.endpoint_url)
    vault = rig.vaults.get("shop", "cold")
    for n in range(1_003):
        server.client().put_object(Bucket=bucket, Key=f"wh/d/{n:04}", Body=b"x")

    listed = [entry.key for page in vault.list("d/") for entry in page]
    results = vault.delete(listed[:1_000])

    assert len(listed) == 1_003
    assert {result.outcome for result in results} == {KeyOutcome.DELETED}
    assert _keys(server, bucket) == ["wh/_sexton/vault.json", "wh/d/1000", "wh/d/1001", "wh/d/1002"]


def test_versioned_bucket_hides_and_undeletes(rig: Rig, server: MotoS3) -> None:
    bucket = server.create_bucket()
    server.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    add_vault(rig.registry, _spec(bucket), DEPLOYMENT, server.endpoint_url)
    vault = rig.vaults.get("shop", "cold")
    server.client().put_object(Bucket=bucket, Key="wh/d/1", Body=b"x")

    outcome = vault.delete(["d/1"])[0].outcome
    hidden = _keys(server, bucket)
    list(vault.undelete("d/"))

    assert outcome is KeyOutcome.HIDDEN
    assert "wh/d/1" not in hidden
    assert "wh/d/1" in _keys(server, bucket)


def test_purging_vault_removes_every_version(rig: Rig, server: MotoS3) -> None:
    bucket = server.create_bucket()
    server.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    add_vault(rig.registry, _spec(bucket, versions="purge"), DEPLOYMENT, server.endpoint_url)
    for _ in range(3):
        server.client().put_object(Bucket=bucket, Key="wh/d/1", Body=b"x")

    result = rig.vaults.get("shop", "cold").delete(["d/1"])[0]

    left = server.client().list_object_versions(Bucket=bucket, Prefix="wh/d/")
    assert result.outcome is KeyOutcome.DELETED
    assert left.get("Versions", []) + left.get("DeleteMarkers", []) == []
