"""Create S3 clients, and translate failed or unreadable replies into faults.

A reply that cannot be read never counts as success: boto3 turns an empty 200 into "not versioned", so the raw bodies of
the replies on which a deletion depends are checked before boto3 parses them.
"""

import base64
import hashlib
import re
import threading
import time
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSLError,
)
from botocore.exceptions import CredentialRetrievalError as UnreadableCredentials
from botocore.loaders import create_loader
from botocore.parsers import ResponseParserError
from botocore.session import Session
from urllib3.exceptions import ConnectTimeoutError

from sexton.kernel.trust import is_loopback
from sexton.storage.model import REQUEST_SECONDS
from sexton.storage.port import Throttled, VaultFault
from sexton.storage.s3.transport import Transport, UnreadableReply, document

ADDRESS_SECONDS = 3.0
"""How long one address may take to answer."""
CONNECT_SECONDS = 5.0
"""How long all of it may take: one silent address is passed over, as where IPv6 does not work; two are too many."""


class _InTime:
    """Gives up a connection that took longer than ``CONNECT_SECONDS``; nothing was sent over it yet.

    A name may have several addresses, and each silent one costs a connect timeout before the next is tried; looking the
    name up and the TLS handshake are not limited at all. A delete that is sent after all this was permitted long ago.
    """

    def connect(self) -> None:
        began = time.monotonic()
        super().connect()  # type: ignore[misc]
        seconds = time.monotonic() - began
        if seconds > CONNECT_SECONDS:
            self.close()  # type: ignore[attr-defined]
            raise ConnectTimeoutError(self, f"connecting took {seconds:.1f} s, longer than {CONNECT_SECONDS:g} s")


class _Connection(_InTime, AWSHTTPConnection):  # type: ignore[misc]
    pass


class _TLSConnection(_InTime, AWSHTTPSConnection):  # type: ignore[misc]
    pass


class _Pool(AWSHTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(AWSHTTPSConnectionPool):
    ConnectionCls = _TLSConnection


def connect_in_time(client: Any) -> None:
    """Let a client of boto3 send requests only over connections that were made in time.

    botocore has no public place for this; the test fails if the private one moves.
    """
    client._endpoint.http_session._pool_classes_by_scheme.update(http=_Pool, https=_TLSPool)


READ_TIMEOUT_SECONDS = REQUEST_SECONDS - CONNECT_SECONDS
CONNECTIONS = 64

_BUSY_STATUS = {429, 500, 502, 503, 504}
_BUSY_CODES = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "RequestLimitExceeded"}
_BUSY_CODES |= {"ConditionalRequestConflict", "OperationAborted"}  # another request about the same key interfered
RETRY_AFTER_SECONDS = 60.0
"""The longest ``Retry-After`` that is respected."""
_ENDS = {
    "ListObjectVersions": b"</ListVersionsResult>",
    "ListMultipartUploads": b"</ListMultipartUploadsResult>",
}
"""boto3 parses a page of these listings completely, but does not check that the page ends."""
_STATUSES = ("Enabled", "Suspended", "")
_LOGIN_CODES = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "RequestTimeTooSkewed"}
_LOGIN_ERRORS = (NoCredentialsError, PartialCredentialsError, ProfileNotFound, UnreadableCredentials)
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LOCKED = re.compile(r"object.?lock|\bWORM\b|retention|retain|legal.?hold", re.IGNORECASE)
_LOADER = create_loader()
"""Of all sessions: each new loader would parse the descriptions of services again, for half a second."""
_creating = threading.Lock()
LOGIN_SECONDS = 5.0
"""How long logins are used at least: more clients than one in this time would only cost memory."""
_forgotten_at = [float("-inf")]


def transport(endpoint: str, region: str, profile: str, ca_certs: str = "") -> Transport:
    """Return the client for one store and login; thread-safe, created once until a store refuses a login.

    Args:
        endpoint: URL, or empty for AWS.
        region: empty for the profile's or environment's, else us-east-1.
        profile: empty for the default credential chain.
        ca_certs: see ``Trust``.
    """
    with _creating:  # boto3 is thread-safe except for creating a client
        return _transport_of(endpoint, region, profile, ca_certs)


