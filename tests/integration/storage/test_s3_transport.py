"""Listings and deletes are sent as boto3 sends them: signed alike, on kept connections, and by boto3 where unusual."""

import base64
import datetime as dt
import hashlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import botocore.auth
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sexton.kernel.trust import STRICT, Trust
from sexton.storage.model import KeyOutcome, VaultSpec
from sexton.storage.port import Throttled, VaultFault
from sexton.storage.s3 import listing
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.delete import delete, read
from sexton.storage.s3.transport import DELETE, LIST, Transport
from sexton.storage.s3.wire import READ_TIMEOUT_SECONDS
from tests.integration.storage.scripted_store import Last, ScriptedStore, Sent, answer, scripted_store, usual
from tests.servers.certificate import certificate
from tests.support.eventually import eventually

KEY, SECRET = "AKIAEXAMPLE", "secret/+="
ODD = ["/lead", "a//b", "a+b", "a%20b", "a b", "q\"'", "<&>", "é", "\U0001f600", "t\tt", "n\nn", "r\rr", "~", "a=b?c#d"]


@pytest.fixture(autouse=True)
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture
def store() -> Iterator[ScriptedStore]:
    with scripted_store() as running:
        yield running


def bucket_at(url: str, trust: Trust = STRICT, **options: Any) -> S3Bucket:
    return S3Bucket(VaultSpec(instance="shop", name="cold", kind="s3", location="bkt", **options), url, trust)


def list_keys(bucket: S3Bucket, prefix: str = "d/") -> list[str]:
    return [listed.key for page in listing.pages(bucket, prefix) for listed in page]


def delete_keys(bucket: S3Bucket, keys: Sequence[str] = ("d/1",)) -> set[KeyOutcome]:
    return {result.outcome for result in delete(bucket, keys)}


SEND: dict[str, Callable[[S3Bucket], object]] = {LIST: list_keys, DELETE: delete_keys}
FINE: dict[str, object] = {LIST: [], DELETE: {KeyOutcome.DELETED}}
"""What each returns where a store without objects answers."""


def known_bucket(store: ScriptedStore) -> S3Bucket:
    """A bucket about which boto3 has sent the first requests."""
    bucket = bucket_at(store.url)
    for send in SEND.values():
        send(bucket)
    store.sent.clear()
    return bucket


def test_boto3_sends_only_the_first_request_of_a_kind(store: ScriptedStore) -> None:
    bucket = bucket_at(store.url)
    for _ in range(3):
        list_keys(bucket)
        delete_keys(bucket)

    assert [sent.is_of_boto3 for sent in store.sent] == [True, True, False, False, False, False]
    assert {sent.connection for sent in store.sent} == {1}


