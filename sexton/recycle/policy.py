"""When a mark is due, pure: ``now`` is an argument."""

import hashlib
import json
from collections.abc import Mapping

from sexton.recycle.model import Policy


def policy(retention_seconds: Mapping[str, int], upload_grace_seconds: int) -> Policy:
    """Return the policy of these settings; its version is a digest, so equal settings have equal versions."""
    retention = dict(sorted(retention_seconds.items()))
    text = json.dumps([retention, upload_grace_seconds])
    version = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Policy(version=version, retention_seconds=retention, upload_grace_seconds=upload_grace_seconds)


def cutoff(kind: str, policy: Policy, now: int) -> int | None:
    """Return the latest ``coalesce(expires_at, marked_at)`` that is due at ``now``, or None for an unknown kind.

    A mark is due when that instant plus its retention is not after now; an unknown kind has none: kept.
    """
    retention = policy.retention_seconds.get(kind)
    return None if retention is None else now - retention * 1000
