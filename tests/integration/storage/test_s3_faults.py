"""A failing S3 store is never read as a successful delete or a complete listing; waits and locks are reported."""

from pathlib import Path

import pytest

from sexton.storage.model import KeyOutcome
from sexton.storage.port import Throttled, VaultFault
from sexton.storage.s3 import wire
from sexton.storage.s3.vault import S3Vault
from tests.integration.storage.versioned_bucket import set_versioning
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.places import MARKER, Bucket, keys, put_all


def test_per_key_errors_in_a_200_keep_only_those_keys(place: Bucket, proxy: FaultProxy) -> None:
    for n in (3, 4, 700):
        place.put(f"wh/d/{n}")
    proxy.fail_keys({"wh/d/3": "AccessDenied", "wh/d/700": "SlowDown"})

    results = place.vault().delete([f"d/{n}" for n in range(1_000)])

    odd = {n: (r.outcome, r.reason) for n, r in enumerate(results) if r.outcome is not KeyOutcome.DELETED}
    assert odd == {
        3: (KeyOutcome.FAILED, "AccessDenied: asked for by the test"),
        700: (KeyOutcome.THROTTLED, "SlowDown: asked for by the test"),
    }
    assert [place.has(f"wh/d/{n}") for n in (3, 4, 700)] == [True, False, True]


def test_each_per_key_code_has_its_outcome(place: Bucket, proxy: FaultProxy, subtests: pytest.Subtests) -> None:
    for code, outcome in [
        ("NoSuchKey", KeyOutcome.ABSENT),
        ("InternalError", KeyOutcome.THROTTLED),
        ("ServiceUnavailable", KeyOutcome.THROTTLED),
        ("RequestTimeout", KeyOutcome.THROTTLED),
        ("ThrottlingException", KeyOutcome.THROTTLED),
        ("PreconditionFailed", KeyOutcome.FAILED),
        ("Unheard", KeyOutcome.FAILED),
    ]:
        with subtests.test(code=code, outcome=outcome):
            proxy.fail_keys({"wh/d/1": code}, times=1)

            assert [result.outcome for result in place.vault().delete(["d/1", "d/2"])] == [outcome, KeyOutcome.DELETED]


def test_a_bucket_missing_for_one_key_is_missing_for_all(place: Bucket, proxy: FaultProxy) -> None:
    proxy.fail_keys({"wh/d/1": "NoSuchBucket"})

    with pytest.raises(VaultFault, match="NO_BUCKET"):
        place.vault().delete(["d/1", "d/2"])


WAITS = [("7", 7.0), ("0.5", 0.5), ("100000", 60.0), ("soon", None), ("", None), ("-3", None)]
WAITS += [("Fri, 01 Jan 2100 00:00:00 GMT", None)]
"""What a busy store writes into Retry-After → the seconds to wait."""


def test_a_busy_store_throttles_the_page_without_a_retry(place: Bucket, proxy: FaultProxy) -> None:
    place.put("wh/d/1")
    sent = [(status, said, seconds) for status in (503, 429) for said, seconds in WAITS] + [(500, "", None)]
    for status, said, seconds in sent:
        proxy.fail_next("DeleteObjects", status, "SlowDown", retry_after=said)

        results = place.vault().delete(["d/1", "d/2"])

        assert [(r.outcome, r.retry_after) for r in results] == [(KeyOutcome.THROTTLED, seconds)] * 2, (status, said)
        assert place.has("wh/d/1")
    statuses = [entry.status for entry in proxy.log if entry.operation == "DeleteObjects"]
    assert statuses == [status for status, *_ in sent]


def test_a_store_too_busy_for_its_versioning_throttles_the_page(place: Bucket, proxy: FaultProxy) -> None:
    proxy.fail_next("GetBucketVersioning", 503, "SlowDown", times=4)

    assert [result.outcome for result in place.vault().delete(["d/1"])] == [KeyOutcome.THROTTLED]


