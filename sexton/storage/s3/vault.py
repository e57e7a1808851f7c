"""Implement the vault's port on an S3 bucket.

The result of a key is exactly what the store reported for it: per-key errors in a 200 are read; a reply that is broken,
truncated or about other keys is a ``VaultFault``; a listing is complete or a fault.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from sexton.kernel.errors import BadInput
from sexton.kernel.trust import STRICT, Trust
from sexton.storage.model import (
    MARKER_KEY,
    PAGE_KEYS,
    PAGE_SECONDS,
    RESERVED_PREFIX,
    KeyOutcome,
    KeyResult,
    ListedObject,
    Marker,
    Probe,
    Undeleted,
    VaultPart,
    VaultSpec,
)
from sexton.storage.policy import (
    check_keys,
    check_listing,
    check_own,
    check_own_prefix,
    check_root,
    is_other_marker,
    is_own,
    nested,
)
from sexton.storage.port import ListedPage, Throttled
from sexton.storage.s3 import listing
from sexton.storage.s3 import probe as s3_probe
from sexton.storage.s3 import uploads as s3_uploads
from sexton.storage.s3.bucket import NOT_ALLOWED_CODES, S3Bucket, throttled
from sexton.storage.s3.delete import (
    Seen,
    delete,
    delete_conditionally,
    delete_unchanged,
    head_all,
    with_deleted_as,
)
from sexton.storage.s3.purge import null_bytes, purge
from sexton.storage.s3.transport import Transport
from sexton.storage.s3.undelete import undelete
from sexton.storage.s3.wire import error_of
from sexton.storage.vault_parts import cut_in_bytes, in_bytes, spread

KEY_BYTES = 1_024
"""Longest key that S3 accepts, in UTF-8, with the vault's prefix; a longer one makes its whole delete page fail."""
MARKER_BYTES = 65_536
DESCENDANT_PAGES = 10
NO_RULES = ("NoSuchLifecycleConfiguration", "NoSuchLifecycle", *NOT_ALLOWED_CODES)