def forget_logins() -> None:
    """Let the next requests look their logins up: a store refused one, which an operator may have replaced."""
    with _creating:
        if time.monotonic() - _forgotten_at[0] > LOGIN_SECONDS:
            _forgotten_at[0] = time.monotonic()
            _transport_of.cache_clear()


def client_with_wrong_secret(endpoint: str, region: str, profile: str, ca_certs: str = "") -> Transport:
    """Return a client that signs with our access key and a wrong secret; a store should refuse it."""
    with _creating:
        credentials = _session(profile).get_credentials()
        access_key = credentials.access_key if credentials else "nobody"
        return _transport_of(endpoint, region, profile, ca_certs, (access_key, "not-the-secret"))


def _session(profile: str) -> boto3.Session:
    """Return a session that looks up its login now."""
    core = Session()
    core.register_component("data_loader", _LOADER)
    return boto3.Session(botocore_session=core, profile_name=profile or None)


@lru_cache(maxsize=256)
def _transport_of(
    endpoint: str, region: str, profile: str, ca_certs: str, login: tuple[str, str] | None = None
) -> Transport:
    """Return a client; ``login``: access key and secret, by default the profile's own."""
    session = _session(profile)
    config = Config(
        connect_timeout=ADDRESS_SECONDS,
        read_timeout=READ_TIMEOUT_SECONDS,
        max_pool_connections=CONNECTIONS,
        retries={"total_max_attempts": 1},  # the pacer decides when to try again
        # Some stores keep the frames of a checksum that follows the body as content.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "path"} if endpoint else {},
        proxies={} if is_loopback(urlsplit(endpoint).hostname or "") else None,  # a proxy's loopback is another one
        # otherwise AWS_ENDPOINT_URL would give one store two names
        ignore_configured_endpoint_urls=True,  # type: ignore[call-arg]  # botocore knows it, its stubs do not
    )
    region = region or session.region_name or "us-east-1"
    client = session.client(
        "s3",
        region_name=region,
        endpoint_url=endpoint or None,
        config=config,
        verify=ca_certs or None,
        aws_access_key_id=login and login[0],
        aws_secret_access_key=login and login[1],
    )
    connect_in_time(client)
    for operation in ("DeleteObjects", "PutObject"):
        client.meta.events.register(f"before-call.s3.{operation}", _add_md5)
    for operation in ("GetBucketVersioning", *_ENDS):
        # Before boto3's own handler (at `before-parse.s3.*`), which turns a broken 200 into a 500, as of a busy store:
        # the wider pattern runs first. If that order changes, a broken reply is tried again, but still not trusted.
        client.meta.events.register_first(f"before-parse.*.{operation}", _refuse_unreadable)
    return Transport(client)


def _add_md5(params: dict[str, Any], **_: Any) -> None:
    """Add the checksum that every store knows: some demand it, and any does before it locks an object."""
    body = params["body"]
    if not isinstance(body, bytes):  # what is put is a stream by now
        body = body.read()
        params["body"].seek(0)
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()


