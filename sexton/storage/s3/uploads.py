"""Unfinished multipart uploads: parts that no listing of objects shows, and that are paid for."""

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from sexton.storage.model import Listed
from sexton.storage.s3.bucket import UNTOLD, S3Bucket
from sexton.storage.s3.wire import error_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListMultipartUploadsOutputTypeDef, MultipartUploadTypeDef

PAGES = 1_000
"""More than a million uploads under one prefix: whoever made them is to stop first."""


def abort_uploads(bucket: S3Bucket, prefix: str) -> int:
    """Abort every upload whose key is under a prefix; return how many were aborted.

    Raises:
        VaultFault: the store does not answer, or its listing cannot be complete.
    """
    aborted = 0
    for key, upload, _ in _uploads(bucket, bucket.full(prefix)):
        aborted += bucket.call(lambda s3, key=key, upload=upload: _abort(s3, bucket.name, key, upload))  # type: ignore[misc]
    return aborted


def begun(bucket: S3Bucket, before: str) -> list[Listed]:
    """Return the unfinished uploads of the vault that were begun up to then; raises as ``abort_uploads``."""
    found = _uploads(bucket, bucket.prefix)
    return [Listed(bucket.own(key), 0, upload, at) for key, upload, at in found if "" < at <= before]


def _abort(s3: "S3Client", bucket: str, key: str, upload: str) -> bool:
    try:
        s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
    except ClientError as error:
        if error_of(error)[0] in ("NoSuchUpload", *UNTOLD):
            return False  # finished or aborted meanwhile, or not ours to abort
        raise
    return True


def _uploads(bucket: S3Bucket, prefix: str) -> list[tuple[str, str, str]]:
    """Return (full key, upload id) of all uploads under a full prefix; none where the store does not let us see."""
    found: list[tuple[str, str, str]] = []
    after = {"KeyMarker": "", "UploadIdMarker": ""}
    for _ in range(PAGES):
        reply = bucket.ask(lambda s3, after=after: _page(s3, bucket.name, prefix, after))  # type: ignore[misc]
        if reply is None:
            return found
        named = [(u.get("Key", ""), u.get("UploadId", ""), _when(u)) for u in reply.get("Uploads", ())]
        if not all(key and id_ for key, id_, _ in named) or "IsTruncated" not in reply:
            raise bucket.fault("BAD_REPLY", f"the uploads under {prefix!r} are no ListMultipartUploads page")
        found += [its for its in named if its[0].startswith(prefix)]  # a store may not read the prefix
        if not reply.get("IsTruncated"):
            return found
        onward = {"KeyMarker": reply.get("NextKeyMarker", ""), "UploadIdMarker": reply.get("NextUploadIdMarker", "")}
        if not onward["KeyMarker"] or onward == after:
            raise bucket.fault("BAD_REPLY", f"the uploads under {prefix!r} are truncated without a way to go on")
        after = onward
    raise bucket.fault("BAD_REPLY", f"there are more than {PAGES:,} pages of uploads under {prefix!r}")


def _when(upload: "MultipartUploadTypeDef") -> str:
    """Return when it was begun, as ``Listed.written``."""
    return f"{upload['Initiated']:%Y-%m-%dT%H:%M:%S}" if "Initiated" in upload else ""


def _page(
    s3: "S3Client", bucket: str, prefix: str, after: dict[str, str]
) -> "ListMultipartUploadsOutputTypeDef | None":
    where = {name: value for name, value in after.items() if value}
    try:
        # Not encoded: SeaweedFS says that it encodes and does not, and a key decoded wrongly is another key.
        return s3.list_multipart_uploads(Bucket=bucket, Prefix=prefix, **where)  # type: ignore[arg-type]
    except ClientError as error:
        if error_of(error)[0] in UNTOLD:
            return None
        raise