@pytest.mark.parametrize("after", [False, True])
def test_a_reset_connection_is_a_fault_without_a_retry(place: Bucket, proxy: FaultProxy, after: bool) -> None:
    place.put("wh/d/1")
    proxy.reset_next("DeleteObjects", after=after)

    with pytest.raises(VaultFault, match=": UNREACHABLE:"):
        place.vault().delete(["d/1"])
    assert place.has("wh/d/1") is not after
    assert len([entry for entry in proxy.log if entry.operation == "DeleteObjects"]) == 1


def test_a_truncated_delete_reply_is_never_all_deleted(place: Bucket, proxy: FaultProxy) -> None:
    page = [f"d/{n}" for n in range(10)]
    for operation in ("DeleteObjects", "GetBucketVersioning"):
        vault = place.vault()
        for break_next in (proxy.truncate_next, proxy.empty_next):
            break_next(operation)

            with pytest.raises(VaultFault, match=": BAD_REPLY:"):
                vault.delete(page)
        assert {result.outcome for result in vault.delete(["d/1"])} == {KeyOutcome.DELETED}
    proxy.fail_keys({f"wh/{key}": "AccessDenied" for key in page})
    proxy.truncate_next("DeleteObjects")

    with pytest.raises(VaultFault, match="BAD_REPLY"):
        place.vault().delete(page)


def test_a_broken_listing_is_never_a_shorter_one(place: Bucket, proxy: FaultProxy) -> None:
    for n in range(5):
        place.put(f"wh/d/{n}")
    vault = place.vault()
    for break_next in (proxy.truncate_next, proxy.empty_next):
        break_next("ListObjectsV2")

        with pytest.raises(VaultFault, match=": BAD_REPLY:"):
            keys(vault, "d/")
    assert len(keys(vault, "d/")) == 5


DELETE_REPLIES = {
    "an error for a key not asked for": "<DeleteResult><Error><Key>wh/other</Key><Code>X</Code></Error></DeleteResult>",
    "an error without a key": "<DeleteResult><Error><Code>AccessDenied</Code></Error></DeleteResult>",
    "an error for two keys": "<DeleteResult><Error><Key>wh/d/1</Key><Key>wh/d/2</Key></Error></DeleteResult>",
    "silence about one of two keys": "<DeleteResult><Deleted><Key>wh/d/1</Key></Deleted></DeleteResult>",
    "errors where none are read": "<DeleteResult><Errors><Error><Key>wh/d/1</Key></Error></Errors></DeleteResult>",
    "another document": "<html><body>Welcome</body></html>",
    "text": "ok",
}


def test_a_contradictory_delete_reply_is_a_fault(place: Bucket, proxy: FaultProxy, subtests: pytest.Subtests) -> None:
    for what in DELETE_REPLIES:
        with subtests.test(what=what):
            proxy.answer_next("DeleteObjects", DELETE_REPLIES[what].encode())

            with pytest.raises(VaultFault, match="BAD_REPLY"):
                place.vault().delete(["d/1", "d/2"])


def test_a_quiet_reply_without_errors_means_all_deleted(place: Bucket, proxy: FaultProxy) -> None:
    for body in ("<DeleteResult/>", '<?xml version="1.0"?>\n<DeleteResult xmlns="urn:x"></DeleteResult>'):
        proxy.answer_next("DeleteObjects", body.encode())

        assert [result.outcome for result in place.vault().delete(["d/1", "d/2"])] == [KeyOutcome.DELETED] * 2


def test_an_error_document_in_a_200_is_an_error(place: Bucket, proxy: FaultProxy) -> None:
    for code, reason in (("AccessDenied", "DENIED"), ("NoSuchBucket", "NO_BUCKET")):
        proxy.answer_next("DeleteObjects", f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode())
        with pytest.raises(VaultFault, match=f": {reason}:"):
            place.vault().delete(["d/1"])
    proxy.answer_next("DeleteObjects", b"<Error><Code>SlowDown</Code></Error>")

    assert place.vault().delete(["d/1"])[0].outcome is KeyOutcome.THROTTLED
    # boto3 overlooks one whose name has a namespace, so its code is not known.
    proxy.answer_next("GetBucketVersioning", b'<Error xmlns="urn:x"><Code>AccessDenied</Code></Error>', times=4)
    assert place.vault().delete(["d/1"])[0].outcome is KeyOutcome.THROTTLED


