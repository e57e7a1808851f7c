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


class Keeper(StrEnum):
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


FAULTS = (Keeper.VAULT, Keeper.OWNER_SILENT, Keeper.PROTECTION_UNREADABLE)
"""Keepers of which somebody must know: a vault not proved, an owner or a protection that could not be asked."""

PROTECTED = (Keeper.PROTECTION, Keeper.PROTECTION_UNREADABLE)
"""Keepers that are sync jobs."""


def approval(plan: int) -> str:
    """Return how a round names a plan that waits for a person."""
    return f"{_APPROVAL}{plan}"


def keeper(name: str) -> Keeper:
    """Return the class of what a round named, e.g. ``hold`` for ``hold 17``."""
    if name.startswith(HELD_BY_VAULT):
        return Keeper.VAULT_WHITELIST if name.endswith(NOT_LISTED) else Keeper.VAULT
    if re.fullmatch(r"hold \d+", name):
        return Keeper.HOLD
    for start, found in (
        (PROTECTION, Keeper.PROTECTION),
        (UNREADABLE, Keeper.PROTECTION_UNREADABLE),
        (HELD_BY_OWNER, Keeper.OWNER_SILENT),
        (_IN_USE, Keeper.IN_USE),
        (_APPROVAL, Keeper.APPROVAL),
        (QUARANTINED, Keeper.QUARANTINED),
        (UNKNOWN_KIND, Keeper.UNKNOWN_KIND),
        (REPLICA, Keeper.REPLICA),
        (_WAITS, Keeper.WAITS),
        (BELOW, Keeper.WAITS),
    ):
        if name.startswith(start):
            return found
    return {OWNER_BUSY: Keeper.OWNER_BUSY, LIVE: Keeper.LIVE, BY_LIMIT: Keeper.LIMIT}.get(name, Keeper.OTHER)


def is_fault(name: str) -> bool:
    """Return whether somebody must look at a keeper; an operator's list is no fault."""
    return keeper(name) in FAULTS


def way_out(name: str, instance: str) -> str:
    """Return what to do about a keeper that a round met; empty where its name says enough."""
    return {
        Keeper.VAULT_WHITELIST: "sexton lists show vaults",
        Keeper.VAULT: f"sexton vault list {instance}",
        Keeper.QUARANTINED: f"sexton quarantine list {instance}",
        Keeper.OWNER_BUSY: "it goes when the owner's transaction ends",
        Keeper.OWNER_SILENT: "sexton doctor",
        Keeper.UNKNOWN_KIND: "set kinds.NAME.retention_seconds",
        Keeper.APPROVAL: f"sexton apply {name.removeprefix(_APPROVAL)}",
        Keeper.LIMIT: f"the next rounds plan it anew; or at once: sexton plan {instance}, sexton apply PLAN",
        Keeper.WAITS: "it goes in a later round",
        Keeper.REPLICA: "it goes when all copies have it; see: sexton replica list",
        Keeper.PROTECTION_UNREADABLE: "release it, and register it again: sexton protection release JOB",
        Keeper.PROTECTION: f"it goes when its job is finished; see: sexton protection list {instance}",
        Keeper.IN_USE: "it goes when its owner lets it go",
    }.get(keeper(name), "")
