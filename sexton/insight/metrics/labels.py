"""The few words that labels may hold, where reports and counters name each hold, each vault and each error."""

import re

from sexton.marks.keepers import KeepReason
from sexton.marks.model import Reason

OTHER = "other"
HOLDERS = tuple(str(k) for k in KeepReason)
"""Who keeps marks."""
REASONS = (*(str(r) for r in Reason), OTHER)
"""Why marks are quarantined."""
STATES = ("bad", "gap", "missing", "crossing", "stale", "full_copy_by_limit", "full_copy_by_person")
"""What may be the matter with a copy of a tablet."""
OUTCOMES = ("quarantined", "failed", "unknown", OTHER)
"""What a backend tells of a copy whose binlogs it could not let go."""
_STATUS = re.compile(r"[A-Za-z_]{1,32}")


def reason(text: str) -> str:
    """Return which of ``REASONS`` a stored reason is."""
    return text if text in REASONS else OTHER


def status(text: str) -> str:
    """Return a vault's status, ``other`` where it is no plain word."""
    return text if _STATUS.fullmatch(text) else OTHER
