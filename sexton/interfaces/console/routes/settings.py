"""Settings: their values and sources, and what another value would change, before it is set."""

from starlette.responses import Response

from config.explain import FOR_ALL, PER_INSTANCE
from sexton.insight.wording import quantity
from sexton.interfaces.console.guarded_page import pages
from sexton.interfaces.console.visit import CurrentVisit, Visit
from sexton.kernel.errors import BadInput
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.runtime import setting_changes
from sexton.runtime.setting_changes import SettingChange

MAX_KEY = MAX_VALUE = 100


@pages.get("/settings")
def settings(visit: CurrentVisit, key: str = "", value: str = "", remove: bool = False) -> Response:
    """Show settings; with a key and a value, also what this value, or its removal, would change."""
    scope = _scope(visit)
    key, value = key.strip()[:MAX_KEY], value.strip()[:MAX_VALUE]
    listed = visit.ask("settings show", instance=scope or None)
    is_asked = key and (value or remove)
    change = (
        visit.ask("settings preview", key=key, value=None if remove else value, instance=scope or None)
        if is_asked
        else None
    )
    return visit.show(
        "settings.html",
        "settings",
        cli=f"sexton settings show{f' --instance {scope}' if scope else ''}",
        scope=scope,
        settings=listed.items,
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


@pages.post("/settings/set")
def set_(visit: CurrentVisit) -> Response:
    """Set a value for all workers."""
    scope, key = _scope(visit), _key(visit)
    value = visit.form.get("value", "")[:MAX_VALUE]
    _check_agreed(visit, key, value, scope)
    change = visit.ask("settings set", instance=scope or None)
    whose = scope or "all instances without a value of their own"
    return visit.done(f"{key} is {value} for {whose}. {_effect(change)}", "settings")


@pages.post("/settings/unset")
def unset(visit: CurrentVisit) -> Response:
    """Remove a value of the database."""
    scope, key = _scope(visit), _key(visit)
    _check_agreed(visit, key, None, scope)
    change = visit.ask("settings unset", instance=scope or None)
    whose = scope or "all instances"
    return visit.done(f"{key} is not set for {whose}: its other sources apply. {_effect(change)}", "settings")


def _check_agreed(visit: Visit, key: str, value: str | None, scope: str) -> None:
    """Raise ``OtherChange`` unless a change is the one that the page showed; another operator may have been faster."""
    visit.caller.require(Grant.OPERATE, scope or EVERY_INSTANCE)
    change = setting_changes.preview(visit.service, key, value, scope)
    other = f"{key} changes something else by now than the page showed; look at what it changes again"
    visit.agreed("agreed", change.fingerprint, other)


def _effect(change: SettingChange) -> str:
    """Return what a change did, in one sentence."""
    due = sum(shift.marks for shift in change.shifts if shift.more)
    less = sum(shift.marks for shift in change.shifts if not shift.more)
    texts = [f"{quantity(due, 'mark')} more will be due"] if due else []
    texts += [f"{quantity(less, 'mark')} less will be due"] if less else []
    return f"Workers use it within 5 s{': ' if texts else ''}{', '.join(texts)}."


def _scope(visit: Visit) -> str:
    """Return the instance that the page is about; empty: all of them, which a caller of one instance does not see."""
    sees_all = visit.caller.permits(Grant.READ, EVERY_INSTANCE)
    return visit.named or "" if sees_all else visit.instance


def _key(visit: Visit) -> str:
    key = visit.form.get("key", "")
    if not 0 < len(key) <= MAX_KEY:
        raise BadInput("the form names no setting; open the page again, then send it")
    return key
