"""Whom connections to an S3 store trust; unfinished uploads under a deleted prefix are aborted, and no others."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sexton.kernel.errors import BadInput
from sexton.kernel.trust import Trust
from sexton.storage.kinds import open_vault
from sexton.storage.model import KeyOutcome, KeyResult, VaultSpec
from sexton.storage.port import Throttled, VaultFault
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.delete import delete
from sexton.storage.s3.vault import S3Vault
from tests.servers.certificate import certificate
from tests.servers.fault_proxy import FaultProxy
from tests.servers.http import Asked, answering
from tests.servers.proxy import tls_proxy
from tests.servers.s3 import RunningS3
from tests.support.places import Bucket


def _spec(bucket: str) -> VaultSpec:
    return VaultSpec(instance="shop", name="v", kind="s3", location=bucket)


def test_a_private_authority_of_the_settings_is_trusted(s3_server: RunningS3, tmp_path: Path) -> None:
    files, spec = certificate(tmp_path), _spec(s3_server.create_bucket())
    parts = urlsplit(s3_server.endpoint_url)

    with tls_proxy((str(parts.hostname), int(parts.port or 0)), files) as url:
        marker = open_vault(spec, endpoint_url=url, trust=Trust(ca_certs=str(files.authority))).read_marker()
        with pytest.raises(VaultFault, match=r"CERTIFICATE_VERIFY_FAILED.*for a private authority set ca_certs"):
            open_vault(spec, endpoint_url=url).read_marker()

    assert marker is None


def test_a_store_on_this_machine_is_called_without_a_proxy(
    s3_server: RunningS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _spec(s3_server.create_bucket())
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    assert open_vault(spec, endpoint_url=s3_server.endpoint_url).read_marker() is None


def test_plain_http_to_another_machine_needs_a_permission() -> None:
    far = "http://s3.invalid:9000"
    for spec, endpoint in ((_spec("b").model_copy(update={"endpoint": far}), ""), (_spec("b"), far)):
        with pytest.raises(VaultFault, match=r"http://s3.invalid is not encrypted.*insecure_http = true") as refused:
            open_vault(spec, endpoint_url=endpoint).read_marker()
        assert refused.value.reason == "DENIED"

    with pytest.raises(VaultFault) as unreachable:
        open_vault(_spec("b"), endpoint_url=far, trust=Trust(insecure_http=True)).read_marker()
    assert "is not encrypted" not in str(unreachable.value)


BACKLOG = 4
"""Connections after which a socket that accepts none answers no more."""
Delete = Callable[[int], list[KeyResult]]


@pytest.fixture
def received() -> list[str]:
    """The paths of the requests that the store has received."""
    return []


@pytest.fixture
def delete_at(received: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Delete]:
    """Delete an object of a store at whose name so many addresses drop packets before one answers."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    look_up = socket.getaddrinfo

    def answer(asked: Asked) -> tuple[int, bytes]:
        received.append(asked.path)
        return 200, b'<?xml version="1.0"?><DeleteResult></DeleteResult>'

    with answering(answer) as url, ExitStack() as sockets:
        port = int(url.rpartition(":")[2])

        def delete_with(silent: int) -> list[KeyResult]:
            hosts = [f"127.0.0.{n}" for n in range(2, 2 + silent)]
            for host in hosts:
                listening = sockets.enter_context(socket.socket())
                listening.bind((host, port))
                listening.listen(0)
                for _ in range(BACKLOG):
                    waiting = sockets.enter_context(socket.socket())
                    waiting.setblocking(False)
                    waiting.connect_ex((host, port))
            addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in [*hosts, "127.0.0.1"]]
            monkeypatch.setattr(
                socket, "getaddrinfo", lambda host, *rest: addresses if host == "store.test" else look_up(host, *rest)
            )
            spec = VaultSpec(instance="shop", name="cold", kind="s3", location=f"bucket-{silent}")
            return delete(S3Bucket(spec, f"http://store.test:{port}", trust=Trust(insecure_http=True)), ["a.dat"])

        yield delete_with


def test_a_silent_address_is_passed_over(delete_at: Delete) -> None:
    for silent in (0, 1):
        [result] = delete_at(silent)

        assert result.outcome is KeyOutcome.DELETED


@pytest.mark.slow
def test_after_two_silent_addresses_no_delete_is_sent(delete_at: Delete, received: list[str]) -> None:
    with pytest.raises(VaultFault, match="Connect timeout"):
        delete_at(2)

    assert received == []


@pytest.fixture
def vault(place: Bucket) -> S3Vault:
    return place.vault()


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


def test_hidden_uploads_and_failed_aborts_are_no_faults(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    begin(place, "wh/d/1", "wh/d/2", "wh/d/3")
    for status, code in ((403, "AccessDenied"), (501, "NotImplemented")):
        proxy.fail_next("ListMultipartUploads", status, code)

        assert vault.abort_uploads("d/") == 0
        assert len(unfinished(place)) == 3
    proxy.fail_next("DeleteObject", 404, "NoSuchUpload")
    proxy.fail_next("DeleteObject", 403, "AccessDenied")

    assert vault.abort_uploads("d/") == 1
    assert len(unfinished(place)) == 2


def test_a_busy_store_is_a_fault_with_its_requested_wait(vault: S3Vault, proxy: FaultProxy) -> None:
    proxy.fail_next("ListMultipartUploads", 503, "SlowDown", times=4, retry_after="3")

    with pytest.raises(Throttled) as caught:
        vault.abort_uploads("d/")
    assert caught.value.retry_after == 3.0


def test_a_root_or_ambiguous_prefix_is_refused(vault: S3Vault, subtests: pytest.Subtests) -> None:
    for prefix in ["", "_sexton/", "/", "d//"]:
        with subtests.test(prefix=prefix), pytest.raises(BadInput):
            vault.abort_uploads(prefix)
