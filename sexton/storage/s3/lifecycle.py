"""Read how long a bucket's lifecycle rules keep old versions, that is how long a delete can be undone."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sexton.storage.s3.bucket import NOT_ALLOWED_CODES, S3Bucket
from sexton.storage.s3.wire import error_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NO_RULES = ("NoSuchLifecycleConfiguration", "NoSuchLifecycle")


def versions_days(bucket: S3Bucket) -> int | None:
    """Return after how many days a version that is no longer the newest is removed.

    None: never, or there are no versions, or the store does not report its rules. A rule for some objects only, by tag
    or size, counts as a rule for all.
    """

    def request(s3: "S3Client") -> list[Any]:
        try:
            return list(s3.get_bucket_lifecycle_configuration(Bucket=bucket.name).get("Rules", ()))
        except ClientError as error:
            if error_of(error)[0] in (*NO_RULES, *NOT_ALLOWED_CODES):
                return []
            raise

    if not bucket.versioning():
        return None
    days = [
        rule["NoncurrentVersionExpiration"]["NoncurrentDays"]
        for rule in bucket.call_with_retries(request)
        if rule.get("Status") == "Enabled"
        and rule.get("NoncurrentVersionExpiration", {}).get("NoncurrentDays")
        and _overlap(_prefix(rule), bucket.prefix)
    ]
    return min(days, default=None)


def _prefix(rule: Mapping[str, Any]) -> str:
    rule_filter = rule.get("Filter") or {}
    return str(rule_filter.get("Prefix") or rule_filter.get("And", {}).get("Prefix") or rule.get("Prefix") or "")


def _overlap(prefix: str, other: str) -> bool:
    """Tell whether a key may begin with both prefixes."""
    return prefix.startswith(other) or other.startswith(prefix)
