"""Unfinished multipart uploads under a deleted prefix are aborted, and no others."""

import pytest

from sexton.kernel.errors import BadInput
from sexton.storage.port import Throttled, VaultFault
from sexton.storage.s3.vault import S3Vault
from tests.servers.fault_proxy import FaultProxy
from tests.support.places import Bucket


@pytest.fixture
def vault(place: Bucket) -> S3Vault:
    return S3Vault(place.vault().spec, place.endpoint_url)


def begin(place: Bucket, *keys: str) -> None:
    for key in keys:
        upload = place.client.create_multipart_upload(Bucket=place.name, Key=key)["UploadId"]
        place.client.upload_part(Bucket=place.name, Key=key, UploadId=upload, PartNumber=1, Body=b"part")


def unfinished(place: Bucket) -> list[str]:
    return sorted(u["Key"] for u in place.client.list_multipart_uploads(Bucket=place.name).get("Uploads", ()))


def test_only_uploads_under_the_prefix_are_aborted(place: Bucket, vault: S3Vault) -> None:
    begin(place, "wh/d/1/a", "wh/d/1/a", "wh/d/1/b c+%2F", "wh/d/10/a", "d/1/a", "wh/d/1")

    assert vault.abort_uploads("d/1/") == 3
    assert unfinished(place) == ["d/1/a", "wh/d/1", "wh/d/10/a"]
    assert vault.abort_uploads("d/1/") == 0


def test_one_request_finds_the_uploads_under_neighbours(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    begin(place, "wh/d/1/a", "wh/d/1/b", "wh/d/10/a", "wh/d/11/a", "wh/d/12/a", "wh/e/1")

    assert vault.abort_uploads("d/1/", "d/10/", "d/12/") == 4
    assert unfinished(place) == ["wh/d/11/a", "wh/e/1"]
    assert [e.operation for e in proxy.log].count("ListMultipartUploads") == 1


def test_neighbours_with_many_uploads_are_asked_one_by_one(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    begin(place, "wh/d/1/a", "wh/d/2/a", "wh/d/3/a")
    more = "<IsTruncated>true</IsTruncated><NextKeyMarker>wh/d/1/a</NextKeyMarker>"
    proxy.answer_next(
        "ListMultipartUploads", f"<ListMultipartUploadsResult>{more}</ListMultipartUploadsResult>".encode()
    )

    assert vault.abort_uploads("d/1/", "d/3/") == 2
    assert unfinished(place) == ["wh/d/2/a"]
    assert [e.operation for e in proxy.log].count("ListMultipartUploads") == 3


def test_uploads_outside_the_prefix_are_never_aborted(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    begin(place, "wh/d/1/a", "wh/e/1")
    listed = place.client.list_multipart_uploads(Bucket=place.name)["Uploads"]
    entries = "".join(f"<Upload><Key>{u['Key']}</Key><UploadId>{u['UploadId']}</UploadId></Upload>" for u in listed)
    body = f"<ListMultipartUploadsResult>{entries}<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>"
    proxy.answer_next("ListMultipartUploads", body.encode())

    assert vault.abort_uploads("d/1/") == 1
    assert unfinished(place) == ["wh/e/1"]


def test_all_pages_of_uploads_are_read(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    begin(place, "wh/d/1", "wh/d/2", "wh/e/1")
    entries = [
        f"<Upload><Key>{u['Key']}</Key><UploadId>{u['UploadId']}</UploadId></Upload>"
        for u in place.client.list_multipart_uploads(Bucket=place.name)["Uploads"]
    ]
    more = "<IsTruncated>true</IsTruncated><NextKeyMarker>wh/d/1</NextKeyMarker>"
    for body in (entries[0] + more, "".join(entries[1:]) + "<IsTruncated>false</IsTruncated>"):
        reply = f"<ListMultipartUploadsResult>{body}</ListMultipartUploadsResult>"
        proxy.answer_next("ListMultipartUploads", reply.encode())

    assert vault.abort_uploads("d/") == 2
    assert "key-marker=wh%2Fd%2F1" in [e for e in proxy.log if e.operation == "ListMultipartUploads"][1].path
    assert unfinished(place) == ["wh/e/1"]


def test_a_truncated_list_of_uploads_is_a_fault(vault: S3Vault, proxy: FaultProxy) -> None:
    body = "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated></ListMultipartUploadsResult>"
    unnamed = body.replace("<IsTruncated>true", "<Upload><Key>wh/d/1</Key></Upload><IsTruncated>false")
    for broken in (body.encode(), unnamed.encode(), b"<html></html>", b""):
        proxy.answer_next("ListMultipartUploads", broken)
        with pytest.raises(VaultFault, match="BAD_REPLY"):
            vault.abort_uploads("d/")


@pytest.mark.parametrize(("status", "code"), [(403, "AccessDenied"), (501, "NotImplemented")])
def test_a_store_that_hides_uploads_is_no_fault(
    place: Bucket, vault: S3Vault, proxy: FaultProxy, status: int, code: str
) -> None:
    begin(place, "wh/d/1")
    proxy.fail_next("ListMultipartUploads", status, code)

    assert vault.abort_uploads("d/") == 0
    assert unfinished(place) == ["wh/d/1"]


@pytest.mark.parametrize("code", ["NoSuchUpload", "AccessDenied"])
def test_a_failed_abort_is_not_counted_and_blocks_no_other(
    place: Bucket, vault: S3Vault, proxy: FaultProxy, code: str
) -> None:
    begin(place, "wh/d/1", "wh/d/2")
    proxy.fail_next("DeleteObject", 404 if code == "NoSuchUpload" else 403, code)

    assert vault.abort_uploads("d/") == 1
    assert len(unfinished(place)) == 1


def test_a_busy_store_is_a_fault_with_its_requested_wait(vault: S3Vault, proxy: FaultProxy) -> None:
    proxy.fail_next("ListMultipartUploads", 503, "SlowDown", times=4, retry_after="3")

    with pytest.raises(Throttled) as caught:
        vault.abort_uploads("d/")
    assert caught.value.retry_after == 3.0


def test_a_root_or_ambiguous_prefix_is_refused(vault: S3Vault, subtests: pytest.Subtests) -> None:
    for prefix in ["", "_sexton/", "/", "d//"]:
        with subtests.test(prefix=prefix), pytest.raises(BadInput):
            vault.abort_uploads(prefix)
