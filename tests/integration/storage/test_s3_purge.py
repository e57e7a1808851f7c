"""Purging a versioned bucket deletes every version of the named keys; only a complete listing of versions proves it."""

import datetime as dt

import pytest

from sexton.storage.model import KeyOutcome, KeyResult
from sexton.storage.port import VaultFault
from sexton.storage.s3 import bucket as s3_bucket
from sexton.storage.s3 import delete as s3_delete
from sexton.storage.s3 import purge
from sexton.storage.s3 import purge as s3_purge
from sexton.storage.s3 import vault as s3_vault
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.delete import Texts
from sexton.storage.s3.vault import S3Vault
from tests.integration.storage.versioned_bucket import outcomes, remaining_versions, set_versioning
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.clock import Clock
from tests.support.places import Bucket, put_all


@pytest.fixture
def place(place: Bucket) -> Bucket:
    """A versioned bucket."""
    set_versioning(place, "Enabled")
    return place


@pytest.fixture
def vault(place: Bucket) -> S3Vault:
    return place.vault(versions="purge")


def test_every_version_and_marker_is_deleted_and_counted(place: Bucket, vault: S3Vault) -> None:
    for body in (b"x", b"four"):
        place.put("wh/d/1", body)
    for _ in range(2):
        place.client.delete_object(Bucket=place.name, Key="wh/d/1")
    place.put("wh/d/2", b"two")

    results = vault.delete(["d/1", "d/2", "d/3", "d/1"])

    one = (KeyOutcome.DELETED, 5)
    assert outcomes(results) == [one, (KeyOutcome.DELETED, 3), (KeyOutcome.ABSENT, None), one]
    assert remaining_versions(place) == {}


def test_keys_with_a_common_beginning_are_not_deleted(place: Bucket, vault: S3Vault) -> None:
    for path in ("wh/a", "wh/ab", "wh/a/b", "wh/a.b", "wh/a-b", "wh/b", "a"):
        place.put(path)

    vault.delete(["a"])
    vault.delete(["b", "a-b"])

    assert remaining_versions(place) == dict.fromkeys(("wh/ab", "wh/a/b", "wh/a.b", "a"), (1, 0))


def test_a_key_with_only_markers_is_purged_and_frees_0_bytes(place: Bucket, vault: S3Vault) -> None:
    place.client.delete_object(Bucket=place.name, Key="wh/d/1")

    assert outcomes(vault.delete(["d/1"])) == [(KeyOutcome.DELETED, 0)]
    assert remaining_versions(place) == {}


def test_an_unlistable_key_is_not_reported_absent(place: Bucket, vault: S3Vault) -> None:
    place.put("wh/odd/c\x01c")

    results = vault.delete(["odd/c\x01c", "odd/none"])

    assert [result.outcome for result in results] == [KeyOutcome.FAILED, KeyOutcome.ABSENT]
    assert place.client.head_object(Bucket=place.name, Key="wh/odd/c\x01c")["ContentLength"] == 1


def test_odd_keys_are_purged_under_their_exact_names(place: Bucket, vault: S3Vault) -> None:
    names = ["a b", "a+b", "a%20b", "a%2Fb", "é", "\U0001f600", "'q'", "<x>", "&amp;", "t\tt", "n\nn", "r\rr"]
    for name in names:
        place.put(f"wh/odd/{name}")
        place.put(f"wh/other/{name}")

    results = vault.delete([f"odd/{name}" for name in names])

    assert outcomes(results) == [(KeyOutcome.DELETED, 1)] * len(names)
    assert len(remaining_versions(place)) == len(names)


def test_a_locked_version_is_named_and_blocks_no_other(s3_server: RunningS3, bucket: str) -> None:
    place = Bucket(s3_server.client(), s3_server.endpoint_url, f"locked-{bucket}")
    place.client.create_bucket(Bucket=place.name, ObjectLockEnabledForBucket=True)
    until = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    put = place.client.put_object
    put(Bucket=place.name, Key="wh/kept", Body=b"x", ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=until)
    put(Bucket=place.name, Key="wh/legal", Body=b"x", ObjectLockLegalHoldStatus="ON")
    place.put("wh/free")
    place.client.delete_object(Bucket=place.name, Key="wh/kept")

    kept, legal, free = place.vault(versions="purge").delete(["kept", "legal", "free"])

    assert [r.outcome for r in (kept, legal, free)] == [KeyOutcome.FAILED, KeyOutcome.FAILED, KeyOutcome.DELETED]
    assert kept.reason.startswith("LOCKED: COMPLIANCE retention until ")
    assert legal.reason.startswith("LOCKED: a legal hold keeps version ")
    assert remaining_versions(place) == {"wh/kept": (1, 1), "wh/legal": (1, 0)}


