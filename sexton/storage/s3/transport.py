"""Send the two requests that are sent for every page of objects: ListObjectsV2 and DeleteObjects.

boto3 sends the first of a kind to a bucket, which shows where it is sent and how it is signed. The next ones are sent
here in the same way, over connections that boto3 has opened. boto3 also sends what is unusual.
"""

import base64
import hashlib
import hmac
import http.client
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from botocore.auth import _host_from_url  # type: ignore[attr-defined]
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import ClientError, ConnectionClosedError, CredentialRetrievalError, ReadTimeoutError
from botocore.parsers import create_parser
from urllib3.exceptions import ClosedPoolError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

LIST, DELETE = "ListObjectsV2", "DeleteObjects"
_PARAMETERS = {"Prefix": "prefix", "Delimiter": "delimiter", "MaxKeys": "max-keys", "StartAfter": "start-after"}
_PARAMETERS |= {"ContinuationToken": "continuation-token"}
"""Options of a listing → their names in its query."""
_SIGNED = re.compile(r"AWS4-HMAC-SHA256 Credential=.+/\d{8}/([^/]+)/s3/aws4_request, SignedHeaders=.+")
"""How a request is signed that can be signed here; those of directory buckets are signed otherwise."""
_OF_ONE_REQUEST = re.compile(
    "user-agent|authorization|amz-sdk-.*|content-.*|x-amzn-trace-id|x-amz-(date|content-sha256|security-token|(sdk-)?checksum-.*)"
)
"""Headers that differ from request to request, or are not signed; all others of the first request stay."""
_ELSEWHERE = ("AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
_REDIRECTS = (301, 302, 307)
"""Codes of a 400, and statuses, about a bucket in another region: what boto3 follows."""
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
_PLAIN = bytes(0 if code < 0x20 or code in b"<>&" else code for code in range(0x100))
_DELETE = '<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
_PARSER = create_parser("rest-xml")


class UnreadableReply(Exception):
    """A reply that is not the document that was requested."""


class _Request(NamedTuple):
    """A request: its query, sorted and encoded, its body, and what both are made of."""

    operation: str
    bucket: str
    query: str
    body: bytes
    parts: Mapping[str, Any]


class _Route(NamedTuple):
    """Where requests of one kind to one bucket are sent, and how, as boto3 sent the first one.

    ``pool``: urllib3's, of connections to the host. ``headers``: signed ones, by their names in lower case.
    """

    url: str
    path: str
    region: str
    pool: Any
    agent: str
    headers: Mapping[str, str]


class Transport:
    """The requests of one login to one store. Thread-safe."""

    def __init__(self, s3: "S3Client") -> None:
        """Send nothing yet. The client has no public places of its login and connections; the tests use both."""
        private: Any = s3
        self.s3, self._session, self._login = s3, private._endpoint.http_session, private._request_signer._credentials
        self._routes: dict[tuple[str, str], _Route] = {}
        self._sent = threading.local()

        def keep_request(request: AWSPreparedRequest, **_: Any) -> None:
            self._sent.request = request

        def keep_body(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
            if refusal := _refusal(response_dict["status_code"], response_dict["body"]):
                response_dict["status_code"] = refusal
            else:
                customized_response_dict["Body"], response_dict["body"] = response_dict["body"], b"<Result/>"

        for operation in (LIST, DELETE):
            s3.meta.events.register(f"before-send.s3.{operation}", keep_request)
            # boto3 shall return the body unread. This runs before its own handler (at `before-parse.s3.*`), which turns
            # a broken 200 into a 500, as of a busy store.
            s3.meta.events.register_first(f"before-parse.*.{operation}", keep_body)

    def list_objects(self, bucket: str, options: Mapping[str, str | int]) -> bytes:
        """Return the body of the reply to ListObjectsV2; it may be anything.

        ``options``: under boto3's names.

        Raises:
            ClientError: the store refused the request.
            BotoCoreError, UnreadableReply: it was not sent or not answered; the reply has an unusual status.
        """
        values = {_PARAMETERS[name]: quote(str(value), safe="-_.~") for name, value in options.items()}
        values |= {"list-type": "2", "encoding-type": "url"}
        query = "&".join([f"{name}={value}" for name, value in sorted(values.items())])
        return self._answer(_Request(LIST, bucket, query, b"", options))

    def delete_objects(
        self, bucket: str, prefix: str, keys: Sequence[str], versions: Sequence[str], etags: Sequence[str]
    ) -> bytes:
        """Return the body of the reply to a quiet DeleteObjects; it may be anything. Raises as ``list_objects``.

        ``prefix``: of all keys. ``versions``, ``etags``: of each key, or none; not both.
        """
        columns: dict[str, Sequence[str]] = {"Key": [prefix + key for key in keys] if prefix else keys}
        if versions or etags:
            columns |= {"VersionId": versions} if versions else {"ETag": [f'"{etag}"' for etag in etags]}
        texts, marks = list(columns.values()), str.maketrans(_ESCAPES)
        if any(mark in text for text in map("".join, texts) for mark in _ESCAPES):
            texts = [[text.translate(marks) for text in column] for column in texts]
        *_, last = columns
        each = texts[0] if len(texts) == 1 else map(f"</Key><{last}>".join, zip(*texts, strict=True))
        objects = f"</{last}></Object><Object><Key>".join(each)
        body = f"{_DELETE}<Object><Key>{objects}</{last}></Object><Quiet>true</Quiet></Delete>".encode()
        return self._answer(_Request(DELETE, bucket, "delete=", body, columns))

    def _answer(self, request: _Request) -> bytes:
        """Send a request as the first of its kind; by boto3 where there is none, no connection, or the bucket moved."""
        route = self._routes.get(request[:2])
        reply = _exchange(self._message(request, route), route) if route else None
        if reply is None:
            return self._send_by_boto3(request)
        status, headers, body = reply
        if not (refusal := _refusal(status, body)):
            return body
        lower = {name.lower(): value for name, value in headers.items()}
        refused = {"status_code": refusal, "headers": lower, "body": body}
        shape: Any = self.s3.meta.service_model.operation_model(request.operation).output_shape
        error = ClientError(_PARSER.parse(refused, shape), request.operation)
        if status in _REDIRECTS or error.response["Error"].get("Code") in _ELSEWHERE:
            return self._send_by_boto3(request)
        raise error

    def _send_by_boto3(self, request: _Request) -> bytes:
        """Send a request by boto3, and remember how, also if it is refused."""
        self._sent.request, parts = None, request.parts
        try:
            if request.operation == LIST:
                reply: Any = self.s3.list_objects_v2(Bucket=request.bucket, **parts)
            else:
                objects: Any = [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
                reply = self.s3.delete_objects(Bucket=request.bucket, Delete={"Objects": objects, "Quiet": True})
        finally:
            if self._sent.request is not None and (route := self._route(self._sent.request)):
                self._routes[request[:2]] = route
        body: bytes = reply["Body"]
        return body

    def _route(self, request: AWSPreparedRequest) -> _Route | None:
        """Return how requests like one of boto3's are sent; None: only by boto3."""
        texts = {name.lower(): v if isinstance(v, str) else v.decode() for name, v in request.headers.items()}
        headers = {name: " ".join(text.split()) for name, text in texts.items()}
        url, parts = request.url.partition("?")[0], urlsplit(request.url)
        signed = _SIGNED.fullmatch(headers.get("authorization", ""))
        proxy = self._session._proxy_config.proxy_url_for(url)
        if signed is None or (proxy and parts.scheme == "http"):
            return None
        kept = {name: value for name, value in headers.items() if not _OF_ONE_REQUEST.fullmatch(name)}
        kept["host"] = _host_from_url(url)
        pool = self._session._get_connection_manager(url, proxy).connection_from_url(url)
        return _Route(url, parts.path, signed[1], pool, headers["user-agent"], kept)

    def _message(self, request: _Request, route: _Route) -> bytes:
        """Return a request as it is sent, signed with the login as it is now."""
        login, body = self._login.get_frozen_credentials(), request.body  # renewed where it is old
        if not re.fullmatch("[!-~]+", f"{login.access_key}{login.token}"):
            raise CredentialRetrievalError(provider="the login", error_msg="it has a character that no header may have")
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        digest = hashlib.sha256(body).hexdigest()
        headers = {**route.headers, "x-amz-content-sha256": digest, "x-amz-date": at}
        if login.token:
            headers["x-amz-security-token"] = login.token
        if body:
            md5 = hashlib.md5(body, usedforsecurity=False).digest()
            headers["content-md5"] = base64.b64encode(md5).decode()
        method, query = ("POST", "delete") if request.operation == DELETE else ("GET", request.query)
        names = sorted(headers)
        lines = [f"{name}:{headers[name]}" for name in names]
        canonical = "\n".join([method, route.path, request.query, *lines, "", ";".join(names), digest])
        scope = f"{at[:8]}/{route.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(_signing_key(login.secret_key, scope), text.encode(), "sha256").hex()
        credential = f"AWS4-HMAC-SHA256 Credential={login.access_key}/{scope}"
        headers["authorization"] = f"{credential}, SignedHeaders={';'.join(names)}, Signature={signature}"
        headers |= {"user-agent": route.agent, "accept-encoding": "identity"}
        headers |= {"content-length": str(len(body))} if body else {}
        lines = [f"{method} {route.path}?{query} HTTP/1.1", *[f"{name}: {v}" for name, v in headers.items()], "\r\n"]
        return "\r\n".join(lines).encode("latin-1") + body


def _exchange(message: bytes, route: _Route) -> tuple[int, Any, bytes] | None:
    """Send a request over a connection that is open; return status, headers and body of the reply.

    None: no connection is open. boto3 opens one, with TLS or through a proxy.
    """
    try:
        connection = route.pool._get_conn()
    except ClosedPoolError:
        return None
    is_clean = False
    try:
        if connection.sock is None:
            return None
        with suppress(BrokenPipeError):  # the store may have answered before it had read everything
            connection.sock.sendall(message)
        reply = http.client.HTTPResponse(connection.sock)
        reply.begin()
        body = reply.read()
        is_clean = reply.status >= 200 and not reply.will_close  # after a 103 comes another reply
    except http.client.IncompleteRead as error:
        if reply.chunked:
            raise ConnectionClosedError(endpoint_url=route.url, error=error) from error
        body = error.partial
    except TimeoutError as error:
        raise ReadTimeoutError(endpoint_url=route.url, error=error) from error
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionClosedError(endpoint_url=route.url, error=error) from error
    finally:
        if not is_clean:
            connection.close()
        route.pool._put_conn(connection)
    return reply.status, reply.headers, body


@lru_cache(maxsize=64)
def _signing_key(secret: str, scope: str) -> bytes:
    """Return the key for a day and a region."""
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def has_plain_text(text: str) -> bool:
    """Return whether a text is visible ASCII that is the same in XML."""
    return text.isascii() and b"\0" not in text.encode().translate(_PLAIN)


def document(body: bytes, name: str = "") -> Element:
    """Return the root of an XML document without namespaces: stores write any, and some several.

    ``name``: of the root; empty: any.

    Raises:
        UnreadableReply: the body is no such document.
    """
    try:
        root = ElementTree.fromstring(body)
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # the last two: of its encoding
        raise UnreadableReply(f"not XML ({error}): {body[:80]!r}") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if name and root.tag != name:
        raise UnreadableReply(f"expected a {name}, got {body[:80]!r}")
    return root


def _refusal(status: int, body: bytes) -> int:
    """Return the status of an error of the store; 0: the reply is none.

    One in a 200 has the status 500, as boto3 gives it; but boto3 overlooks one whose name has a namespace.
    """
    if status > 300:
        return status
    if body.rstrip().endswith(b"</Error>"):
        document(body, "Error")  # not a reply that is cut off after the error of one key
        return 500
    if status != 200:
        raise UnreadableReply(f"the reply has the status {status}: {body[:80]!r}")
    return 0
