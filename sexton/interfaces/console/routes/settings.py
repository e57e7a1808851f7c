"""Settings: their values and sources, and what another value would change, before it is set."""

from fastapi import APIRouter
from starlette.responses import Response

from config.mutable import FOR_ALL, PER_INSTANCE
from sexton.interfaces.api.routes import settings as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit, Visit
from sexton.kernel.errors import BadInput
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.protocol.settings import NewSetting

routes = APIRouter(prefix=f"{session.PATH}/settings", route_class=GuardedPage)
MAX_KEY = MAX_VALUE = 100


@routes.get("")
def settings(visit: CurrentVisit, key: str = "", value: str = "") -> Response:
    """Show settings; with a key and a value, also what this value would change."""
    scope = _scope(visit)
    key, value = key.strip()[:MAX_KEY], value.strip()[:MAX_VALUE]
    listed = api.settings(visit.service, visit.caller, scope)
    change = api.preview(key, visit.service, visit.caller, value, scope) if key and value else None
    return visit.show(
        "settings.html",
        "settings",
        cli=f"sexton settings show{f' --instance {scope}' if scope else ''}",
        scope=scope,
        settings=listed.settings,
        ignored=listed.ignored,
        stored=[row for row in visit.service.live.rows() if row.instance == scope],
        keys=sorted(PER_INSTANCE if scope else PER_INSTANCE | FOR_ALL),
        change=change,
        key=key,
        value=value,
        may_set=visit.caller.permits(Grant.OPERATE, scope or EVERY_INSTANCE),
    )


@routes.post("/set")
def set_(visit: CurrentVisit) -> Response:
    """Set a value for all workers."""
    scope, key = _scope(visit), _key(visit)
    body = visit.read(NewSetting)
    api.set_(key, body, visit.service, visit.caller, scope)
    return visit.done(f"{key} is {body.value} for {scope or 'all instances'}. Workers use it within 5 s.", "settings")


@routes.post("/unset")
def unset(visit: CurrentVisit) -> Response:
    """Remove a value of the database."""
    scope, key = _scope(visit), _key(visit)
    api.unset(key, visit.service, visit.caller, scope)
    return visit.done(f"{key} is no longer set for {scope or 'all instances'}: its other sources apply.", "settings")


def _scope(visit: Visit) -> str:
    """Return the instance that the page is about; empty: all of them, which a caller of one instance does not see."""
    sees_all = visit.caller.permits(Grant.READ, EVERY_INSTANCE)
    return visit.named or "" if sees_all else visit.instance


def _key(visit: Visit) -> str:
    key = visit.form.get("key", "")
    if not 0 < len(key) <= MAX_KEY:
        raise BadInput("the form names no setting; open the page again, then send it")
    return key
