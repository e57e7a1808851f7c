"""The fixed values of labels. Reports and counters name each hold, vault and error; labels only their classes."""

import re

from sexton.marks.keepers import KeepReason
from sexton.marks.model import Reason

OTHER = "other"
HOLDERS = tuple(str(k) for k in KeepReason)
"""Why marks are kept: the values of the label ``holder``."""
REASONS = (*(str(r) for r in Reason), OTHER)
"""Why marks are quarantined."""
STATES = ("bad", "gap", "missing", "crossing", "stale", "full_copy_by_limit", "full_copy_by_person")
"""The problems of a replica."""
OUTCOMES = ("quarantined", "failed", "unknown", OTHER)
"""A backend's answer about a replica whose binlogs it could not delete."""
_STATUS = re.compile(r"[A-Za-z_]{1,32}")


def reason(text: str) -> str:
    """Return which of ``REASONS`` a stored reason is."""
    return text if text in REASONS else OTHER


def status(text: str) -> str:
    """Return a vault's status, ``other`` where it is no plain word."""
    return text if _STATUS.fullmatch(text) else OTHER
