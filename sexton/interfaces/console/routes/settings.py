"""Settings: their values and sources, and what another value would change, before it is set."""

from typing import Literal

from starlette.responses import Response

from config.explain import FOR_ALL, PER_INSTANCE, SettingRow
from sexton.interfaces.console.visit import CurrentVisit, Visit, pages
from sexton.operators.access.model import EVERY_INSTANCE, Grant

MAX_KEY = MAX_VALUE = 100


@pages.get("/settings")
def settings(visit: CurrentVisit, key: str = "", value: str = "", remove: bool = False, q: str = "") -> Response:
    """Show settings, or those with ``q`` in their keys; with a key and a value, also what that would change."""
    scope = _scope(visit)
    key, value = key.strip()[:MAX_KEY], value.strip()[:MAX_VALUE]
    listed = visit.ask("settings show", instance=scope or None)
    sections: dict[str, list[SettingRow]] = {}
    for row in listed.items:
        if q.strip().lower().replace(" ", "_") in row.key.lower():
            sections.setdefault(row.key.partition(".")[0] if "." in row.key else "general", []).append(row)
    change = None
    if key and (value or remove):
        change = visit.ask("settings preview", key=key, value=None if remove else value, instance=scope or None)
    return visit.show(
        "settings.html",
        "settings",
        cli=f"sexton settings show{f' --instance {scope}' if scope else ''}",
        scope=scope,
        sections=sections,
        q=q,
        ignored=listed.ignored,
        stored=[row for row in visit.service.live.rows() if row.instance == scope],
        keys=sorted(PER_INSTANCE if scope else PER_INSTANCE | FOR_ALL),
        change=change,
        key=key,
        value=value,
        remove=remove,
        of_marks=key not in FOR_ALL,
        may_set=visit.caller.permits(Grant.OPERATE, scope or EVERY_INSTANCE),
    )


@pages.post("/settings/{what}")
def change(visit: CurrentVisit, what: Literal["set", "unset"]) -> Response:
    """Set a value for all workers, or remove it from the database, if that changes what the page showed."""
    scope = _scope(visit)
    visit.caller.require(Grant.OPERATE, scope or EVERY_INSTANCE)
    value = visit.form.get("value", "") if what == "set" else None
    seen = visit.ask("settings preview", value=value, instance=scope or None)
    other = f"{seen.key} changes something else by now than the page showed; look at what it changes again"
    visit.agreed("agreed", seen.fingerprint, other)
    return visit.sent(f"settings {what}", "settings", instance=scope or None)


def _scope(visit: Visit) -> str:
    """Return the instance that the page is about; empty: all of them, which a caller of one instance does not see."""
    sees_all = visit.caller.permits(Grant.READ, EVERY_INSTANCE)
    return visit.named or "" if sees_all else visit.instance
