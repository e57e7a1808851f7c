"""What blocks deletion now: everything with its way out; holds are placed and released here."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from starlette.responses import Response

from sexton.interfaces.api.pools import reserved
from sexton.interfaces.api.problems import OtherChange
from sexton.interfaces.console.visit import CurrentVisit, pages
from sexton.kernel.errors import BadInput
from sexton.operations.lists import ListEntry
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.operators.controls.model import ListName

FREES: Mapping[str, str] = {
    ListName.WHITELIST: "rounds may work on every instance",
    ListName.VAULTS: "rounds may delete from every vault",
    ListName.WINDOWS: "rounds may work at any time",
}
"""What an empty list permits."""
SHOWN = 50
PROTECTIONS_SHOWN = 200
SCOPE_OF = {"table": "table", "mark": "mark", "vault": "prefix", "prefix": "prefix"}
"""Field of the form of a hold → the scope that has it."""


@pages.get("/blockers")
def blockers(visit: CurrentVisit, hold: Literal["instance", "table", "mark", "prefix"] = "instance") -> Response:
    """Show what blocks deletions of an instance, or of all; ``hold``: the scope of the hold that may be placed."""
    scope = visit.scope
    listed = visit.ask("blockers", instance=scope)
    holds = visit.ask("hold list", instance=scope, limit=SHOWN)
    protections = visit.ask("protection list", instance=scope).items
    sees_lists = visit.caller.permits(Grant.READ, EVERY_INSTANCE)
    entries: Sequence[ListEntry] = visit.ask("lists show").items if sees_lists else ()
    stored, counts = [entry for entry in entries if entry.removable], Counter(entry.list for entry in entries)
    return visit.about(
        "blockers",
        "sexton blockers",
        blockers=listed.items,
        temporal_away=listed.temporal_away,
        holds=holds.items,
        more_holds=holds.more,
        protections=protections[:PROTECTIONS_SHOWN],
        more_protections=len(protections) > PROTECTIONS_SHOWN,
        may_release=scope is not None and visit.caller.permits(Grant.ADMIN, scope),
        hold=hold,
        kinds=() if scope is None else sorted(visit.service.policy(scope).retention_seconds),
        vaults=() if scope is None else [spec.name for spec in visit.service.stores.registry.vaults(scope)],
        sees_lists=sees_lists,
        entries=entries,
        last_entries=[e for e in stored if e.list in FREES and counts[e.list] == 1],
        frees=FREES,
        lists=list(ListName),
    )


@pages.post("/holds")
@reserved
def place(visit: CurrentVisit) -> Response:
    """Place a hold. Fields of another scope than its own must be empty."""
    scope = visit.form.get("scope", "")
    if scope not in ("instance", *SCOPE_OF.values()):
        raise BadInput("nothing is held yet: choose what is held")
    for name, of_scope in SCOPE_OF.items():
        if of_scope != scope and visit.form.get(name, "").strip():
            raise BadInput(f"nothing is held yet: a hold of this kind has no {name}; empty it, or choose another kind")
    if scope in ("table", "mark") and not visit.form.get(scope):
        raise BadInput(f"nothing is held yet: write the {scope}")
    held = {name: visit.form[name] if scope == name else None for name in ("table", "mark")}
    prefix = f"{visit.form.get('vault', '')}/{visit.form.get('prefix', '')}" if scope == "prefix" else None
    return visit.sent("hold add", "blockers", **held, prefix=prefix)


@pages.post("/protections/release")
@reserved
def release_protection(visit: CurrentVisit) -> Response:
    """End the protection of a job now."""
    visit.caller.require(Grant.ADMIN, visit.instance)
    shown = visit.ask("protection show")
    other = f"{shown.job} has another protection by now than the page showed; look at it again"
    visit.agreed("registered", shown.registered_at, other)
    return visit.sent("protection release", "blockers")


@pages.post("/lists/{what}")
def change_list(visit: CurrentVisit, what: Literal["add", "remove"]) -> Response:
    """Put an entry on a list, or take it off."""
    entries = visit.ask("lists show").items
    frees = FREES.get(visit.form.get("which", ""))
    if what == "remove" and frees and len(entries) == 1 and not visit.form.get("last"):
        raise OtherChange(f"{entries[0].name} is the last entry by now: without it {frees}; look at the list again")
    return visit.sent(f"lists {what}", "blockers")
