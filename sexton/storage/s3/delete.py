"""Delete objects or versions of an S3 bucket; the result of each is exactly what the store reported for it.

Or conditionally: an object is deleted only while it has the ETag that was resolved, or was not written again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from botocore.exceptions import ClientError

from sexton.storage.model import PAGE_KEYS, KeyOutcome, KeyResult, ListedObject, rows
from sexton.storage.policy import is_rewritten, out_of_time, rewritten_text
from sexton.storage.port import Throttled
from sexton.storage.s3.bucket import S3Bucket, run_together, throttled
from sexton.storage.s3.transport import Transport, UnreadableReply, document, has_plain_text
from sexton.storage.s3.wire import error_of, fits_xml, is_about_request, is_busy, is_lock


class Seen(NamedTuple):
    """An object as it was seen; ``etag``, ``written``: empty if they are not known."""

    key: str
    etag: str
    written: str


Texts = Sequence[str]
Target = tuple[str, str, str]
"""Key, version and ETag of the thing to delete; of the last two at least one is empty."""
DeleteReply = tuple[Sequence[Mapping[str, str]], Sequence[Mapping[str, str]]]
"""The errors in a reply to DeleteObjects, and the deletions that it reports: name → text of each element."""
NO_ETAG = "no ETag known: a conditional vault needs it; not deleted"
NO_LIMIT = float("inf")


def delete(
    bucket: S3Bucket, keys: Texts, versions: Texts = (), etags: Texts = (), until: float = NO_LIMIT, alone: bool = False
) -> list[KeyResult]:
    """Delete keys, 1,000 in a request; return their results in the same order.

    DELETED means that the store accepted it, whatever that means in its bucket.

    Args:
        bucket: of the vault.
        keys: relative to it; no version of a key twice.
        versions: the version of each key that is meant; none: the key itself.
        etags: the ETag of each key that is meant, without quotation marks; none: any. Not with versions.
        until: no request begins after this instant, in monotonic seconds; what is left then is THROTTLED.
        alone: send one request per key, where the store does not respect an ETag per key of a request.
    """
    numbers, results = range(len(keys)), dict[int, KeyResult]()
    together = numbers if has_plain_text("".join(keys)) else [n for n in numbers if fits_xml(keys[n])]
    for start in range(0, 0 if alone else len(together), PAGE_KEYS):
        if time.monotonic() > until:
            results |= {n: out_of_time(keys[n]) for n in together[start:]}
            break
        page = together[start : start + PAGE_KEYS]
        of_page = _delete_together(bucket, *([c[n] for n in page] if c else c for c in (keys, versions, etags)))
        if len(of_page) == len(keys):  # as in most calls
            return of_page
        results |= zip(page, of_page, strict=bool(of_page))
    # A key that XML cannot express (a control character, U+FFFF) is part of a URL instead; so is each of a store that
    # has no request for several.
    left, targets = [n for n in numbers if n not in results], _targets(keys, versions, etags)
    replies = run_together(lambda n: _delete_alone(bucket, targets[n]), left, until)
    results |= {n: reply or out_of_time(keys[n]) for n, reply in zip(left, replies, strict=True)}
    return [results[n] for n in numbers]


def _targets(keys: Texts, versions: Texts, etags: Texts) -> list[Target]:
    none = [""] * len(keys)
    return [*zip(keys, versions or none, etags or none, strict=True)]


def with_deleted_as(deleted: KeyOutcome, results: list[KeyResult]) -> list[KeyResult]:
    """Return the results with another outcome instead of DELETED: HIDDEN in a versioned bucket."""
    if deleted is KeyOutcome.DELETED:
        return results
    return [r._replace(outcome=deleted) if r.outcome is KeyOutcome.DELETED else r for r in results]


def _delete_together(bucket: S3Bucket, keys: Texts, versions: Texts, etags: Texts) -> list[KeyResult]:
    """Delete keys in one request; return no result where the store has no such request."""

    def request(via: Transport) -> DeleteReply | None:
        try:
            return read(via.delete_objects(bucket.name, bucket.prefix, keys, versions, etags))
        except ClientError as error:
            if _is_missing(error):
                return None
            raise

    try:
        reply = bucket.call(request)
    except Throttled as busy:
        return [throttled(key, busy) for key in keys]
    if reply is None:
        return []
    none = repeat(None)
    results = rows(KeyResult, keys, repeat(KeyOutcome.DELETED), repeat(""), none, none, repeat(False))
    if any(reply):
        _add_reported(bucket, _targets(keys, versions, etags), results, reply)
    return results


def _add_reported(bucket: S3Bucket, targets: Sequence[Target], results: list[KeyResult], reply: DeleteReply) -> None:
    """Set the results of the errors in a reply; refuse one that contradicts the request."""
    errors, deleted = reply
    positions: dict[str, list[int]] = {}
    for n, (key, _, _) in enumerate(targets):
        positions.setdefault(bucket.full(key), []).append(n)
    for error in errors:
        of_key = positions.get(error.get("Key", ""), [])
        if not of_key:
            raise bucket.fault("BAD_REPLY", f"an error for a key that was not in the request: {error}")
        for n in [n for n in of_key if targets[n][1] == error.get("VersionId", "")] or of_key:
            results[n] = _refused(bucket, targets[n], error.get("Code", ""), error.get("Message", ""))
    # A store that ignores Quiet names what it deleted; then silence about a key does not mean that it was deleted.
    versions = {(d.get("Key", ""), d.get("VersionId") or d.get("DeleteMarkerVersionId", "")) for d in deleted}
    keys = {key for key, _ in versions}
    for (key, version, _), result in zip(targets, results, strict=True) if versions else ():
        full_key = bucket.full(key)
        is_named = (full_key, version) in versions if version else full_key in keys
        if result.outcome is KeyOutcome.DELETED and not is_named:
            raise bucket.fault("BAD_REPLY", f"the reply names {len(versions)} objects, but not {full_key!r}")
    if not keys <= positions.keys():
        unknown = keys - positions.keys()
        raise bucket.fault("BAD_REPLY", f"the reply names keys that were not in the request: {unknown}")


def read(body: bytes) -> DeleteReply:
    """Return the content of a reply to DeleteObjects.

    Raises:
        UnreadableReply: the body is no such document: a truncated or empty one must not mean that all is deleted.
    """
    reply: dict[str, list[Mapping[str, str]]] = {"Error": [], "Deleted": []}
    for entry in document(body, "DeleteResult"):
        fields = {field.tag: field.text or "" for field in entry}
        if entry.tag not in reply or len(fields) < len(entry):
            raise UnreadableReply(f"an unknown or ambiguous {entry.tag} in a DeleteResult: {body[:80]!r}")
        reply[entry.tag].append(fields)
    return reply["Error"], reply["Deleted"]


def _delete_alone(bucket: S3Bucket, target: Target) -> KeyResult:
    key, version, etag = target
    condition = {"VersionId": version} if version else {"IfMatch": f'"{etag}"'} if etag else {}

    def request(via: Transport) -> KeyResult:
        try:
            via.s3.delete_object(Bucket=bucket.name, Key=bucket.full(key), **condition)  # type: ignore[arg-type]
        except ClientError as error:
            if is_about_request(error) or (not condition and _is_missing(error)):
                raise
            code, message, _ = error_of(error)
            return _refused(bucket, target, code, message)
        return KeyResult(key=key, outcome=KeyOutcome.DELETED)

    try:
        return bucket.call(request)
    except Throttled as busy:
        return throttled(key, busy)


def _is_missing(error: ClientError) -> bool:
    """Return whether a store answers that it has no such request."""
    code, _, status = error_of(error)
    return code in ("NotImplemented", "MethodNotAllowed") or status in (405, 501)


def _refused(bucket: S3Bucket, target: Target, code: str, message: str) -> KeyResult:
    """Return the result of a target that the store refused with an error code."""
    key, version, etag = target
    reason = f"{code}: {message}"
    outcome = KeyOutcome.FAILED
    if code == "NoSuchBucket":
        raise bucket.fault("NO_BUCKET", reason)
    if code in ("NoSuchKey", "NotFound") or (version and code == "NoSuchVersion"):
        outcome = KeyOutcome.ABSENT
    elif is_busy(code):
        outcome = KeyOutcome.THROTTLED
    elif etag and code in ("PreconditionFailed", "412"):
        outcome = KeyOutcome.CHANGED
    elif is_lock(code, message):
        reason = f"LOCKED: {reason}"
    return KeyResult(key=key, outcome=outcome, reason=reason, alone=code == "InternalError")


def delete_conditionally(
    bucket: S3Bucket, etags: Mapping[str, str], deleted: KeyOutcome, until: float
) -> dict[str, KeyResult]:
    """Delete each key while it has its ETag.

    Sends requests of many keys where the probe showed that the store respects an ETag per key; otherwise one by one.

    Args:
        bucket: of the vault.
        etags: key → ETag without quotes; empty where it is unknown, and then the object is not deleted.
        deleted: the outcome of a delete in this bucket: DELETED, or HIDDEN in a versioned bucket.
        until: no request begins after this instant, in monotonic seconds.
    """
    probe = bucket.spec.probe
    known = {key: etag for key, etag in etags.items() if etag}
    alone = not (probe and probe.etag_multi)
    replies = with_deleted_as(deleted, delete(bucket, [*known], (), [*known.values()], until, alone=alone))
    results = {
        key: KeyResult(key=key, outcome=KeyOutcome.FAILED, reason=NO_ETAG) for key in etags.keys() - known.keys()
    }
    results |= {reply.key: reply for reply in replies}
    unclear = [reply for reply in replies if reply.outcome in (KeyOutcome.CHANGED, KeyOutcome.ABSENT)]
    explained = run_together(lambda reply: _explain(bucket, known[reply.key], reply), unclear, until)
    return results | {r.key: result or out_of_time(r.key) for r, result in zip(unclear, explained, strict=True)}


def delete_unchanged(
    bucket: S3Bucket, objects: Sequence[Seen], delete_one: Callable[[Seen], KeyResult], until: float
) -> list[KeyResult]:
    """Look up each object just before it is deleted, and delete it if it is the one that was seen.

    ``If-Match`` compares the content alone: no request deletes by the time of the last write (only directory buckets of
    AWS know such a condition).

    Args:
        bucket: of the vault.
        objects: what was seen; one without a last write is not looked up.
        delete_one: deletes one of them.
        until: no request begins after this instant, in monotonic seconds.
    """

    def compare_and_delete(seen: Seen) -> KeyResult:
        if not seen.written:
            return delete_one(seen)
        current = _current(bucket, seen.key)
        if isinstance(current, KeyResult):
            return current
        if seen.etag and current.etag != seen.etag:
            change = f"rewritten since a check saw it: its ETag was {seen.etag} and is {current.etag}"
            return KeyResult(seen.key, KeyOutcome.CHANGED, change)
        if is_rewritten(current.written, seen.written):
            return KeyResult(seen.key, KeyOutcome.CHANGED, rewritten_text(current.written, seen.written))
        return delete_one(seen)

    results = run_together(compare_and_delete, objects, until)
    return [result or out_of_time(seen.key) for result, seen in zip(results, objects, strict=True)]


def head_all(bucket: S3Bucket, keys: Sequence[str]) -> list[ListedObject | None]:
    """Send HEAD for each key, some at once; return the objects in the order of the keys, None where there is none."""
    answers = run_together(lambda key: _head(bucket, key), keys)
    return [answer if isinstance(answer, ListedObject) else None for answer in answers]


def _head(bucket: S3Bucket, key: str) -> ListedObject | KeyResult:
    """Send HEAD for one key. The answer for a missing bucket is the same as for a missing key."""

    def request(via: Transport) -> ListedObject | KeyResult:
        try:
            reply = via.s3.head_object(Bucket=bucket.name, Key=bucket.full(key))
        except ClientError as error:
            if error_of(error)[2] != 404:
                raise
            headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            is_hidden = headers.get("x-amz-delete-marker") == "true"
            return KeyResult(key, KeyOutcome.HIDDEN if is_hidden else KeyOutcome.ABSENT)
        etag, written = reply["ETag"].strip('"'), f"{reply['LastModified']:%Y-%m-%dT%H:%M:%S}"
        return ListedObject(key, reply["ContentLength"], etag, written)

    return bucket.call_with_retries(request)


def _current(bucket: S3Bucket, key: str) -> ListedObject | KeyResult:
    """Return the object that is to be deleted as it is now; the key's result where it is gone, or the store is busy."""
    try:
        return _head(bucket, key)
    except Throttled as busy:
        return throttled(key, busy)


def _explain(bucket: S3Bucket, etag: str, refusal: KeyResult) -> KeyResult:
    """Return the result that a failed precondition means: stores report it for another object, and some for none."""
    current = _current(bucket, refusal.key)
    if isinstance(current, KeyResult):
        return current
    if current.etag == etag:
        reason = f"{refusal.reason}, although its ETag is the resolved one; try: sexton vault probe"
        return KeyResult(refusal.key, KeyOutcome.FAILED, reason)
    reason = f"rewritten since it was resolved: its ETag was {etag} and is {current.etag}"
    return KeyResult(refusal.key, KeyOutcome.CHANGED, reason)
