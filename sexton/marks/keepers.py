"""Who keeps a mark from going, as a round names it; and which of a few classes each name is of. Pure."""

import re
from enum import StrEnum

from sexton.recycle.model import HELD_BY_OWNER, HELD_BY_VAULT
from sexton.storage.port import NOT_LISTED

LIVE = "live"
"""The owner shows a mark, or anything of its files, as live."""
OWNER_BUSY = "owner's transaction"
"""An owner's open transaction decides about the mark this moment."""
IN_USE = "in use by its owner"
"""The owner answered a fence that it uses the mark."""
BY_LIMIT = "limit of 24 hours"
"""More files than may go unasked within 24 hours; what is left waits for a plan."""
UNKNOWN_KIND = "unknown kind, no retention set"
QUARANTINED = "quarantined: "
BELOW = "a mark below it"
"""A mark that would go with it cannot go yet."""
PROTECTION, UNREADABLE = "protection ", "unreadable protection "
"""How the name of a sync job's protection begins, and of one that may cover anything; its job follows."""
REPLICA = "replica on "
"""How the name begins of a tablet's copy that may still need what a mark holds; its backend follows."""
_APPROVAL, _IN_USE = "approval of plan ", "in use"
_WAITS = "its "
"""How the name begins where something of the mark's own must go first: its children, its rowset."""


class KeepReason(StrEnum):
    """The classes of keepers, as metrics name them."""

    HOLD = "hold"
    PROTECTION = "protection"
    PROTECTION_UNREADABLE = "protection_unreadable"
    LIVE = "live"
    IN_USE = "in_use"
    VAULT = "vault"
    VAULT_WHITELIST = "vault_whitelist"
    OWNER_SILENT = "owner_silent"
    OWNER_BUSY = "owner_busy"
    APPROVAL = "approval"
    LIMIT = "limit"
    REPLICA = "replica"
    WAITS = "waits"
    QUARANTINED = "quarantined"
    UNKNOWN_KIND = "unknown_kind"
    OTHER = "other"


FAULTS = (KeepReason.VAULT, KeepReason.OWNER_SILENT, KeepReason.PROTECTION_UNREADABLE)
"""Keepers of which somebody must know: a vault not proved, an owner or a protection that could not be asked."""

PROTECTED = (KeepReason.PROTECTION, KeepReason.PROTECTION_UNREADABLE)
"""Keepers that are sync jobs."""


def approval(plan: int) -> str:
    """Return how a round names a plan that waits for a person."""
    return f"{_APPROVAL}{plan}"


def keeper(name: str) -> KeepReason:
    """Return the class of what a round named, e.g. ``hold`` for ``hold 17``."""
    if name.startswith(HELD_BY_VAULT):
        return KeepReason.VAULT_WHITELIST if name.endswith(NOT_LISTED) else KeepReason.VAULT
    if re.fullmatch(r"hold \d+", name):
        return KeepReason.HOLD
    for start, found in (
        (PROTECTION, KeepReason.PROTECTION),
        (UNREADABLE, KeepReason.PROTECTION_UNREADABLE),
        (HELD_BY_OWNER, KeepReason.OWNER_SILENT),
        (_IN_USE, KeepReason.IN_USE),
        (_APPROVAL, KeepReason.APPROVAL),
        (QUARANTINED, KeepReason.QUARANTINED),
        (UNKNOWN_KIND, KeepReason.UNKNOWN_KIND),
        (REPLICA, KeepReason.REPLICA),
        (_WAITS, KeepReason.WAITS),
        (BELOW, KeepReason.WAITS),
    ):
        if name.startswith(start):
            return found
    return {OWNER_BUSY: KeepReason.OWNER_BUSY, LIVE: KeepReason.LIVE, BY_LIMIT: KeepReason.LIMIT}.get(
        name, KeepReason.OTHER
    )


def is_fault(name: str) -> bool:
    """Return whether somebody must look at a keeper; an operator's list is no fault."""
    return keeper(name) in FAULTS


def way_out(name: str, instance: str) -> str:
    """Return what to do about a keeper that a round met; empty where its name says enough."""
    return {
        KeepReason.VAULT_WHITELIST: "sexton lists show vaults",
        KeepReason.VAULT: f"sexton vault list {instance}",
        KeepReason.QUARANTINED: f"sexton quarantine list {instance}",
        KeepReason.OWNER_BUSY: "it goes when the owner's transaction ends",
        KeepReason.OWNER_SILENT: "sexton doctor",
        KeepReason.UNKNOWN_KIND: "set kinds.NAME.retention_seconds",
        KeepReason.APPROVAL: f"sexton apply {name.removeprefix(_APPROVAL)}",
        KeepReason.LIMIT: f"the next rounds plan it anew; or at once: sexton plan {instance}, sexton apply PLAN",
        KeepReason.WAITS: "it goes in a later round",
        KeepReason.REPLICA: "it goes when all copies have it; see: sexton replica list",
        KeepReason.PROTECTION_UNREADABLE: "release it, and register it again: sexton protection release JOB",
        KeepReason.PROTECTION: f"it goes when its job is finished; see: sexton protection list {instance}",
        KeepReason.IN_USE: "it goes when its owner lets it go",
    }.get(keeper(name), "")