def _listed(*keys: str, tail: str = "<IsTruncated>false</IsTruncated>") -> str:
    entries = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    return f"<ListBucketResult>{entries}{tail}</ListBucketResult>"


LISTINGS = {
    "truncated without a token": _listed("wh/d/1", tail="<IsTruncated>true</IsTruncated>"),
    "no word on being complete": _listed("wh/d/1", tail=""),
    "a key of another prefix": _listed("wh/d/1", "wh/e/1"),
    "a key twice": _listed("wh/d/1", "wh/d/1"),
    "a step back": _listed("wh/d/2", "wh/d/1"),
    "path order, then byte order": _listed("wh/d/a/1", "wh/d/a-1", "wh/d/b-1", "wh/d/b/1"),
    "more than a page": _listed(*(f"wh/d/{n:04}" for n in range(1_001))),
    "no size": _listed("wh/d/1").replace("<Size>1</Size>", ""),
    "a size that is none": _listed("wh/d/1").replace("<Size>1", "<Size>big"),
    "another document": "<html></html>",
}


def test_a_listing_that_cannot_be_complete_is_a_fault(
    place: Bucket, proxy: FaultProxy, subtests: pytest.Subtests
) -> None:
    for what in LISTINGS:
        with subtests.test(what=what):
            proxy.answer_next("ListObjectsV2", LISTINGS[what].encode())

            with pytest.raises(VaultFault, match="BAD_REPLY"):
                keys(place.vault(), "d/")


def test_a_listing_that_repeats_a_page_is_a_fault(place: Bucket, proxy: FaultProxy) -> None:
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
    proxy.answer_next("ListObjectsV2", _listed(tail=more).encode(), times=3)

    with pytest.raises(VaultFault, match="BAD_REPLY"):
        keys(place.vault(), "d/")


