"""What blocks deletion now: everything with its way out; holds are placed and released here."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from starlette.responses import Response

from sexton.insight.wording import UNCOUNTED, blocks_deep, covers_nothing, quantity
from sexton.interfaces.api.pools import reserved
from sexton.interfaces.api.problems import OtherChange
from sexton.interfaces.console.guarded_page import pages
from sexton.interfaces.console.visit import CurrentVisit, Visit
from sexton.kernel.errors import BadInput
from sexton.operations.holds import PlacedHold
from sexton.operations.lists import ListEntry
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.operators.controls.model import ListName

FREES = {
    ListName.WHITELIST: "rounds may work on every instance",
    ListName.VAULTS: "rounds may delete from every vault",
    ListName.WINDOWS: "rounds may work at any time",
}
"""What an empty list permits."""
SHOWN = 50
DAY_SECONDS, MAX_DAYS, MAX_JOB = 86_400, 3_650, 4_096
PROTECTIONS_SHOWN = 200
SCOPE_OF = {"mark": "mark", "vault": "prefix", "prefix": "prefix"}
"""Field of the form of a hold → the scope that has it."""
DAYS = re.compile(r"[1-9][0-9]{0,3}")


@pages.get("/blockers")
def blockers(visit: CurrentVisit) -> Response:
    """Show what blocks deletions of an instance."""
    listed = visit.ask("blockers", instance=visit.instance)
    holds = visit.ask("hold list", instance=visit.instance, limit=SHOWN)
    protections = visit.ask("protection list", instance=visit.instance).items
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
        may_release=visit.caller.permits(Grant.ADMIN, visit.instance),
        sees_lists=sees_lists,
        entries=entries,
        last_entries=[e for e in stored if e.list in FREES and counts[e.list] == 1],
        frees=FREES,
        lists=list(ListName),
    )


@pages.post("/holds")
@reserved
def place(visit: CurrentVisit) -> Response:
    """Place a hold."""
    days = visit.form.get("days", "")
    if not DAYS.fullmatch(days) or int(days) > MAX_DAYS:
        raise BadInput("write for how many days the hold lasts: 1 to 3,650")
    placed = visit.ask("hold add", seconds=int(days) * DAY_SECONDS, **_held(visit))
    covers, warns = coverage_text(placed)
    text = f"Hold {placed.hold.id} is placed. {covers} It blocks {placed.hold.what}."
    return visit.done(text, "blockers", warns=warns)


def coverage_text(placed: PlacedHold) -> tuple[str, bool]:
    """Return what a new hold covers, in sentences, and whether that may not be what its operator meant. Pure."""
    warns = placed.matches_now is None or placed.too_late > 0
    if placed.matches_now is None:
        text = f"But {UNCOUNTED}."
    elif placed.matches_now == 0 and placed.hold.scope != "instance":
        text, warns = f"But {covers_nothing(placed.hold, placed.may_block or 0)}.", True
    else:
        text = f"It covers {quantity(placed.matches_now, 'mark')} now."
    if many_levels := (placed.blocks_now or 0) - (placed.matches_now or 0):
        text += f" It also blocks {blocks_deep(many_levels)}."
    if placed.too_late:
        text += (
            f" Too late for {quantity(placed.too_late, 'mark')}, claimed before: their files are deleted all the same, "
            "now or when deletion starts again."
        )
    return text, warns


def _held(visit: Visit) -> Mapping[str, str | None]:
    """Return what a form holds; it has the fields of every scope, and those of others must be empty."""
    scope = visit.form.get("scope", "")
    if scope not in ("instance", *SCOPE_OF.values()):
        raise BadInput("nothing is held yet: choose what is held")
    for name, of_scope in SCOPE_OF.items():
        if of_scope != scope and visit.form.get(name, "").strip():
            raise BadInput(f"nothing is held yet: a hold of this kind has no {name}; empty it, or choose another kind")
    if scope == "mark" and not visit.form.get("mark"):
        raise BadInput("nothing is held yet: write the mark, as KIND/ID")
    return {
        "table": None,
        "mark": visit.form["mark"] if scope == "mark" else None,
        "prefix": f"{visit.form.get('vault', '')}/{visit.form.get('prefix', '')}" if scope == "prefix" else None,
    }


@pages.post("/protections/release")
@reserved
def release_protection(visit: CurrentVisit) -> Response:
    """End the protection of a job now."""
    job = visit.form.get("job", "")
    if not 0 < len(job) <= MAX_JOB:
        raise BadInput("the form names no job; open the page again, then send it")
    visit.caller.require(Grant.ADMIN, visit.instance)
    shown = visit.ask("protection show")
    other = f"{job} has another protection by now than the page showed; look at it again"
    visit.agreed("registered", shown.registered_at, other)
    released = visit.ask("protection release")
    return visit.done(f"The protection of {released.job} has ended: it protects nothing any longer.", "blockers")


@pages.post("/lists/{what}")
def change_list(visit: CurrentVisit, what: Literal["add", "remove"]) -> Response:
    """Put an entry on a list, or take it off."""
    name = next((known for known in ListName if known == visit.form.get("list", "")), None)
    if name is None:
        raise BadInput(f"there is no such list; one of: {', '.join(ListName)}")
    of_list = list(visit.ask("lists show", which=name).items)
    if what == "remove" and name in FREES and len(of_list) == 1 and not visit.form.get("last"):
        raise OtherChange(
            f"{of_list[0].name} is the last entry by now: without it {FREES[name]}; look at the list again"
        )
    changed = visit.ask(f"lists {what}", which=name)
    done = "is on" if changed.listed else "is no longer on"
    is_empty = name in FREES and changed.is_empty
    frees = f", which is empty now: {FREES[name]}" if is_empty else ""
    return visit.done(f"{changed.name} {done} the list {name}{frees}. Rounds follow it within 5 s.", "blockers")