def signed_by_botocore(sent: Sent, url: str, region: str, token: str | None = None) -> str:
    """How botocore signs a request with the headers that were sent; ``url``: of the host."""
    signed_names = sent.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    own = ("host", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token")
    headers = {name: sent.headers[name] for name in signed_names if name not in own}
    request = AWSRequest(sent.method, url + sent.target, headers, sent.body or None)
    at = dt.datetime.strptime(sent.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", lambda *_: at)
        patch.setattr(S3SigV4Auth, "_should_sha256_sign_payload", lambda *_: True)
        S3SigV4Auth(Credentials(KEY, SECRET, token), "s3", region).add_auth(request)
    return str(request.headers["Authorization"])


def test_requests_are_signed_as_botocore_signs_them(store: ScriptedStore, subtests: pytest.Subtests) -> None:
    bucket = bucket_at(store.url, region="eu-central-1")
    for key in ["first", *ODD]:
        list_keys(bucket, key)
        delete_keys(bucket, [key, "other"])

    for sent in store.sent[2:]:
        with subtests.test(target=sent.target, body=sent.body):
            assert sent.headers["authorization"] == signed_by_botocore(sent, store.url, "eu-central-1")


def test_query_body_and_headers_are_those_of_boto3(store: ScriptedStore) -> None:
    bucket = bucket_at(store.url)
    for _ in range(2):
        list_keys(bucket, "a b/+é")
        delete_keys(bucket, ["d/1", "d/2"])
    first_list, first_delete, later_list, later_delete = store.sent

    queries = [sorted(urlsplit(sent.target).query.split("&")) for sent in (first_list, later_list)]
    assert queries[0] == queries[1]
    assert (later_delete.target, later_delete.body) == (first_delete.target, first_delete.body)
    md5 = base64.b64encode(hashlib.md5(later_delete.body).digest()).decode()
    assert later_delete.headers["content-md5"] == first_delete.headers["content-md5"] == md5
    for first, later in ((first_list, later_list), (first_delete, later_delete)):
        names = ("host", "user-agent", "accept-encoding", "content-length")
        assert [later.headers[name] for name in names] == [first.headers[name] for name in names]
        assert names_of(later) == {name for name in names_of(first) if name not in OF_BOTO3}
    assert names_of(first_delete) > OF_BOTO3


OF_BOTO3 = {"amz-sdk-invocation-id", "amz-sdk-request", "x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm"}
"""Headers of boto3 alone: the body has a Content-MD5, which older stores know as well."""


def names_of(sent: Sent) -> set[str]:
    return {name.lower() for name in sent.headers}


@pytest.mark.parametrize("operation", [LIST, DELETE])
def test_other_headers_of_boto3_are_sent_and_signed(store: ScriptedStore, operation: str) -> None:
    def add_header(params: dict[str, Any], **_: Any) -> None:
        params["headers"]["x-amz-request-payer"] = "requester  pays"

    bucket = bucket_at(store.url, region="me-south-1")
    bucket.call(lambda via: via.s3.meta.events.register(f"before-call.s3.{operation}", add_header))

    assert [SEND[operation](bucket) for _ in range(2)] == [FINE[operation]] * 2
    assert store.sent[-1].headers["x-amz-request-payer"] == "requester pays"
    assert "x-amz-request-payer" in store.sent[-1].headers["authorization"]
    assert store.sent[-1].headers["authorization"] == signed_by_botocore(store.sent[-1], store.url, "me-south-1")


def objects_in(body: bytes) -> list[dict[str, str]]:
    entries = ElementTree.fromstring(body).findall("{*}Object")
    return [{field.tag.rpartition("}")[2]: field.text or "" for field in entry} for entry in entries]


@pytest.mark.parametrize("column", ["", "versions", "etags"])
def test_objects_are_named_as_boto3_names_them(store: ScriptedStore, column: str) -> None:
    bucket = bucket_at(store.url, prefix="w & h/")
    for _ in range(2):
        delete(bucket, ODD, **({column: [f"<{n}>" for n in range(len(ODD))]} if column else {}))  # type: ignore[arg-type]
    of_boto3, later = store.sent

    assert (of_boto3.is_of_boto3, later.is_of_boto3) == (True, False)
    assert objects_in(later.body) == objects_in(of_boto3.body)
    assert [entry["Key"] for entry in objects_in(later.body)] == [f"w & h/{key}" for key in ODD]


@pytest.fixture
def renewing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A profile whose logins expire at once; the file's text is part of each token."""
    counter, script, config, mark = (tmp_path / name for name in ("counter", "login.py", "config", "mark"))
    soon = (dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1)).isoformat()
    script.write_text(
        f"import json, pathlib\ncounter, mark = pathlib.Path({str(counter)!r}), pathlib.Path({str(mark)!r})\n"
        "number = len(counter.read_bytes()) if counter.exists() else 0\ncounter.write_bytes(b'x' * (number + 1))\n"
        "keys = dict(Version=1, AccessKeyId=f'key-{number}', SessionToken=f't{mark.read_text()}-{number}')\n"
        f"print(json.dumps(keys | dict(SecretAccessKey={SECRET!r}, Expiration={soon!r})))\n"
    )
    mark.write_text("")
    config.write_text(f"[profile renewing]\ncredential_process = {sys.executable} {script}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    return mark


@pytest.mark.usefixtures("renewing")
def test_login_that_expires_is_renewed_in_mid_run(store: ScriptedStore) -> None:
    bucket = bucket_at(store.url, profile="renewing")

    for _ in range(4):
        list_keys(bucket)

    logins = [sent.headers["authorization"].partition("Credential=")[2].partition("/")[0] for sent in store.sent]
    tokens = [sent.headers["x-amz-security-token"] for sent in store.sent]
    assert len(set(logins)) == len(set(tokens)) == 4
    assert [token.removeprefix("t-") for token in tokens] == [login.removeprefix("key-") for login in logins]
    assert "x-amz-security-token" in store.sent[-1].headers["authorization"]


@pytest.mark.parametrize("mark", ["\n", "é"])
def test_login_that_no_header_can_carry_is_not_sent(store: ScriptedStore, renewing: Path, mark: str) -> None:
    bucket = bucket_at(store.url, profile="renewing")
    list_keys(bucket)
    renewing.write_text(mark, encoding="utf-8")

    with pytest.raises(VaultFault, match=r": DENIED: .* it has a character that no header may have"):
        list_keys(bucket)
    assert len(store.sent) == 1


@pytest.mark.parametrize("operation", [LIST, DELETE])
def test_without_a_login_nothing_is_sent(store: ScriptedStore, operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    for _ in range(2):
        with pytest.raises(VaultFault, match=r": DENIED: .*configure credentials"):
            SEND[operation](bucket_at(store.url))
    assert store.sent == []


MOVED = "<Error><Code>{}</Code><Message>m</Message><Region>eu-west-1</Region></Error>"
REGION = "x-amz-bucket-region: eu-west-1"
ELSEWHERE = {
    "301": answer(MOVED.format("PermanentRedirect").encode(), "301 Moved", REGION),
    "302": answer(MOVED.format("Found").encode(), "302 Found", REGION),
    "307": answer(MOVED.format("TemporaryRedirect").encode(), "307 Moved", REGION),
    "wrong region": answer(MOVED.format("AuthorizationHeaderMalformed").encode(), "400 Bad Request"),
    "opt-in region": answer(MOVED.format("IllegalLocationConstraintException").encode(), "400 Bad Request", REGION),
}


@pytest.mark.parametrize("operation", [LIST, DELETE])
@pytest.mark.parametrize("reply", ELSEWHERE.values(), ids=ELSEWHERE)
def test_bucket_in_another_region_is_found_by_boto3(store: ScriptedStore, operation: str, reply: bytes) -> None:
    bucket, send = known_bucket(store), SEND[operation]
    store.answers = [reply, reply]  # to us, and to boto3

    results = [send(bucket), send(bucket)]

    assert results == [FINE[operation]] * 2
    regions = [sent.headers["authorization"].split("/")[2] for sent in store.sent]
    assert regions == ["us-east-1", "us-east-1", "eu-west-1", "eu-west-1"]
    assert [sent.is_of_boto3 for sent in store.sent] == [False, True, True, False]


@pytest.mark.parametrize("operation", [LIST, DELETE])
@pytest.mark.parametrize("is_known", [False, True])
def test_store_that_only_redirects_is_a_fault(store: ScriptedStore, operation: str, is_known: bool) -> None:
    bucket = known_bucket(store) if is_known else bucket_at(store.url)
    store.usual = answer(b"", "301 Moved")

    with pytest.raises(VaultFault, match=r": BAD_REPLY: every answer is a redirect; check the endpoint"):
        SEND[operation](bucket)


@pytest.mark.parametrize("operation", [LIST, DELETE])
@pytest.mark.parametrize("is_known", [False, True])
def test_wrong_clock_is_a_refusal(store: ScriptedStore, operation: str, is_known: bool) -> None:
    bucket = known_bucket(store) if is_known else bucket_at(store.url)
    skewed = b"<Error><Code>RequestTimeTooSkewed</Code><Message>m</Message></Error>"
    store.answers = [answer(skewed, "403 Forbidden", "Date: Fri, 01 Jan 2100 00:00:00 GMT")]

    with pytest.raises(VaultFault, match=rf"DENIED: RequestTimeTooSkewed: m \(HTTP 403, {operation}\)"):
        SEND[operation](bucket)
    assert len(store.sent) == 1


def chunked(sent: Sent) -> bytes:
    _, _, body = usual(sent).partition(b"\r\n\r\n")
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


COMPLETE: dict[str, Callable[[Sent], bytes]] = {
    "in chunks": chunked,
    "after a 100": lambda sent: b"HTTP/1.1 100 Continue\r\n\r\n" + usual(sent),
    "then closed": lambda sent: Last(usual(sent).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)),
    "without a length": lambda sent: Last(b"HTTP/1.1 200 OK\r\n\r\n" + usual(sent).partition(b"\r\n\r\n")[2]),
}


@pytest.mark.parametrize("operation", [LIST, DELETE])
def test_reply_is_complete_however_it_is_sent(store: ScriptedStore, operation: str, subtests: pytest.Subtests) -> None:
    bucket = known_bucket(store)
    for form in COMPLETE:
        with subtests.test(form=form):
            store.answers = [COMPLETE[form]]

            assert [SEND[operation](bucket) for _ in range(2)] == [FINE[operation]] * 2
            assert not store.sent[0].is_of_boto3
        store.sent.clear()


def sent_once(operation: str) -> Callable[[Transport], object]:
    """What sends one request, without retries, and reads its reply."""
    if operation == LIST:
        return lambda via: listing.read(via.list_objects("bkt", {"Prefix": ""}))
    return lambda via: read(via.delete_objects("bkt", "", ["d/1"], (), ()))


BROKEN: dict[str, tuple[Callable[[Sent], bytes] | bytes, str]] = {
    "cut off": (lambda sent: Last(usual(sent)[:-3]), "BAD_REPLY"),
    "cut off after an error": (answer(b"<DeleteResult><Error><Key>d/1</Key></Error>"), "BAD_REPLY"),
    "cut off in a chunk": (lambda sent: Last(chunked(sent)[:-9]), "UNREACHABLE"),
    "no answer": (Last(b""), "UNREACHABLE"),
    "no HTTP": (Last(b"220 smtp.example ESMTP\r\n"), "UNREACHABLE"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", "BAD_REPLY"),
    "206": (lambda sent: usual(sent).replace(b"200 OK", b"206 Partial"), "BAD_REPLY"),
    "202": (answer(b"", "202 Accepted"), "BAD_REPLY"),
    "300": (answer(b"", "300 Multiple Choices"), "BAD_REPLY"),
    "an error with a namespace": (answer(b'<Error xmlns="urn:x"><Code>AccessDenied</Code></Error>\n'), "UNREACHABLE"),
    "no XML": (answer(b"ok"), "BAD_REPLY"),
    "an unknown encoding": (answer(b'<?xml version="1.0" encoding="x-no"?><a/>'), "BAD_REPLY"),
    "a page of a proxy": (answer(b"<html></html>", "403 Forbidden"), "DENIED"),
    "a refusal without a body": (answer(b"", "403 Forbidden"), "DENIED"),
    "a refusal that is cut off": (Last(answer(b"<Error><Code>SlowDown", "503 Busy")[:-2]), "UNREACHABLE"),
}


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("operation", [LIST, DELETE])
def test_broken_reply_is_no_success(
    store: ScriptedStore, operation: str, is_known: bool, subtests: pytest.Subtests
) -> None:
    for number, (what, (reply, reason)) in enumerate(BROKEN.items()):
        with subtests.test(what=what):
            bucket = known_bucket(store) if is_known else bucket_at(store.url, region=f"region-{number}")
            store.answers = [reply]

            with pytest.raises(VaultFault, match=f": {reason}:"):
                bucket.call(sent_once(operation))
            assert len(store.sent) == 1
            assert SEND[operation](bucket) == FINE[operation]
        store.sent.clear()


def test_connection_of_an_unfinished_reply_is_closed(store: ScriptedStore) -> None:
    bucket = known_bucket(store)
    store.answers = [b"HTTP/1.1 103 Early Hints\r\n\r\n"]  # its reply, which comes later, is that of no other request

    with pytest.raises(VaultFault, match=": BAD_REPLY: the reply has the status 103"):
        bucket.call(sent_once(LIST))
    assert delete_keys(bucket) == FINE[DELETE]
    assert [sent.is_of_boto3 for sent in store.sent] == [False, True]
    assert store.sent[0].connection != store.sent[1].connection


def test_busy_store_is_waited_for_as_long_as_it_asks(store: ScriptedStore) -> None:
    bucket = known_bucket(store)
    store.answers = [answer(b"<Error><Code>SlowDown</Code></Error>", "503 Slow Down", "Retry-After: 7")]

    with pytest.raises(Throttled) as caught:
        bucket.call(sent_once(LIST))
    assert caught.value.retry_after == 7


def open_connections(bucket: S3Bucket) -> list[Any]:
    return bucket.call(lambda via: [c for c in via._routes[LIST, "bkt"].pool.pool.queue if c is not None])


@pytest.mark.parametrize("operation", [LIST, DELETE])
def test_silent_store_is_unreachable(store: ScriptedStore, operation: str) -> None:
    bucket, waiting = known_bucket(store), threading.Event()
    [connection] = open_connections(bucket)
    assert connection.sock.gettimeout() == READ_TIMEOUT_SECONDS
    connection.sock.settimeout(0.01)
    store.answers = [lambda sent: Last(usual(sent)[: int(waiting.wait())])]

    with pytest.raises(VaultFault, match=r": UNREACHABLE: Read timeout on endpoint URL"):
        bucket.call(sent_once(operation))
    waiting.set()
    assert [sent.is_of_boto3 for sent in store.sent] == [False]


def test_boto3_opens_connections_again(store: ScriptedStore) -> None:
    bucket = known_bucket(store)

    def close(via: Transport) -> None:
        via._session.close()
        via._routes[LIST, "bkt"].pool.close()

    for _ in range(2):
        assert [list_keys(bucket) for _ in range(3)] == [[]] * 3
        bucket.call(close)

    assert [sent.is_of_boto3 for sent in store.sent] == [False, False, False, True, False, False]


def test_connection_that_the_store_closed_is_not_used(store: ScriptedStore) -> None:
    bucket = known_bucket(store)
    store.answers = [lambda sent: Last(usual(sent))]
    list_keys(bucket)
    [connection] = open_connections(bucket)
    eventually("the end of the connection has arrived", lambda: not connection.is_connected)

    assert [delete_keys(bucket) for _ in range(2)] == [{KeyOutcome.DELETED}] * 2
    assert [sent.is_of_boto3 for sent in store.sent] == [False, True, False]


class ClosedWhileWriting:
    """A socket whose other end reports that it reads no more."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def sendall(self, data: bytes) -> None:
        self._sock.sendall(data)
        raise BrokenPipeError


def test_answer_before_the_end_of_a_request_counts(store: ScriptedStore) -> None:
    bucket = known_bucket(store)
    [connection] = open_connections(bucket)
    connection.sock = ClosedWhileWriting(connection.sock)
    store.answers = [answer(b"<Error><Code>NoSuchBucket</Code></Error>", "404 Not Found")]

    with pytest.raises(VaultFault, match=": NO_BUCKET:"):
        delete_keys(bucket)


def test_requests_at_once_use_connections_of_their_own(store: ScriptedStore) -> None:
    bucket, barrier = known_bucket(store), threading.Barrier(4)

    def together(sent: Sent) -> bytes:
        barrier.wait()
        return usual(sent)

    store.answers = [together] * 8
    with ThreadPoolExecutor(4) as pool:
        results = [*pool.map(lambda _: delete_keys(bucket), range(8))]

    assert results == [{KeyOutcome.DELETED}] * 8
    assert len({sent.connection for sent in store.sent}) == 4


STORES = {
    "of AWS": ("", "bkt.s3.eu-west-1.amazonaws.com", "/"),
    "of others": ("https://store.test:443", "store.test", "/bkt"),
}
"""Endpoint → the host of the bucket, and its path."""


@pytest.mark.parametrize(("endpoint", "host", "path"), STORES.values(), ids=STORES)
def test_store_is_reached_through_a_proxy(
    endpoint: str, host: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = certificate(tmp_path, host)
    with scripted_store(files) as store:
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("https_proxy", store.url)
        bucket = bucket_at(endpoint, Trust(ca_certs=str(files.authority)), region="eu-west-1")
        results = [(list_keys(bucket), delete_keys(bucket)) for _ in range(2)]

        assert results == [([], {KeyOutcome.DELETED})] * 2
        assert store.connected == [f"{host}:443"]
        assert [sent.is_of_boto3 for sent in store.sent] == [True, True, False, False]
        assert [sent.target.partition("?")[0] for sent in store.sent] == [path] * 4
        for sent in store.sent[2:]:
            assert sent.headers["host"] == host
            assert sent.headers["authorization"] == signed_by_botocore(sent, f"https://{host}", "eu-west-1")


def test_boto3_sends_all_through_a_proxy_without_tls(store: ScriptedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("http_proxy", store.url)
    bucket = bucket_at("http://store.test", Trust(insecure_http=True))

    assert [list_keys(bucket) for _ in range(2)] == [[], []]
    assert [sent.target.partition("?")[0] for sent in store.sent] == ["http://store.test/bkt"] * 2
    assert [sent.is_of_boto3 for sent in store.sent] == [True, True]


def test_directory_bucket_of_aws_is_left_to_boto3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "bkt--usw2-az1--x-s3"
    host = f"{name}.s3express-usw2-az1.us-west-2.amazonaws.com"
    files = certificate(tmp_path, host)
    login = "".join(f"<{field}>x</{field}>" for field in ("SessionToken", "SecretAccessKey", "AccessKeyId"))
    session = f"<CreateSessionResult><Credentials>{login}<Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>"
    with scripted_store(files) as store:
        for variable in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(variable)
        monkeypatch.setenv("https_proxy", store.url)
        store.answers = [answer(f"{session}</CreateSessionResult>".encode())]
        spec = VaultSpec(instance="shop", name="cold", kind="s3", location=name, region="us-west-2")
        bucket = S3Bucket(spec, "", Trust(ca_certs=str(files.authority)))

        assert [delete_keys(bucket) for _ in range(2)] == [{KeyOutcome.DELETED}] * 2
        assert [sent.is_of_boto3 for sent in store.sent] == [True] * 3
