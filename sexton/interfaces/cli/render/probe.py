"""How a probe is printed: what was tried, what was seen, and what follows from it."""

from typing import TYPE_CHECKING

from sexton.interfaces.cli.output import when

if TYPE_CHECKING:
    from sexton.storage.model import Probe

_MEANS = {
    "per_key_errors": ("errors per key", "a refused key does not hold back the others of its request"),
    "quiet": ("quiet deletes", "replies name only what failed"),
    "tells_absent": ("tells what is missing", "if no: a missing key is counted as deleted"),
    "etag_single": ("If-Match, one delete", "--conditional works, a request for each object"),
    "etag_multi": ("ETags in one request", "--conditional works, 1,000 objects in a request"),
    "versions": ("versions go by id", "--versions purge works"),
    "versions_paging": ("pages of versions whole", "if no: versions are listed in smaller parts, each in one page"),
    "paging": ("small pages are complete", "if no: its listings leave objects out, ask its maker"),
    "start_after": ("start-after", "a listing can begin anywhere"),
    "encoding_type": ("odd keys are listed", "keys with control characters are found"),
    "wrong_credentials_refused": ("wrong secret refused", "if no: anybody may read or write it"),
}
_VERSIONING = {
    "": "not versioned: what is deleted is gone",
    "Enabled": "versioned: deletes hide (keep), or remove every version (purge)",
    "Suspended": "versioned before: deletes hide what has versions",
    "not told": "the store does not tell: bytes are counted as freed",
}
_ORDER = {"byte": "as S3 says", "path": "it keeps a tree", "other": "no order is known", None: ""}


def features(probe: "Probe") -> list[tuple[str, str, str]]:
    """Return the rows of a table: feature, seen, meaning."""
    rows: list[tuple[str, str, str]] = [("versioning", probe.versioning or "off", _VERSIONING[probe.versioning])]
    rows += [(title, _said(getattr(probe, name)), meaning) for name, (title, meaning) in _MEANS.items()]
    rows.append(("order of listings", probe.order or "not tried", _ORDER[probe.order]))
    if probe.left:
        rows.append(("left behind", str(probe.left), "versions of the probe's files that it may not delete"))
    return [*rows, ("probed", when(probe.at), "")]


def _said(seen: bool | None) -> str:
    return "not tried" if seen is None else "yes" if seen else "no"
