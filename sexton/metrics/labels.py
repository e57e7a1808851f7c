"""The few words that labels may hold, where reports and counters name each hold, each vault and each error."""

import re

from sexton.marks.model import Reason
from sexton.recycle.model import HELD_BY_OWNER, HELD_BY_VAULT
from sexton.recycle.steps import LIVE, OWNER_BUSY
from sexton.storage.port import NOT_LISTED

OTHER = "other"
HOLDERS = ("hold", "live", "vault", "vault_whitelist", "owner_silent", "owner_busy", OTHER)
"""Who keeps marks: an operator's hold, the owner's live view, a vault's fault, the list of vaults, an owner that could
not be asked, an owner's open transaction."""
REASONS = (*(str(r) for r in Reason), OTHER)
"""Why marks are quarantined."""
_STATUS = re.compile(r"[A-Za-z_]{1,32}")


def holder_class(holder: str) -> str:
    """Return which of ``HOLDERS`` a report's holder is, e.g. ``hold`` for ``hold 17``."""
    if holder.startswith(HELD_BY_VAULT):
        return "vault_whitelist" if holder.endswith(NOT_LISTED) else "vault"
    if holder.startswith(HELD_BY_OWNER):
        return "owner_silent"
    if re.fullmatch(r"hold \d+", holder):
        return "hold"
    return {OWNER_BUSY: "owner_busy", LIVE: "live"}.get(holder, OTHER)


def reason(text: str) -> str:
    """Return which of ``REASONS`` a stored reason is."""
    return text if text in REASONS else OTHER


def status(text: str) -> str:
    """Return a vault's status, ``other`` where it is no plain word."""
    return text if _STATUS.fullmatch(text) else OTHER
