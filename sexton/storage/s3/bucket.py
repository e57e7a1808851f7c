"""Send requests to the bucket of one vault, and turn their failures into faults of the vault."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from botocore.exceptions import ClientError

from sexton.kernel.trust import STRICT, PlainHttp, Trust
from sexton.storage.model import KeyOutcome, KeyResult, VaultSpec
from sexton.storage.port import UNREACHABLE, Throttled, VaultFault
from sexton.storage.s3.transport import Transport
from sexton.storage.s3.wire import REQUEST_ERRORS, error_of, fault, forget_logins, transport

RETRY_WAITS_SECONDS = (0.2, 0.5, 1.0)
"""Waits before a request that failed quickly is tried again."""
QUICK_SECONDS = 2.0
VERSIONING_SECONDS = 60.0
"""How long the bucket's versioning status is cached; an operator may switch it on meanwhile."""
REQUESTS_AT_ONCE = 8
"""Requests of one page that are under way at once, where the page needs more than one."""
NOT_ALLOWED_CODES = ("AccessDenied", "NotImplemented", "MethodNotAllowed")
"""Error codes of a store that does not allow or does not know a request."""

A = TypeVar("A")
T = TypeVar("T")


class S3Bucket:
    """Requests about one vault. Keys are relative to its prefix unless they are called full."""

    def __init__(self, spec: VaultSpec, endpoint_url: str, trust: Trust = STRICT) -> None:
        """Open without a request."""
        self.spec = spec
        self.name = spec.location
        self.prefix = spec.prefix
        self.endpoint = spec.endpoint or endpoint_url
        self.trust = trust
        self._versioning: tuple[float, str | None] | None = None

    def full(self, key: str) -> str:
        """Return a key of the vault as the store knows it."""
        return self.prefix + key

    def relative(self, full_key: str) -> str:
        """Return a key of the store as the vault knows it."""
        return full_key[len(self.prefix) :]

    def versioning(self) -> str | None:
        """Return ``Enabled``, ``Suspended``, empty (never versioned), or None where the store does not report it."""

        def request(via: Transport) -> str | None:
            try:
                return via.s3.get_bucket_versioning(Bucket=self.name).get("Status", "")
            except ClientError as error:
                if error_of(error)[0] in NOT_ALLOWED_CODES:
                    return None
                raise

        if self._versioning is None or time.monotonic() - self._versioning[0] > VERSIONING_SECONDS:
            self._versioning = (time.monotonic(), self.call_with_retries(request))
        return self._versioning[1]

    def require_exists(self) -> None:
        """Raise ``VaultFault`` NO_BUCKET where the bucket does not exist."""
        self.call(lambda via: via.s3.head_bucket(Bucket=self.name))

    def get(self, full_key: str, at_most: int | None = None) -> bytes | None:
        """Return the first ``at_most`` bytes of an object, or all; None where it does not exist."""

        def request(via: Transport) -> bytes | None:
            try:
                return via.s3.get_object(Bucket=self.name, Key=full_key)["Body"].read(at_most)
            except ClientError as error:
                if error_of(error)[0] == "NoSuchKey":
                    return None
                raise

        return self.call_with_retries(request)

    def call(self, request: Callable[[Transport], T]) -> T:
        """Send a request once; a failure is a ``VaultFault``."""
        try:
            self.trust.check(self.endpoint)
            return request(transport(self.endpoint, self.spec.region, self.spec.profile, self.trust.ca_certs))
        except PlainHttp as error:
            raise self.fault("DENIED", str(error)) from error
        except REQUEST_ERRORS as error:
            failure = fault(self.spec.name, error)
            if failure.reason == "DENIED":
                forget_logins()
            raise failure from error

    def call_with_retries(self, request: Callable[[Transport], T]) -> T:
        """Send a request, and a few times again where the store fails quickly: one bad reply is no fault of the vault.

        Not after a time-out: the caller must renew its lease meanwhile. Not for deletes: the sweep retries them.
        """
        for wait in RETRY_WAITS_SECONDS:
            began = time.monotonic()
            try:
                return self.call(request)
            except VaultFault as failure:
                if failure.reason != UNREACHABLE or time.monotonic() - began > QUICK_SECONDS:
                    raise
            time.sleep(wait)
        return self.call(request)

    def fault(self, reason: str, detail: str) -> VaultFault:
        """Return a fault of this vault."""
        return VaultFault(self.spec.name, reason, detail)


def run_together(task: Callable[[A], T], items: Sequence[A], until: float = float("inf")) -> list[T | None]:
    """Run a task for each item, a few at once; None for an item that was too late to begin.

    Args:
        task: called with one item.
        items: in the order of the results.
        until: no task begins after this instant, in monotonic seconds.

    Raises:
        VaultFault: a task failed; no other begins after it.
    """
    failed = threading.Event()

    def run(item: A) -> T | None:
        if failed.is_set() or time.monotonic() > until:
            return None
        try:
            return task(item)
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="requests") as pool:
        return list(pool.map(run, items))


def throttled(key: str, busy: Throttled) -> KeyResult:
    """Return the result of a key whose request the store throttled."""
    return KeyResult(key=key, outcome=KeyOutcome.THROTTLED, reason=busy.detail, retry_after=busy.retry_after)