class S3Vault:
    """Objects under ``spec.prefix`` of the bucket ``spec.location``. Safe to share between threads."""

    def __init__(self, spec: VaultSpec, endpoint_url: str = "", trust: Trust = STRICT) -> None:
        """Open without a request.

        Args:
            spec: the vault's row.
            endpoint_url: the settings' endpoint, used where the row names none; empty for AWS.
            trust: of its connections.

        Raises:
            BadInput: the prefix is neither empty nor a folder's path.
        """
        check_root(spec.prefix)
        self.spec = spec
        self._bucket = S3Bucket(spec, endpoint_url, trust)

    def read_marker(self) -> Marker | None:
        return self._marker_at(self.spec.prefix + MARKER_KEY)

    def write_marker(self, marker: Marker) -> None:
        bucket, body = self._bucket, marker.model_dump_json().encode()

        def put_new(via: Transport) -> bool:
            try:
                via.s3.put_object(Bucket=bucket.name, Key=bucket.full(MARKER_KEY), Body=body, IfNoneMatch="*")
            except ClientError as error:
                if error_of(error)[0] in ("PreconditionFailed", "ConditionalRequestConflict"):
                    return False
                raise
            return True

        # Checked first, because SeaweedFS creates a missing bucket on PUT, and a mistyped name must not become a vault.
        self._bucket.require_exists()
        # Read first too, because some stores ignore If-None-Match.
        if self.read_marker() is not None or not self._bucket.call(put_new):
            raise self._bucket.fault("FOREIGN_MARKER", "a marker exists already; `vault add` never overwrites one")
        if self.read_marker() != marker:
            detail = "the marker reads back differently than written: another process wrote one; add the vault again"
            raise self._bucket.fault("FOREIGN_MARKER", detail)

    def replace_marker(self, marker: Marker) -> None:
        self._put(MARKER_KEY, marker.model_dump_json().encode())

    def remove_marker(self) -> None:
        self._remove([MARKER_KEY])

    def list(self, prefix: str) -> Iterator[Sequence[ListedObject]]:
        check_listing(prefix)
        return listing.pages(self._bucket, prefix)

    def parts(self, count: int) -> Sequence[VaultPart]:
        def folders(folder: str) -> Sequence[str] | None:
            return listing.folders(self._bucket, folder)

        if not in_bytes(self.spec.probe):
            return spread(folders, count)
        return cut_in_bytes(folders, lambda part: listing.first_key(self._bucket, part), count)

    def reports(self) -> Sequence[VaultPart]:
        if not self.spec.inventory:
            return ()
        from sexton.storage.s3 import inventory  # only checks need Arrow

        return inventory.reports(self._bucket)

    def list_part(self, part: VaultPart) -> "Iterator[ListedPage]":
        if part.report is not None:
            from sexton.storage.s3 import inventory

            return inventory.pages(self._bucket, part.report)
        if (part.after or part.until) and not in_bytes(self.spec.probe):
            raise ValueError(
                f"no probe showed that vault {self.spec.name} lists in byte order; its listing cannot be cut by keys"
            )
        return listing.pages(self._bucket, part.prefix, loose=part.loose, after=part.after, until=part.until)

    def stat(self, keys: Sequence[str]) -> Sequence[ListedObject]:
        self._check(keys)
        objects = head_all(self._bucket, keys)
        if None in objects:
            self._bucket.require_exists()  # the answer of HEAD is the same for a missing bucket and a missing key
        return [listed for listed in objects if listed is not None]

    def prepare_delete(self) -> None:
        self._bucket.versioning()

    def delete(self, keys: Sequence[str], etags: Sequence[str] = (), until: float | None = None) -> Sequence[KeyResult]:
        self._check(keys)
        until = time.monotonic() + PAGE_SECONDS if until is None else until
        etag_of_key = dict(zip(keys, etags, strict=True)) if etags else dict.fromkeys(keys, "")
        results = self._delete(etag_of_key, until, conditional=self.spec.conditional)
        return [results[key] for key in keys]

    def delete_unchanged(
        self, keys: Sequence[str], etags: Sequence[str], written: Sequence[str], until: float | None = None
    ) -> Sequence[KeyResult]:
        self._check(keys)
        until = time.monotonic() + PAGE_SECONDS if until is None else until
        probe = self.spec.probe
        conditional = bool(probe and (probe.etag_single or probe.etag_multi)) and self.spec.versions != "purge"

        def delete_one(seen: Seen) -> KeyResult:
            by_etag = self.spec.conditional or (conditional and seen.etag != "")
            return self._delete({seen.key: seen.etag}, until, conditional=by_etag)[seen.key]

        objects = [Seen(*of_key) for of_key in zip(keys, etags, written, strict=True)]
        return delete_unchanged(self._bucket, objects, delete_one, until)

    def _delete(self, etag_of_key: Mapping[str, str], until: float, *, conditional: bool) -> dict[str, KeyResult]:
        if not etag_of_key:
            return {}
        keys, freed = list(etag_of_key), dict[str, int]()
        try:
            versioning = self._bucket.versioning()
            if versioning == "Suspended" and self.spec.versions != "purge":
                freed = null_bytes(self._bucket, keys, until)
        except Throttled as busy:
            return {key: throttled(key, busy) for key in keys}
        deleted = KeyOutcome.HIDDEN if versioning else KeyOutcome.DELETED
        if conditional:
            results = delete_conditionally(self._bucket, etag_of_key, deleted, until)
        elif self.spec.versions == "purge" and versioning != "":  # None: the store may have versions
            return purge(self._bucket, keys, until)
        else:
            plain = with_deleted_as(deleted, delete(self._bucket, keys, until=until))
            results = dict(zip(keys, plain, strict=True))
        hidden = [key for key in freed if results[key].outcome is KeyOutcome.HIDDEN]
        return results | {key: KeyResult(key, KeyOutcome.DELETED, bytes=freed[key]) for key in hidden}

    def abort_uploads(self, *prefixes: str) -> int:
        for prefix in prefixes:
            check_listing(prefix)
        return s3_uploads.abort_uploads(self._bucket, prefixes)

    def uploads(self, before: str) -> Sequence[ListedObject]:
        return s3_uploads.begun(self._bucket, before)

    def versions_days(self) -> int | None:
        def rules(via: Transport) -> Sequence[Any]:
            try:
                return via.s3.get_bucket_lifecycle_configuration(Bucket=self.spec.location).get("Rules", ())
            except ClientError as error:
                if error_of(error)[0] in NO_RULES:
                    return ()
                raise

        if not self._bucket.versioning():
            return None
        days: list[int] = []
        for rule in self._bucket.call_with_retries(rules):
            kept_days = rule.get("NoncurrentVersionExpiration", {}).get("NoncurrentDays")
            # A rule for some objects only, by tag or size, counts as a rule for all. Without a prefix it is for all.
            only = rule.get("Filter") or {}
            prefix = only.get("Prefix") or only.get("And", {}).get("Prefix") or rule.get("Prefix") or ""
            if rule.get("Status") == "Enabled" and kept_days and nested(str(prefix), self.spec.prefix):
                days.append(kept_days)
        return min(days, default=None)

    def write_own(self, name: str, data: bytes) -> None:
        check_own(name)
        self._put(RESERVED_PREFIX + name, data)

    def read_own(self, name: str) -> bytes | None:
        check_own(name)
        return self._bucket.get(self._bucket.full(RESERVED_PREFIX + name))

    def list_own(self, prefix: str) -> Iterator[Sequence[ListedObject]]:
        check_own_prefix(prefix)
        pages = listing.pages(self._bucket, RESERVED_PREFIX + prefix, own=True)

        def own_files() -> Iterator[Sequence[ListedObject]]:
            for page in pages:
                files = [listed._replace(key=listed.key.removeprefix(RESERVED_PREFIX)) for listed in page]
                if own := [file for file in files if is_own(file.key)]:  # without the marker
                    yield own

        return own_files()

    def remove_own(self, names: Sequence[str]) -> None:
        for name in names:
            check_own(name)
        self._remove([RESERVED_PREFIX + name for name in dict.fromkeys(names)])

    def _remove(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), PAGE_KEYS):
            page = keys[start : start + PAGE_KEYS]
            if self.spec.versions == "purge" and self._bucket.versioning() != "":
                results = list(purge(self._bucket, page, time.monotonic() + PAGE_SECONDS).values())
            else:
                results = delete(self._bucket, page)
            for result in results:
                if result.outcome is KeyOutcome.THROTTLED:
                    raise self._bucket.fault("UNREACHABLE", f"{result.key} was not removed: {result.reason}")
                if result.outcome not in (KeyOutcome.DELETED, KeyOutcome.ABSENT):
                    raise self._bucket.fault("DENIED", f"{result.key} was not removed: {result.reason}")

    def probe(self) -> Probe:
        return s3_probe.probe(self._bucket)

    def undelete(self, prefix: str = "", keys: Sequence[str] = (), *, dry_run: bool = False) -> Iterator[Undeleted]:
        return undelete(self._bucket, prefix, keys, dry_run)

    def ancestor_markers(self) -> Sequence[Marker]:
        folders = self.spec.prefix.split("/")[:-1]
        keys = ["/".join([*folders[:depth], MARKER_KEY]) for depth in range(len(folders))]
        return [marker for marker in map(self._marker_at, keys) if marker is not None]

    def descendant_marker(self) -> Marker | None:
        for page in islice(listing.pages(self._bucket, "", own=True), DESCENDANT_PAGES):
            for listed in page:
                if is_other_marker(listed.key):
                    return self._marker_at(self.spec.prefix + listed.key)
        return None

    def _check(self, keys: Sequence[str]) -> None:
        check_keys(keys)
        longest = len(self.spec.prefix) + max(map(len, keys), default=0)
        for key in keys if longest > KEY_BYTES // 4 else ():  # no character has more than 4 bytes
            if len((self.spec.prefix + key).encode()) > KEY_BYTES:
                raise BadInput(f"key {key!r} is longer than the {KEY_BYTES} bytes that S3 allows; use a shorter one")

    def _marker_at(self, key: str) -> Marker | None:
        raw = self._bucket.get(key, MARKER_BYTES)
        try:
            return None if raw is None else Marker.model_validate_json(raw)
        except ValidationError as error:
            raise self._bucket.fault("FOREIGN_MARKER", f"{key} cannot be read as a marker: {raw!r:.80}") from error

    def _put(self, key: str, body: bytes) -> None:
        bucket, full_key = self._bucket, self._bucket.full(key)
        bucket.call_with_retries(lambda via: via.s3.put_object(Bucket=bucket.name, Key=full_key, Body=body))
