"""A conditional vault deletes an object only if its ETag is unchanged."""

from collections.abc import Sequence

import pytest

from sexton.storage.model import KeyOutcome, KeyResult, Probe
from sexton.storage.port import VaultFault
from sexton.storage.s3.vault import S3Vault
from tests.integration.storage.versioned_bucket import set_versioning
from tests.servers.fault_proxy import FaultProxy
from tests.support.places import Bucket

OTHER = "0" * 32


@pytest.fixture(params=["one by one", "together"])
def vault(request: pytest.FixtureRequest, place: Bucket) -> S3Vault:
    """As the store was seen to honour ETags: only on a request for each object, or in one for many as well."""
    probe = Probe(etag_single=True, etag_multi=request.param == "together")
    spec = place.vault().spec.model_copy(update={"conditional": True, "probe": probe})
    return S3Vault(spec, place.endpoint_url)


def etags(vault: S3Vault, keys: Sequence[str]) -> list[str]:
    return [listed.etag for listed in vault.stat(keys)]


def outcomes(results: Sequence[KeyResult]) -> list[KeyOutcome]:
    return [result.outcome for result in results]


def test_r40_a_rewritten_object_is_kept_and_both_etags_named(place: Bucket, vault: S3Vault) -> None:
    keys = ["d/1", "d/2", "d/3"]
    for key in keys:
        place.put(f"wh/{key}", b"first")
    meant = etags(vault, keys)
    place.put("wh/d/2", b"second")

    results = vault.delete(keys, meant)

    assert outcomes(results) == [KeyOutcome.DELETED, KeyOutcome.CHANGED, KeyOutcome.DELETED]
    assert meant[1] in results[1].reason
    assert etags(vault, ["d/2"])[0] in results[1].reason
    assert [place.has(f"wh/{key}") for key in keys] == [False, True, False]


def test_a_key_without_a_known_etag_is_not_deleted(place: Bucket, vault: S3Vault) -> None:
    for n in (1, 2):
        place.put(f"wh/d/{n}")

    results = vault.delete(["d/1", "d/2"], ["", *etags(vault, ["d/2"])])
    without = vault.delete(["d/1"])

    assert outcomes(results) == [KeyOutcome.FAILED, KeyOutcome.DELETED]
    assert ("no ETag known" in results[0].reason, outcomes(without)) == (True, [KeyOutcome.FAILED])
    assert place.has("wh/d/1")


def test_a_missing_object_is_absent_not_changed(place: Bucket, vault: S3Vault) -> None:
    place.put("wh/d/1")
    meant = etags(vault, ["d/1"])

    assert outcomes(vault.delete(["d/1"], meant)) == [KeyOutcome.DELETED]
    assert outcomes(vault.delete(["d/1"], meant)) == [KeyOutcome.ABSENT]


def test_in_a_versioned_bucket_a_conditional_delete_hides(place: Bucket, vault: S3Vault) -> None:
    set_versioning(place, "Enabled")
    for n in (1, 2):
        place.put(f"wh/d/{n}")
    meant = etags(vault, ["d/1", "d/2"])

    assert outcomes(vault.delete(["d/1", "d/2"], [meant[0], OTHER])) == [KeyOutcome.HIDDEN, KeyOutcome.CHANGED]
    assert outcomes(vault.delete(["d/1"], meant[:1])) in ([KeyOutcome.HIDDEN], [KeyOutcome.ABSENT])
    assert place.has("wh/d/2")


def test_odd_keys_are_compared_too(place: Bucket, vault: S3Vault) -> None:
    keys = ["odd/c\x01c", "odd/f\uffff", "odd/a b+%2F"]
    for key in keys:
        place.put(f"wh/{key}")

    results = vault.delete(keys, [OTHER, *etags(vault, keys[1:])])

    assert outcomes(results) == [KeyOutcome.CHANGED, KeyOutcome.DELETED, KeyOutcome.DELETED]
    assert place.client.head_object(Bucket=place.name, Key=f"wh/{keys[0]}")["ContentLength"] == 1


def test_requests_have_the_size_that_the_store_accepts(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    keys = [f"d/{n}" for n in range(10)]
    for key in keys:
        place.put(f"wh/{key}")
    meant = etags(vault, keys)

    vault.delete(keys, meant)

    sent = [entry.operation for entry in proxy.log if entry.operation in ("DeleteObject", "DeleteObjects")]
    together = vault.spec.probe is not None and vault.spec.probe.etag_multi
    assert sent == (["DeleteObjects"] if together else ["DeleteObject"] * 10)


def test_a_conflicting_request_is_retried(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    place.put("wh/d/1")
    meant = etags(vault, ["d/1"])
    proxy.fail_next("DeleteObject", 409, "ConditionalRequestConflict")
    proxy.fail_keys({"wh/d/1": "ConditionalRequestConflict"}, times=1)

    assert outcomes(vault.delete(["d/1"], meant)) == [KeyOutcome.THROTTLED]
    assert place.has("wh/d/1")


def test_a_refused_correct_etag_does_not_mean_changed(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    place.put("wh/d/1")
    meant = etags(vault, ["d/1"])
    proxy.fail_next("DeleteObject", 412, "PreconditionFailed")
    proxy.fail_keys({"wh/d/1": "PreconditionFailed"}, times=1)

    (result,) = vault.delete(["d/1"], meant)

    assert (result.outcome, "vault probe" in result.reason) == (KeyOutcome.FAILED, True)


def test_a_missing_bucket_is_a_fault(place: Bucket, vault: S3Vault) -> None:
    missing = S3Vault(vault.spec.model_copy(update={"location": "nowhere-at-all"}), place.endpoint_url)
    with pytest.raises(VaultFault, match="NO_BUCKET"):
        missing.delete(["d/1"], [OTHER])
