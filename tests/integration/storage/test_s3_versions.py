"""A key counts as purged only when a complete version listing proves it."""

import pytest

from sexton.storage.model import KeyOutcome
from sexton.storage.port import VaultFault
from sexton.storage.s3 import versions
from sexton.storage.s3.vault import S3Vault
from tests.integration.storage.versioned_bucket import outcomes, purging, remaining_versions, set_versioning
from tests.servers.fault_proxy import FaultProxy
from tests.support.places import Bucket, put_all


@pytest.fixture
def place(place: Bucket) -> Bucket:
    """A versioned bucket."""
    set_versioning(place, "Enabled")
    return place


@pytest.fixture
def vault(place: Bucket) -> S3Vault:
    return purging(place)


@pytest.mark.slow
@pytest.mark.parametrize("listed", [1, 2, 5, 20])
def test_keys_among_many_neighbours_lose_all_versions(
    place: Bucket, vault: S3Vault, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    """SeaweedFS leaves versions of `d/1` out of a listing of two pages, because `d/1/` is a folder as well."""
    others = [*(f"wh/d/1/{n:02}" for n in range(15)), *(f"wh/d/10{n:02}" for n in range(15))]
    put_all(place, others)
    meant = ["d/1", "d/1.x", "d/1-x", "d/10", "d/1/00"]
    for key in meant:
        place.put(f"wh/{key}", b"old")
        place.put(f"wh/{key}", b"new")
    monkeypatch.setattr(versions, "LISTED", listed)

    results = dict(zip(meant, vault.delete(meant), strict=True))

    rest = remaining_versions(place)
    assert {key for key, r in results.items() if r.outcome is KeyOutcome.DELETED and f"wh/{key}" in rest} == set()
    assert rest.keys() >= set(others) - {"wh/d/1/00"}
    if listed == 20:
        assert outcomes(list(results.values())) == [(KeyOutcome.DELETED, 6)] * 4 + [(KeyOutcome.DELETED, 7)]


def test_a_key_with_more_versions_than_a_page_loses_all(
    place: Bucket, vault: S3Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_all(place, ["wh/d/1"] * 25)
    place.put("wh/d/10")
    monkeypatch.setattr(versions, "LISTED", 10)

    assert outcomes(vault.delete(["d/1"])) == [(KeyOutcome.DELETED, 25)]
    assert remaining_versions(place) == {"wh/d/10": (1, 0)}


def test_a_listing_that_may_hide_versions_proves_no_deletion(
    place: Bucket, vault: S3Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_all(place, [f"wh/d/1-{n:02}" for n in range(11)])
    monkeypatch.setattr(versions, "LISTED", 10)

    (result,) = vault.delete(["d/1"])

    assert (result.outcome, "neighbours" in result.reason) == (KeyOutcome.FAILED, True)


def test_a_broken_version_listing_is_never_a_shorter_one(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    for n in range(3):
        place.put(f"wh/d/{n}")
    for break_next in (proxy.truncate_next, proxy.empty_next):
        break_next("ListObjectVersions")

        with pytest.raises(VaultFault, match="BAD_REPLY"):
            vault.delete([f"d/{n}" for n in range(3)])
    assert len(remaining_versions(place)) == 3


VERSION = "<Version><Key>{}</Key><VersionId>v1</VersionId><IsLatest>true</IsLatest>{}<Size>1</Size></Version>"
AT = "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
REPLIES = {
    "a key of another prefix": VERSION.format("wh/e/1", AT) + "<IsTruncated>false</IsTruncated>",
    "no word on being complete": VERSION.format("wh/d/1", AT),
    "a version without a size": VERSION.format("wh/d/1", AT).replace("<Size>1</Size>", "")
    + "<IsTruncated>false</IsTruncated>",
    "no date": VERSION.format("wh/d/1", "") + "<IsTruncated>false</IsTruncated>",
    "truncated without a way on": VERSION.format("wh/d/1", AT) + "<IsTruncated>true</IsTruncated>",
}


def test_a_contradictory_version_listing_is_a_fault(
    vault: S3Vault, proxy: FaultProxy, subtests: pytest.Subtests
) -> None:
    for what in REPLIES:
        with subtests.test(what=what):
            body = f"<ListVersionsResult>{REPLIES[what]}</ListVersionsResult>"
            proxy.answer_next("ListObjectVersions", body.encode())

            with pytest.raises(VaultFault, match="BAD_REPLY"):
                vault.delete(["d/1", "d/2"])


def test_a_version_that_remains_after_its_delete_is_not_gone(vault: S3Vault, proxy: FaultProxy) -> None:
    body = VERSION.format("wh/d/1", AT) + "<IsTruncated>false</IsTruncated>"
    proxy.answer_next("ListObjectVersions", f"<ListVersionsResult>{body}</ListVersionsResult>".encode(), times=2)

    (result,) = vault.delete(["d/1"])

    assert (result.outcome, "still lists it" in result.reason) == (KeyOutcome.FAILED, True)


RULES = (
    "<LifecycleConfiguration>"
    "<Rule><ID>a</ID><Status>Enabled</Status><Filter><Prefix>wh/data/</Prefix></Filter>"
    "<NoncurrentVersionExpiration><NoncurrentDays>9</NoncurrentDays></NoncurrentVersionExpiration></Rule>"
    "<Rule><ID>b</ID><Status>Enabled</Status><Filter><And><Prefix>w</Prefix>"
    "<ObjectSizeGreaterThan>5</ObjectSizeGreaterThan></And></Filter>"
    "<NoncurrentVersionExpiration><NoncurrentDays>30</NoncurrentDays></NoncurrentVersionExpiration></Rule>"
    "<Rule><ID>c</ID><Status>Disabled</Status><Filter><Prefix></Prefix></Filter>"
    "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration></Rule>"
    "<Rule><ID>d</ID><Status>Enabled</Status><Filter><Prefix>other/</Prefix></Filter>"
    "<NoncurrentVersionExpiration><NoncurrentDays>2</NoncurrentDays></NoncurrentVersionExpiration></Rule>"
    "<Rule><ID>e</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter>"
    "<Expiration><Days>3</Days></Expiration></Rule>"
    "</LifecycleConfiguration>"
)
LIFECYCLE = "GetBucketLifecycleConfiguration"


def test_version_retention_follows_rules_for_the_vaults_keys(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    assert place.vault().versions_days() is None  # the real store has no rules
    proxy.answer_next(LIFECYCLE, RULES.encode())
    assert vault.versions_days() == 9
    proxy.fail_next(LIFECYCLE, 404, "NoSuchLifecycleConfiguration")
    assert vault.versions_days() is None
    proxy.fail_next(LIFECYCLE, 403, "AccessDenied")
    assert vault.versions_days() is None
    proxy.fail_next(LIFECYCLE, 404, "NoSuchBucket")
    with pytest.raises(VaultFault, match="NO_BUCKET"):
        vault.versions_days()


def test_an_unversioned_buckets_rules_are_not_read(place: Bucket, proxy: FaultProxy) -> None:
    set_versioning(place, "Suspended")
    fresh = place.vault()
    fresh._bucket._versioning = (float("inf"), "")

    assert fresh.versions_days() is None
    assert LIFECYCLE not in {entry.operation for entry in proxy.log}


def test_an_unclear_versioning_reply_is_a_fault(place: Bucket, proxy: FaultProxy, subtests: pytest.Subtests) -> None:
    place.put("wh/d/1")
    for body, why in [
        ("<ListBucketResult/>", "a ListBucketResult without a Status does not show whether the bucket is versioned"),
        ("<html><body/></html>", "expected a VersioningConfiguration"),
        ("<ListBucketResult><Contents/></ListBucketResult>", "expected a VersioningConfiguration"),
        ("<VersioningConfiguration><Status>On</Status></VersioningConfiguration>", "the status is On, not Enabled"),
    ]:
        with subtests.test(body=body, why=why):
            proxy.answer_next("GetBucketVersioning", body.encode())

            with pytest.raises(VaultFault, match=f"BAD_REPLY: GetBucketVersioning: {why}"):
                place.vault().delete(["d/1"])
            assert place.has("wh/d/1")


def test_a_status_is_read_whatever_the_root_is_called(place: Bucket, proxy: FaultProxy) -> None:
    proxy.answer_next("GetBucketVersioning", b"<Answer><Status>Enabled</Status></Answer>")

    assert place.vault().delete(["d/1"])[0].outcome is KeyOutcome.HIDDEN
