"""The bucket of one vault: sends requests to it, and turns what fails into a fault of the vault."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from botocore.exceptions import ClientError

from sexton.storage.model import KeyOutcome, KeyResult, VaultSpec
from sexton.storage.port import UNREACHABLE, Throttled, VaultFault
from sexton.storage.s3.wire import REQUEST_ERRORS, error_of, fault, s3_client

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

READ_AGAIN_SECONDS = (0.2, 0.5, 1.0)
"""Waits before a read that failed quickly is tried again."""
QUICK_SECONDS = 2.0
VERSIONING_SECONDS = 60.0
"""How long the bucket's word on being versioned is believed; somebody may switch it on meanwhile."""
TOGETHER = 8
"""Requests of one page that are under way at once, where one request cannot do for all its keys."""
PAGE_SECONDS = 20.0
"""A page that takes many requests sends none after this, so that it ends well before a lease does."""
UNTOLD = ("AccessDenied", "NotImplemented", "MethodNotAllowed")
"""Codes of a store that does not let us ask."""

A = TypeVar("A")
T = TypeVar("T")


class S3Bucket:
    """Requests about one vault. Keys are relative to its prefix unless they are called full."""

    def __init__(self, spec: VaultSpec, endpoint_url: str) -> None:
        """Open without a request."""
        self.spec = spec
        self.name = spec.location
        self.prefix = spec.prefix
        self.endpoint = spec.endpoint or endpoint_url
        self._versioning: tuple[float, str | None] | None = None

    def full(self, key: str) -> str:
        """Return the key as the store knows it."""
        return self.prefix + key

    def own(self, full: str) -> str:
        """Return a key of the store as the vault knows it."""
        return full[len(self.prefix) :]

    def versioning(self) -> str | None:
        """Return ``Enabled``, ``Suspended``, empty (never versioned), or None where the store does not tell."""

        def request(s3: "S3Client") -> str | None:
            try:
                return s3.get_bucket_versioning(Bucket=self.name).get("Status", "")
            except ClientError as error:
                if error_of(error)[0] in UNTOLD:
                    return None
                raise

        if self._versioning is None or time.monotonic() - self._versioning[0] > VERSIONING_SECONDS:
            self._versioning = (time.monotonic(), self.ask(request))
        return self._versioning[1]

    def require(self) -> None:
        """Raise ``VaultFault`` NO_BUCKET where the bucket is not there."""
        self.call(lambda s3: s3.head_bucket(Bucket=self.name))

    def get(self, full: str, at_most: int | None = None) -> bytes | None:
        """Return the bytes of an object of the store, the first ones or all; None where there is none."""

        def request(s3: "S3Client") -> bytes | None:
            try:
                return s3.get_object(Bucket=self.name, Key=full)["Body"].read(at_most)
            except ClientError as error:
                if error_of(error)[0] == "NoSuchKey":
                    return None
                raise

        return self.ask(request)

    def call(self, request: "Callable[[S3Client], T]") -> T:
        """Send a request once; what fails is a ``VaultFault``."""
        try:
            return request(s3_client(self.endpoint, self.spec.region, self.spec.profile))
        except REQUEST_ERRORS as error:
            raise fault(self.spec.name, error) from error

    def ask(self, request: "Callable[[S3Client], T]") -> T:
        """Call, and again a few times where the store failed quickly: one bad reply is no reason to leave it alone.

        Not after a time-out: whoever waits must prove its lease meanwhile. Not for deletes: the sweep does that.
        """
        for wait in READ_AGAIN_SECONDS:
            began = time.monotonic()
            try:
                return self.call(request)
            except VaultFault as busy:
                if busy.reason != UNREACHABLE or time.monotonic() - began > QUICK_SECONDS:
                    raise
            time.sleep(wait)
        return self.call(request)

    def fault(self, reason: str, detail: str) -> VaultFault:
        """Return a fault of this vault."""
        return VaultFault(self.spec.name, reason, detail)


def each(do: Callable[[A], T], items: Sequence[A], until: float = float("inf")) -> list[T | None]:
    """Do something for each item, a few at once; None where it was too late to begin (``until``: monotonic seconds).

    Raises:
        VaultFault: one of them failed; no other is begun after it.
    """
    over = threading.Event()

    def one(item: A) -> T | None:
        if over.is_set() or time.monotonic() > until:
            return None
        try:
            return do(item)
        except BaseException:
            over.set()
            raise

    with ThreadPoolExecutor(TOGETHER, thread_name_prefix="requests") as pool:
        return list(pool.map(one, items))


def throttled(key: str, busy: Throttled) -> KeyResult:
    """Return what a busy store means for one key."""
    return KeyResult(key=key, outcome=KeyOutcome.THROTTLED, reason=busy.detail, retry_after=busy.retry_after)


def later(key: str) -> KeyResult:
    """Return the result of a key that its page had no time left for."""
    return KeyResult(
        key=key, outcome=KeyOutcome.THROTTLED, reason=f"its page took over {PAGE_SECONDS:.0f} s; tried again"
    )