def _refuse_unreadable(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
    """Raise ``UnreadableReply`` unless the body of a 200 is the complete document of its operation, or an error.

    That of GetBucketVersioning must show whether the bucket is versioned.
    """
    if response_dict["status_code"] != 200:
        return
    body: bytes = response_dict["body"]
    if end := _ENDS.get(operation_model.name):
        if not body.rstrip().endswith((end, b"</Error>")):
            raise UnreadableReply(f"the listing ends with {body[-40:]!r}")
        return
    root = document(body)
    tags = [element.tag for element in (root, *root)]
    if tags[0] == "Error":
        response_dict["status_code"] = 500  # boto3 raises it, but would overlook one with a namespace
        return
    # As the SDK does, this ignores the name of the root: moto 5.2 writes GetBucketVersioningResponse. But a bucket
    # counts as never versioned where the status is missing, and a server that ignores `?versioning` also sends none.
    if not {"Status", "MfaDelete"}.issuperset(tags[1:]):
        raise UnreadableReply(f"GetBucketVersioning: expected a VersioningConfiguration, got {body[:80]!r}")
    states = [(element.text or "").strip() for element, tag in zip(root, tags[1:], strict=True) if tag == "Status"]
    if not states and "Versioning" not in tags[0]:
        raise UnreadableReply(
            f"GetBucketVersioning: a {tags[0]} without a Status does not show whether the bucket is versioned"
        )
    if states and (len(states) > 1 or states[0] not in _STATUSES):
        raise UnreadableReply(f"GetBucketVersioning: the status is {', '.join(states)}, not Enabled or Suspended")


def error_of(error: ClientError) -> tuple[str, str, int]:
    """Return code, message and HTTP status of a refused request."""
    details = error.response.get("Error", {})
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return str(details.get("Code", "")), str(details.get("Message", "")), status


def retry_after(error: ClientError) -> float | None:
    """Return the seconds that a refusal asks to wait (``Retry-After``), at most a minute; None: no number."""
    header = str(error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("retry-after", ""))
    if not re.fullmatch(r"\d{1,9}(\.\d+)?", header):
        return None
    return min(float(header), RETRY_AFTER_SECONDS)


def is_lock(code: str, message: str) -> bool:
    """Tell whether a refusal names an object lock; AWS, Ceph and MinIO use different words for it."""
    return _LOCKED.search(f"{code}: {message}") is not None


def is_busy(code: str, status: int = 0) -> bool:
    """Tell whether a store throttles, by error code (per key or per request) or HTTP status."""
    return code in _BUSY_CODES or code.startswith(("Throttl", "TooManyRequests")) or status in _BUSY_STATUS


def is_about_request(error: ClientError) -> bool:
    """Tell whether a refused single delete is about the store or the login rather than about its key."""
    code, _, status = error_of(error)
    return is_busy(code, status) or code == "NoSuchBucket" or code in _LOGIN_CODES


def fault(vault: str, error: Exception) -> VaultFault:
    """Return the vault fault that a failed request means."""
    if isinstance(error, ClientError):
        code, message, status = error_of(error)
        answer = f"{code}: {message} (HTTP {status}, {error.operation_name})"
        # The code before the status: boto3 gives an error document in a 200 the status 500.
        if code == "NoSuchBucket" or (code == "404" and status == 404):
            return VaultFault(vault, "NO_BUCKET", f"{answer}; create the bucket, or correct its name")
        if code in _LOGIN_CODES or code == "AccessDenied" or status in (401, 403):
            return VaultFault(vault, "DENIED", f"{answer}; check the credentials and their permissions")
        if is_busy(code, status):
            return Throttled(vault, answer, retry_after(error))
        return VaultFault(vault, "BAD_REPLY", answer)
    if isinstance(error, _LOGIN_ERRORS):
        return VaultFault(vault, "DENIED", f"{error}; configure credentials for this vault")
    if isinstance(error, UnreadableReply | ResponseParserError | ValueError):
        return VaultFault(vault, "BAD_REPLY", f"{error}; check which program answers at this endpoint")
    if isinstance(error, RecursionError):
        return VaultFault(vault, "BAD_REPLY", "every answer is a redirect; check the endpoint, and whether it has TLS")
    if isinstance(error, SSLError):
        return VaultFault(vault, "UNREACHABLE", f"{error}; for a private authority set ca_certs")
    return VaultFault(vault, "UNREACHABLE", f"{error}; check endpoint and network")


def fits_xml(key: str) -> bool:
    """Tell whether a key can be written into the XML of DeleteObjects; one that cannot makes its whole page fail."""
    return _NOT_XML.search(key) is None


REQUEST_ERRORS = (ClientError, BotoCoreError, ResponseParserError, UnreadableReply, ValueError, RecursionError)
"""Errors of a request: refused, not sent, not answered, not readable (ValueError: a bad number or date).

RecursionError: where boto3 is redirected, it asks for the region, and again where this request is redirected, too.
"""
