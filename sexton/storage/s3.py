"""A vault in an S3 bucket.

Says of a key only what the store said of it: per-key errors in a 200 are read, a reply that is broken, truncated or
about other keys is a ``VaultFault``, and a listing is complete or none.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from botocore.exceptions import ClientError
from pydantic import ValidationError

from sexton.errors import BadInput
from sexton.storage.model import MARKER_KEY, PAGE_KEYS, KeyResult, Listed, Marker, Outcome, VaultSpec
from sexton.storage.policy import check_key, check_listing, check_root, inside_other_vault, is_other_marker
from sexton.storage.port import UNREACHABLE, Throttled, VaultFault
from sexton.storage.s3_wire import REQUEST_ERRORS, error_of, fault, fits_xml, is_about_request, is_busy, s3_client

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

KEY_BYTES = 1_024
"""Longest key an S3 store takes, UTF-8, the vault's prefix included; a longer one spoils its whole delete page."""
MARKER_BYTES = 65_536
DESCENDANT_PAGES = 10
READ_AGAIN_SECONDS = (0.2, 0.5, 1.0)
"""Waits before a read that failed quickly is tried again."""
QUICK_SECONDS = 2.0

T = TypeVar("T")


class S3Vault:
    """Objects under ``spec.prefix`` of the bucket ``spec.location``. Safe to share between threads."""

    def __init__(self, spec: VaultSpec, endpoint_url: str = "") -> None:
        """Open without a request.

        Args:
            spec: the vault's row.
            endpoint_url: the settings' endpoint, used where the row names none; empty for AWS.

        Raises:
            BadInput: the prefix is neither empty nor a folder's path.
        """
        check_root(spec.prefix)
        self.spec = spec
        self._endpoint = spec.endpoint or endpoint_url

    def read_marker(self) -> Marker | None:
        return self._marker_at(self.spec.prefix + MARKER_KEY)

    def write_marker(self, marker: Marker) -> None:
        # Asked first, because SeaweedFS makes a missing bucket on PUT, and a mistyped name must not become a vault.
        self._call(lambda s3: s3.head_bucket(Bucket=self.spec.location))
        # Read first as well: not every store honours If-None-Match.
        if self.read_marker() is not None or not self._call(lambda s3: self._put_new(s3, marker)):
            raise self._fault("FOREIGN_MARKER", "there is a marker already; `vault add` never overwrites one")
        if self.read_marker() != marker:
            raise self._fault("FOREIGN_MARKER", "the marker reads back otherwise than written; somebody else wrote one")

    def replace_marker(self, marker: Marker) -> None:
        body, key = marker.model_dump_json().encode(), self.spec.prefix + MARKER_KEY
        self._call(lambda s3: s3.put_object(Bucket=self.spec.location, Key=key, Body=body))

    def list(self, prefix: str) -> Iterator[Sequence[Listed]]:
        check_listing(prefix)
        return self._objects(prefix)

    def delete(self, keys: Sequence[str]) -> Sequence[KeyResult]:
        if len(keys) > PAGE_KEYS:
            raise ValueError(f"{len(keys)} keys in one page, at most {PAGE_KEYS} are possible")
        for key in keys:
            check_key(key)
            if len((self.spec.prefix + key).encode()) > KEY_BYTES:
                raise BadInput(f"key {key!r} is longer than the {KEY_BYTES} bytes that S3 allows")
        try:
            gone = self._gone if keys else Outcome.DELETED
        except Throttled as busy:
            return [KeyResult(key=key, outcome=Outcome.THROTTLED, reason=busy.detail) for key in keys]
        together = [key for key in dict.fromkeys(keys) if fits_xml(key)]
        results = self._delete_together(together, gone) if together else {}
        return [results.get(key) or self._delete_alone(key, gone) for key in keys]

    def ancestor_markers(self) -> Sequence[Marker]:
        folders = self.spec.prefix.split("/")[:-1]
        above = ["/".join([*folders[:depth], MARKER_KEY]) for depth in range(len(folders))]
        return [marker for marker in map(self._marker_at, above) if marker is not None]

    def descendant_marker(self) -> Marker | None:
        for page in islice(self._pages(""), DESCENDANT_PAGES):
            for listed in page:
                if is_other_marker(listed.key):
                    return self._marker_at(self.spec.prefix + listed.key)
        return None

    def _delete_together(self, keys: Sequence[str], gone: Outcome) -> dict[str, KeyResult]:
        asked = {self.spec.prefix + key: key for key in keys}
        try:
            reply = self._call(
                lambda s3: s3.delete_objects(
                    Bucket=self.spec.location, Delete={"Objects": [{"Key": key} for key in asked], "Quiet": True}
                )
            )
        except Throttled as busy:
            return {key: KeyResult(key=key, outcome=Outcome.THROTTLED, reason=busy.detail) for key in keys}
        results = {key: KeyResult(key=key, outcome=gone) for key in keys}
        for error in reply.get("Errors", ()):
            key = asked.get(error.get("Key", ""), "")
            if not key:
                raise self._fault("BAD_REPLY", f"an error for a key that was not asked for: {error}")
            results[key] = self._refused(key, error.get("Code", ""), error.get("Message", ""))
        named = {entry.get("Key") for entry in (*reply.get("Deleted", ()), *reply.get("Errors", ()))}
        # A store that ignores Quiet names what it deleted; then silence about a key is not consent.
        if reply.get("Deleted") and named != asked.keys():
            raise self._fault("BAD_REPLY", f"the reply names {len(named)} of {len(asked)} keys; the rest is unknown")
        return results

    def _delete_alone(self, key: str, gone: Outcome) -> KeyResult:
        """Delete a key that XML cannot express (a control character, U+FFFF): its name goes into the URL instead."""

        def request(s3: "S3Client") -> KeyResult:
            try:
                s3.delete_object(Bucket=self.spec.location, Key=self.spec.prefix + key)
            except ClientError as error:
                if is_about_request(error):
                    raise
                code, message, _ = error_of(error)
                return self._refused(key, code, message)
            return KeyResult(key=key, outcome=gone)

        try:
            return self._call(request)
        except Throttled as busy:
            return KeyResult(key=key, outcome=Outcome.THROTTLED, reason=busy.detail)

    def _refused(self, key: str, code: str, message: str) -> KeyResult:
        reason = f"{code}: {message}"
        if code == "NoSuchBucket":
            raise self._fault("NO_BUCKET", reason)
        if code in ("NoSuchKey", "NotFound"):
            return KeyResult(key=key, outcome=Outcome.ABSENT, reason=reason)
        return KeyResult(key=key, outcome=Outcome.THROTTLED if is_busy(code) else Outcome.FAILED, reason=reason)

    @cached_property
    def _gone(self) -> Outcome:
        """What a successful delete does here: free the bytes, or hide them behind a marker (versioned bucket)."""

        def request(s3: "S3Client") -> str:
            try:
                return s3.get_bucket_versioning(Bucket=self.spec.location).get("Status", "")
            except ClientError as error:
                if error_of(error)[0] in ("AccessDenied", "NotImplemented", "MethodNotAllowed"):
                    return ""  # only the accounting of bytes depends on it
                raise

        return Outcome.HIDDEN if self._read(request) in ("Enabled", "Suspended") else Outcome.DELETED

    def _objects(self, prefix: str) -> Iterator[Sequence[Listed]]:
        for page in self._pages(prefix):
            for listed in page:
                if inside_other_vault(listed.key):
                    raise self._fault("FOREIGN_MARKER", f"{listed.key!r} belongs to another vault inside this one")
            if page:
                yield page

    def _pages(self, prefix: str) -> Iterator[Sequence[Listed]]:
        start, last, token = len(self.spec.prefix), "", ""
        by_bytes = by_path = True
        while True:
            reply = self._page(self.spec.prefix + prefix, token)
            page = [
                Listed(key=entry["Key"][start:], bytes=entry["Size"], etag=entry.get("ETag", "").strip('"'))
                for entry in reply.get("Contents", ())
                if self._is_under(entry["Key"], prefix)
            ]
            for listed in page:
                # A key that steps back means a page repeated or out of place, hence perhaps another one left out.
                by_bytes = by_bytes and last < listed.key
                by_path = by_path and last.replace("/", "\0") < listed.key.replace("/", "\0")
                if last and not (by_bytes or by_path):
                    raise self._fault("BAD_REPLY", f"{listed.key!r} was listed after {last!r}")
                last = listed.key
            yield page
            if not reply["IsTruncated"]:
                return
            if reply.get("NextContinuationToken", "") in ("", token):
                raise self._fault("BAD_REPLY", f"the listing of {prefix!r} is truncated without a way to go on")
            token = reply["NextContinuationToken"]

    def _page(self, prefix: str, token: str) -> "ListObjectsV2OutputTypeDef":
        where = {"Bucket": self.spec.location, "Prefix": prefix} | ({"ContinuationToken": token} if token else {})
        reply = self._read(lambda s3: s3.list_objects_v2(**where, MaxKeys=PAGE_KEYS))  # type: ignore[arg-type]
        entries = reply.get("Contents", ())
        whole = all("Key" in entry and "Size" in entry for entry in entries)
        if "IsTruncated" not in reply or not whole or len(entries) > PAGE_KEYS:
            raise self._fault("BAD_REPLY", f"the listing of {prefix!r} is no ListObjectsV2 page")
        return reply

    def _is_under(self, key: str, prefix: str) -> bool:
        if not key.startswith(self.spec.prefix + prefix):
            raise self._fault("BAD_REPLY", f"{key!r} was listed under {self.spec.prefix + prefix!r}")
        return key != self.spec.prefix  # the folder placeholder of the vault itself is no object in it

    def _marker_at(self, key: str) -> Marker | None:
        def request(s3: "S3Client") -> bytes | None:
            try:
                return s3.get_object(Bucket=self.spec.location, Key=key)["Body"].read(MARKER_BYTES)
            except ClientError as error:
                if error_of(error)[0] == "NoSuchKey":
                    return None
                raise

        raw = self._read(request)
        try:
            return None if raw is None else Marker.model_validate_json(raw)
        except ValidationError as error:
            raise self._fault("FOREIGN_MARKER", f"{key} cannot be read as a marker: {raw!r:.80}") from error

    def _put_new(self, s3: "S3Client", marker: Marker) -> bool:
        body = marker.model_dump_json().encode()
        try:
            s3.put_object(Bucket=self.spec.location, Key=self.spec.prefix + MARKER_KEY, Body=body, IfNoneMatch="*")
        except ClientError as error:
            if error_of(error)[0] in ("PreconditionFailed", "ConditionalRequestConflict"):
                return False
            raise
        return True

    def _call(self, request: "Callable[[S3Client], T]") -> T:
        try:
            return request(s3_client(self._endpoint, self.spec.region, self.spec.profile))
        except REQUEST_ERRORS as error:
            raise fault(self.spec.name, error) from error

    def _read(self, request: "Callable[[S3Client], T]") -> T:
        """Call, and again a few times where the store failed quickly: one bad reply is no reason to leave it alone.

        Not after a time-out: whoever waits must prove its lease meanwhile. Not for writes: the sweep tries those again.
        """
        for wait in READ_AGAIN_SECONDS:
            began = time.monotonic()
            try:
                return self._call(request)
            except VaultFault as busy:
                if busy.reason != UNREACHABLE or time.monotonic() - began > QUICK_SECONDS:
                    raise
            time.sleep(wait)
        return self._call(request)

    def _fault(self, reason: str, detail: str) -> VaultFault:
        return VaultFault(self.spec.name, reason, detail)
