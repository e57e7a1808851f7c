"""Show the result of a probe: what was tried, what was observed, and what follows from it."""

from typing import TYPE_CHECKING

from sexton.insight.wording import utc

if TYPE_CHECKING:
    from sexton.storage.model import Probe

FEATURES = {
    "per_key_errors": ("errors per key", "a refused key does not hold back the others of its request"),
    "quiet": ("quiet deletes", "replies name only the keys that failed"),
    "tells_absent": ("reports missing keys", "if no: a missing key is counted as deleted"),
    "etag_single": ("If-Match, one delete", "--conditional works, with one request per object"),
    "etag_multi": ("ETags in one request", "--conditional works, with 1,000 objects in a request"),
    "versions": ("deletes versions by id", "--versions purge works"),
    "versions_paging": ("complete version pages", "if no: versions are listed in smaller parts, each in one page"),
    "paging": ("complete small pages", "if no: its listings leave objects out; ask its vendor"),
    "start_after": ("start-after", "a listing can begin anywhere"),
    "encoding_type": ("lists unusual keys", "keys with control characters are found"),
    "wrong_credentials_refused": ("wrong secret refused", "if no: everyone can read or write it"),
}
"""Field of the probe → its title and its meaning."""
VERSIONING = {
    "": "not versioned: deleted objects cannot be restored",
    "Enabled": "versioned: deletes hide (keep), or remove every version (purge)",
    "Suspended": "suspended: what was written since is deleted for good; deletes hide older versions",
    "not told": "the store does not report it: bytes are counted as freed",
}
LOCKS = {
    "": "the store does not report it, or these credentials may not read it",
    "off": "no version can be locked",
    "on": "versions may be locked one by one; a locked one stays, its mark is quarantined",
}
BY_DEFAULT_LOCKED = "every new version is locked; purging one before that time fails, its mark is quarantined"
ORDERS = {"byte": "as S3 specifies", "path": "the store keeps a tree", "other": "no known order", None: ""}


def feature_rows(probe: "Probe") -> list[tuple[str, str, str]]:
    """Return the rows of a table: feature, observation, meaning."""
    rows: list[tuple[str, str, str]] = [("versioning", probe.versioning or "off", VERSIONING[probe.versioning])]
    rows.append(("object lock", probe.object_lock or "not reported", LOCKS.get(probe.object_lock, BY_DEFAULT_LOCKED)))
    seen = {None: "not tried", True: "yes", False: "no"}
    rows += [(title, seen[getattr(probe, name)], meaning) for name, (title, meaning) in FEATURES.items()]
    rows.append(("order of listings", probe.order or "not tried", ORDERS[probe.order]))
    if probe.left:
        rows.append(("left behind", str(probe.left), "versions of the probe's files that it may not delete"))
    return [*rows, ("probed", utc(probe.at), "")]
