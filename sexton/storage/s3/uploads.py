"""List and abort unfinished multipart uploads: their parts cost space, but no listing of objects shows them.

Each is a ``ListedObject`` of no bytes with the upload's id as ``etag``, and as ``written`` when it was begun.
"""

from collections.abc import Mapping, Sequence
from os.path import commonprefix
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from sexton.storage.model import ListedObject
from sexton.storage.s3.bucket import NOT_ALLOWED_CODES, S3Bucket
from sexton.storage.s3.transport import Transport
from sexton.storage.s3.wire import error_of

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ListMultipartUploadsOutputTypeDef

PAGES = 1_000
"""More pages are over a million uploads under one prefix, which is refused: the writer must stop first."""
NO_MARKERS: Mapping[str, str] = {}


def abort_uploads(bucket: S3Bucket, prefixes: Sequence[str]) -> int:
    """Abort every upload whose key is under one of the prefixes; return how many were aborted.

    Raises:
        VaultFault: the store does not answer, or its listing cannot be complete.
    """
    aborted = 0
    for upload in _uploads_under(bucket, [bucket.full(prefix) for prefix in prefixes]):
        aborted += bucket.call(lambda via, upload=upload: _abort(via, bucket, upload))  # type: ignore[misc]
    return aborted


def begun(bucket: S3Bucket, before: str) -> list[ListedObject]:
    """Return the unfinished uploads of the vault that began up to ``before``; raises as ``abort_uploads``."""
    return [upload for upload in _uploads(bucket, bucket.prefix) if "" < upload.written <= before]


def _abort(via: Transport, bucket: S3Bucket, upload: ListedObject) -> bool:
    try:
        via.s3.abort_multipart_upload(Bucket=bucket.name, Key=bucket.full(upload.key), UploadId=upload.etag)
    except ClientError as error:
        if error_of(error)[0] in ("NoSuchUpload", *NOT_ALLOWED_CODES):
            return False  # finished or aborted meanwhile, or these credentials may not abort it
        raise
    return True


def _uploads_under(bucket: S3Bucket, full_prefixes: Sequence[str]) -> list[ListedObject]:
    """Return all uploads under full prefixes, with one request if all that they have in common is one page."""
    if len(full_prefixes) > 1:
        page, markers = _read_page(bucket, commonprefix(full_prefixes), NO_MARKERS)  # noqa: RUF071 - of texts, not of paths
        if not markers:
            return [upload for upload in page if bucket.full(upload.key).startswith(tuple(full_prefixes))]
    return [upload for full_prefix in full_prefixes for upload in _uploads(bucket, full_prefix)]


def _uploads(bucket: S3Bucket, full_prefix: str) -> list[ListedObject]:
    """Return all uploads under a full prefix; none where the store does not allow to list them."""
    uploads: list[ListedObject] = []
    markers = NO_MARKERS
    for _ in range(PAGES):
        page, markers = _read_page(bucket, full_prefix, markers)
        uploads += page
        if not markers:
            return uploads
    raise bucket.fault("BAD_REPLY", f"there are more than {PAGES:,} pages of uploads under {full_prefix!r}")


def _read_page(
    bucket: S3Bucket, full_prefix: str, markers: Mapping[str, str]
) -> tuple[list[ListedObject], Mapping[str, str]]:
    """Return the uploads of one page, and the markers of the next one; none of them: there is no next page."""
    position = {name: value for name, value in markers.items() if value}

    def request(via: Transport) -> "ListMultipartUploadsOutputTypeDef | None":
        try:
            # Not encoded: SeaweedFS reports that it encodes but does not, and a key decoded wrongly is another key.
            return via.s3.list_multipart_uploads(Bucket=bucket.name, Prefix=full_prefix, **position)  # type: ignore[arg-type]
        except ClientError as error:
            if error_of(error)[0] in NOT_ALLOWED_CODES:
                return None
            raise

    reply = bucket.call_with_retries(request)
    if reply is None:
        return [], NO_MARKERS
    page = reply.get("Uploads", ())
    if not all(upload.get("Key") and upload.get("UploadId") for upload in page) or "IsTruncated" not in reply:
        raise bucket.fault("BAD_REPLY", f"the uploads under {full_prefix!r} are no ListMultipartUploads page")
    uploads = [
        ListedObject(
            bucket.relative(upload["Key"]),
            0,
            upload["UploadId"],
            f"{upload['Initiated']:%Y-%m-%dT%H:%M:%S}" if "Initiated" in upload else "",
        )
        for upload in page
        if upload["Key"].startswith(full_prefix)  # a store may ignore it
    ]
    if not reply.get("IsTruncated"):
        return uploads, NO_MARKERS
    next_ = {"KeyMarker": reply.get("NextKeyMarker", ""), "UploadIdMarker": reply.get("NextUploadIdMarker", "")}
    if not next_["KeyMarker"] or next_ == markers:
        detail = f"the uploads under {full_prefix!r} are truncated, but have no marker of the next page"
        raise bucket.fault("BAD_REPLY", detail)
    return uploads, next_