@pytest.mark.parametrize("fault", ["fail", "reset"])
def test_one_bad_reply_to_a_listing_is_retried(
    place: Bucket, proxy: FaultProxy, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.storage.s3.bucket.QUICK_SECONDS", 60.0)  # a busy machine's quick reply
    put_all(place, ["wh/d/1", "wh/d/2"])
    proxy.fail_next("ListObjectsV2", 503, "SlowDown") if fault == "fail" else proxy.reset_next("ListObjectsV2")

    listed = [o.key for page in place.vault().list("d/") for o in page]

    assert listed == ["d/1", "d/2"]
    assert proxy.faults_left("ListObjectsV2") == 0


@pytest.mark.slow
def test_a_listing_that_breaks_on_page_two_is_a_fault(place: Bucket, proxy: FaultProxy) -> None:
    put_all(place, [f"wh/d/{n:04}" for n in range(1_001)])
    pages = place.vault().list("d/")
    assert len(next(pages)) == 1_000
    proxy.fail_next("ListObjectsV2", 503, "SlowDown", times=4)

    with pytest.raises(Throttled):
        next(pages)


def test_a_refused_page_is_a_fault_with_its_reason(place: Bucket, proxy: FaultProxy, subtests: pytest.Subtests) -> None:
    place.put("wh/d/1")
    for status, code, reason in [
        (403, "AccessDenied", "DENIED"),
        (403, "InvalidAccessKeyId", "DENIED"),
        (400, "ExpiredToken", "DENIED"),
        (404, "NoSuchBucket", "NO_BUCKET"),
        (400, "MalformedXML", "BAD_REPLY"),
    ]:
        with subtests.test(status=status, code=code, reason=reason):
            proxy.fail_next("DeleteObjects", status, code)

            with pytest.raises(VaultFault) as caught:
                place.vault().delete(["d/1"])
            assert (caught.value.reason, code in caught.value.detail) == (reason, True)
            assert place.has("wh/d/1")


def test_wrong_credentials_are_denied(
    s3_server: RunningS3, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    file.write_text(f"[wrong]\naws_access_key_id = {s3_server.access_key}\naws_secret_access_key = no\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    place = Bucket(s3_server.client(), s3_server.endpoint_url, bucket)

    for profile in ("wrong", "missing"):
        for attempt in (
            place.vault(profile=profile).read_marker,
            lambda profile=profile: place.vault(profile=profile).delete(["d/1"]),
            lambda profile=profile: place.vault(profile=profile).write_marker(MARKER),
        ):
            with pytest.raises(VaultFault, match=": DENIED:"):
                attempt()


def test_replaced_credentials_are_used_without_a_restart(
    s3_server: RunningS3, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, login = tmp_path / "credentials", "[replaced]\naws_access_key_id = {}\naws_secret_access_key = {}\n"
    file.write_text(login.format(s3_server.access_key, "old"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setattr(wire, "LOGIN_SECONDS", 0.0)
    vault = Bucket(s3_server.client(), s3_server.endpoint_url, bucket).vault(profile="replaced")
    with pytest.raises(VaultFault, match=": DENIED:"):
        vault.read_marker()

    file.write_text(login.format(s3_server.access_key, s3_server.secret_key))

    assert vault.read_marker() is None


def test_nothing_listening_is_unreachable(place: Bucket) -> None:
    with pytest.raises(VaultFault, match=": UNREACHABLE:"):
        S3Vault(place.vault().spec, "http://127.0.0.1:9").delete(["d/1"])


@pytest.mark.parametrize("status", ["Enabled", "Suspended"])
def test_a_versioned_bucket_hides_and_is_queried_once(place: Bucket, proxy: FaultProxy, status: str) -> None:
    set_versioning(place, status)
    vault = place.vault()

    assert [vault.delete([key])[0].outcome for key in ("d/1", "d/2")] == [KeyOutcome.HIDDEN, KeyOutcome.HIDDEN]
    assert [entry.operation for entry in proxy.log].count("GetBucketVersioning") == 1


def test_a_store_without_a_versioning_api_counts_as_unversioned(place: Bucket, proxy: FaultProxy) -> None:
    for code, status in (("AccessDenied", 403), ("NotImplemented", 501)):
        proxy.fail_next("GetBucketVersioning", status, code)

        assert place.vault().delete(["d/1"])[0].outcome is KeyOutcome.DELETED


def test_two_adds_at_once_leave_one_marker(place: Bucket, proxy: FaultProxy) -> None:
    proxy.fail_next("GetObject", 404, "NoSuchKey")  # the second one looks before the first has written
    place.vault().read_marker()
    S3Vault(place.vault().spec, proxy.url).write_marker(MARKER)
    proxy.fail_next("GetObject", 404, "NoSuchKey")

    with pytest.raises(VaultFault, match="FOREIGN_MARKER"):
        place.vault().write_marker(MARKER.model_copy(update={"vault_uuid": "second"}))
    assert place.vault().read_marker() == MARKER


LOCKS = [
    ("ObjectLocked", "m"),
    ("ObjectLockedByRetention", "m"),
    ("AccessDenied", "Access Denied because object protected by object lock."),
    ("InvalidRequest", "Object is WORM protected and cannot be overwritten"),
    ("AccessDenied", "forbidden by object lock"),
    ("InvalidRequest", "The object is under legal hold"),
]


def test_a_lock_is_recognised_by_the_stores_codes_and_messages(
    place: Bucket, proxy: FaultProxy, subtests: pytest.Subtests
) -> None:
    for code, message in LOCKS:
        with subtests.test(code=code, message=message):
            error = f"<Error><Key>wh/d/1</Key><Code>{code}</Code><Message>{message}</Message></Error>"
            proxy.answer_next("DeleteObjects", f"<DeleteResult>{error}</DeleteResult>".encode())

            [result] = place.vault().delete(["d/1"])
            assert (result.outcome, result.reason) == (KeyOutcome.FAILED, f"LOCKED: {code}: {message}")
