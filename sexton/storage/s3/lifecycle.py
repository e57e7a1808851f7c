"""What a bucket's own rules do to versions: for how long what was deleted can still be shown again."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sexton.storage.s3.bucket import UNTOLD, S3Bucket
from sexton.storage.s3.wire import error_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NO_RULES = ("NoSuchLifecycleConfiguration", "NoSuchLifecycle")


def versions_days(bucket: S3Bucket) -> int | None:
    """Return after how many days a version that is no longer the newest is removed.

    None: never, or there are no versions, or the store does not tell. A rule for some objects alone, by tag or size,
    counts as one for all of them.
    """

    def request(s3: "S3Client") -> list[Any]:
        try:
            return list(s3.get_bucket_lifecycle_configuration(Bucket=bucket.name).get("Rules", ()))
        except ClientError as error:
            if error_of(error)[0] in (*NO_RULES, *UNTOLD):
                return []
            raise

    if not bucket.versioning():
        return None
    days = [
        rule["NoncurrentVersionExpiration"]["NoncurrentDays"]
        for rule in bucket.ask(request)
        if rule.get("Status") == "Enabled"
        and rule.get("NoncurrentVersionExpiration", {}).get("NoncurrentDays")
        and _meets(_prefix(rule), bucket.prefix)
    ]
    return min(days, default=None)


def _prefix(rule: Mapping[str, Any]) -> str:
    given = rule.get("Filter") or {}
    return str(given.get("Prefix") or given.get("And", {}).get("Prefix") or rule.get("Prefix") or "")


def _meets(one: str, other: str) -> bool:
    """Tell whether keys may begin with both."""
    return one.startswith(other) or other.startswith(one)
