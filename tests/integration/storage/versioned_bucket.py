"""A versioned bucket, and its remaining versions key by key."""

from collections.abc import Sequence

from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.places import Bucket


def set_versioning(place: Bucket, status: str) -> None:
    """Set a bucket's versioning to Enabled or Suspended."""
    place.client.put_bucket_versioning(Bucket=place.name, VersioningConfiguration={"Status": status})  # type: ignore[typeddict-item]


def remaining_versions(place: Bucket, prefix: str = "") -> dict[str, tuple[int, int]]:
    """Return key → (versions, delete markers) of what the bucket still holds."""
    reply = place.client.list_object_versions(Bucket=place.name, Prefix=prefix)
    keys = [*(v["Key"] for v in reply.get("Versions", ())), *(m["Key"] for m in reply.get("DeleteMarkers", ()))]
    count = {
        key: (
            sum(v["Key"] == key for v in reply.get("Versions", ())),
            sum(m["Key"] == key for m in reply.get("DeleteMarkers", ())),
        )
        for key in keys
    }
    assert not reply["IsTruncated"]
    return count


def outcomes(results: Sequence[KeyResult]) -> list[tuple[KeyOutcome, int | None]]:
    """Return the outcome and the bytes of each key."""
    return [(result.outcome, result.bytes) for result in results]