def test_a_version_that_the_store_keeps_blocks_no_other_key(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    for code, outcome in (("AccessDenied", KeyOutcome.FAILED), ("SlowDown", KeyOutcome.THROTTLED)):
        for n in (1, 2):
            place.put(f"wh/d/{n}")
        proxy.fail_keys({"wh/d/1": code}, times=1)

        kept, gone = vault.delete(["d/1", "d/2"])

        assert (kept.outcome, kept.reason[: len(code)]) == (outcome, code)  # without a lock it is not named as locked
        assert (gone.outcome, gone.reason) == (KeyOutcome.DELETED, "")
        assert remaining_versions(place) == {"wh/d/1": (1, 0)}
        assert outcomes(vault.delete(["d/1"])) == [(KeyOutcome.DELETED, 1)]


def test_a_busy_store_throttles_the_page(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    place.put("wh/d/1")
    proxy.fail_next("ListObjectVersions", 503, "SlowDown", times=4, retry_after="9")

    results = vault.delete(["d/1", "d/2"])

    assert [(r.outcome, r.retry_after) for r in results] == [(KeyOutcome.THROTTLED, 9.0)] * 2
    assert remaining_versions(place) == {"wh/d/1": (1, 0)}


def test_a_page_that_takes_too_long_leaves_the_rest_for_later(
    place: Bucket, vault: S3Vault, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put("wh/d/1")
    monkeypatch.setattr(s3_vault, "PAGE_SECONDS", -1.0)

    assert [r.outcome for r in vault.delete(["d/1"])] == [KeyOutcome.THROTTLED]
    assert [e.operation for e in proxy.log if e.operation == "DeleteObjects"] == []
    assert remaining_versions(place) == {"wh/d/1": (1, 0)}


def test_a_thousand_keys_with_many_versions_end_in_time(
    place: Bucket, vault: S3Vault, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in range(3):
        place.put("wh/d/1", str(version).encode())
    clock, delete_together = Clock(), s3_delete._delete_together

    def slowly(bucket: S3Bucket, *columns: Texts) -> list[KeyResult]:
        clock.sleep(0.6 * s3_vault.PAGE_SECONDS)
        return delete_together(bucket, *columns)

    monkeypatch.setattr(s3_delete, "PAGE_KEYS", 1)
    with monkeypatch.context() as slow:
        slow.setattr(s3_delete, "_delete_together", slowly)
        for module in (s3_bucket, s3_delete, s3_purge, s3_vault):
            slow.setattr(module, "time", clock)
        assert [r.outcome for r in vault.delete(["d/1"])] == [KeyOutcome.THROTTLED]

    assert 0 < sum(remaining_versions(place)["wh/d/1"]) < 3
    assert [r.outcome for r in vault.delete(["d/1"])] == [KeyOutcome.DELETED]


def test_suspended_versioning_still_purges_versions(place: Bucket, vault: S3Vault) -> None:
    place.put("wh/d/1", b"new")
    set_versioning(place, "Suspended")
    place.put("wh/d/1", b"null")

    assert outcomes(vault.delete(["d/1"])) == [(KeyOutcome.DELETED, 7)]
    assert remaining_versions(place) == {}


def test_a_suspended_bucket_frees_what_was_written_since(place: Bucket) -> None:
    place.put("wh/d/1", b"before")
    set_versioning(place, "Suspended")
    place.put("wh/d/2", b"since")

    hidden = (KeyOutcome.HIDDEN, None)
    assert outcomes(place.vault().delete(["d/1", "d/2", "d/3"])) == [hidden, (KeyOutcome.DELETED, 5), hidden]


def test_purging_an_unversioned_bucket_is_a_plain_delete(s3_server: RunningS3, bucket: str, proxy: FaultProxy) -> None:
    place = Bucket(s3_server.client(), proxy.url, bucket)
    place.put("wh/d/1")

    assert outcomes(place.vault(versions="purge").delete(["d/1"])) == [(KeyOutcome.DELETED, None)]
    assert "ListObjectVersions" not in [entry.operation for entry in proxy.log]


def test_unknown_versioning_means_versions_are_listed(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    place.put("wh/d/1")
    place.put("wh/d/1")
    proxy.fail_next("GetBucketVersioning", 403, "AccessDenied")

    assert outcomes(vault.delete(["d/1"])) == [(KeyOutcome.DELETED, 2)]
    assert remaining_versions(place) == {}


def test_versioning_switched_on_later_is_detected(
    s3_server: RunningS3, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Bucket(s3_server.client(), s3_server.endpoint_url, bucket)
    vault = place.vault()
    assert vault.delete(["d/1"])[0].outcome is KeyOutcome.DELETED
    set_versioning(place, "Enabled")
    monkeypatch.setattr(s3_bucket, "VERSIONING_SECONDS", 0.0)

    assert vault.delete(["d/1"])[0].outcome is KeyOutcome.HIDDEN


def test_sextons_own_files_leave_no_versions(place: Bucket, vault: S3Vault) -> None:
    for _ in range(2):
        vault.write_own("audit/1", b"x")

    vault.remove_own(["audit/1"])

    assert remaining_versions(place) == {}


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
    monkeypatch.setattr(purge, "LISTED", listed)

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
    monkeypatch.setattr(purge, "LISTED", 10)

    assert outcomes(vault.delete(["d/1"])) == [(KeyOutcome.DELETED, 25)]
    assert remaining_versions(place) == {"wh/d/10": (1, 0)}


def test_a_listing_that_may_hide_versions_proves_no_deletion(
    place: Bucket, vault: S3Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_all(place, [f"wh/d/1-{n:02}" for n in range(11)])
    monkeypatch.setattr(purge, "LISTED", 10)

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
    # The rules of an unversioned bucket are not read.
    requests = [entry.operation for entry in proxy.log].count(LIFECYCLE)
    fresh = place.vault()
    fresh._bucket._versioning = (float("inf"), "")
    assert (fresh.versions_days(), [entry.operation for entry in proxy.log].count(LIFECYCLE)) == (None, requests)


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
    # A status is read whatever the root is called.
    proxy.answer_next("GetBucketVersioning", b"<Answer><Status>Enabled</Status></Answer>")
    assert place.vault().delete(["d/1"])[0].outcome is KeyOutcome.HIDDEN
