"""moto, a second implementation of S3: its abilities are detected, and a key that it cannot list is kept."""

from sexton.operators.registry.add_remove import add_vault
from sexton.storage.model import KeyOutcome, VaultSpec
from tests.servers.moto import MotoS3
from tests.support.rig import DEPLOYMENT, Rig


def _spec(name: str, bucket: str, **options: object) -> VaultSpec:
    fixed = {"instance": "shop", "name": name, "kind": "s3", "location": bucket, "prefix": "wh/"}
    return VaultSpec.model_validate(fixed | options)


def test_probe_detects_what_the_server_ignores(rig: Rig, moto_server: MotoS3) -> None:
    bucket, url = moto_server.create_bucket(), moto_server.endpoint_url

    plain = add_vault(rig.registry, _spec("plain", bucket), DEPLOYMENT, url).probe
    listed = moto_server.client().list_objects_v2(Bucket=bucket)["Contents"]
    conditional = _spec("cold", moto_server.create_bucket(), conditional=True)
    probe = add_vault(rig.registry, conditional, DEPLOYMENT, url).probe

    assert plain is not None
    assert (plain.versioning, plain.order, plain.paging, plain.left) == ("", "byte", True, 0)
    assert [entry["Key"] for entry in listed] == ["wh/_sexton/vault.json"]
    assert probe is not None
    assert (probe.etag_single, probe.etag_multi, probe.wrong_credentials_refused) == (True, False, False)
    assert (probe.quiet, probe.tells_absent, probe.per_key_errors) == (False, False, None)


def test_key_that_the_server_cannot_list_is_kept(database_url: str, moto_server: MotoS3) -> None:
    rig = Rig(database_url, endpoint_url=moto_server.endpoint_url).instance()
    bucket, client = moto_server.create_bucket(), moto_server.client()
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    add_vault(rig.registry, _spec("cold", bucket, versions="purge"), DEPLOYMENT, rig.endpoint_url)
    client.put_object(Bucket=bucket, Key="wh/d/c\x01c", Body=b"x")

    result = rig.vaults.get("shop", "cold").delete(["d/c\x01c"])[0]

    assert (result.outcome, result.reason[:4]) == (KeyOutcome.THROTTLED, "500:")
    assert client.head_object(Bucket=bucket, Key="wh/d/c\x01c")["ContentLength"] == 1
    rig.db.close()
