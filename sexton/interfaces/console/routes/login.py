"""Log in with a user's password or with a token, and log out."""

from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from sexton.interfaces.api.caller import source_of
from sexton.interfaces.console import rendering, session
from sexton.interfaces.console.guarded_page import GuardedPage, without_session
from sexton.interfaces.console.visit import CurrentVisit
from sexton.kernel.errors import BadInput, SextonError
from sexton.operators.access.credentials import MAX_PASSWORD
from sexton.operators.access.errors import LoginsBusy, LoginsThrottled, NotAuthorized, Unauthenticated
from sexton.operators.access.login import Logins
from sexton.operators.access.model import Grant

routes = APIRouter(prefix=session.PATH, route_class=GuardedPage)
MAX_NAME = 200


LOST = "Nothing was done: your session had ended. Log in, then do it again."


def address(path: str, query: str, *, lost: bool = False) -> str:
    """Return the address of the login that leads to a page afterwards; ``lost``: a form was sent, and not done."""
    then = f"{path}?{query}" if query else path
    return f"{session.PATH}/login?{urlencode({'then': then} | ({'lost': '1'} if lost else {}))}"


def safe_target(then: str) -> str:
    """Return where a login leads: a page of this console, and nothing else."""
    path, _, query = then.partition("?")
    is_page = path == session.PATH or path.startswith(f"{session.PATH}/")
    if not is_page or "//" in path or "\\" in path or ".." in path or "%" in path or not path.isprintable():
        return session.PATH
    encoded = urlencode(parse_qsl(query))
    return f"{path}?{encoded}" if encoded else path


@routes.get("/login")
@without_session
def form(request: Request, then: str = session.PATH, lost: bool = False) -> Response:
    """Show the login."""
    return _login(request, then, LOST if lost else "", 200)


@routes.post("/login")
@without_session
def login(request: Request) -> Response:
    """Begin a session."""
    fields = request.state.form
    try:
        token = _token(request, fields)
    except (NotAuthorized, LoginsThrottled, LoginsBusy, Unauthenticated, BadInput) as e:
        return _login(request, fields.get("then", ""), _explain(e), 401)
    answer = RedirectResponse(safe_target(fields.get("then", "")), 303, rendering.HEADERS)
    session.begin(request, answer, token)
    return answer


@routes.post("/logout")
def logout(visit: CurrentVisit) -> Response:
    """End the session; the token of a login is revoked, one of `sexton token create` stays valid."""
    tokens = visit.service.stores.tokens
    token, _ = tokens.authenticate(session.authorization(session.session_of(visit.request)))
    if token.of_user is not None:
        tokens.revoke(token.id, visit.caller.name)
    answer = RedirectResponse(f"{session.PATH}/login", 303, rendering.HEADERS)
    session.end(visit.request, answer)
    return answer


def _token(request: Request, fields: dict[str, str]) -> str:
    if token := fields.get("token", ""):
        known, _ = request.app.state.service.stores.tokens.authenticate(f"Bearer {token}")
        if known.scope.grant in (Grant.SYNC, Grant.NODE):
            raise BadInput("this is the token of a job or a node, which sees no page; use one of a person")
        return token
    user, password = fields.get("user", ""), fields.get("password", "")
    if not user or not password or len(user) > MAX_NAME or len(password) > MAX_PASSWORD:
        raise BadInput("write a user and the password, or a token")
    logins: Logins = request.app.state.logins
    return logins.login(user, password, source_of(request), None, session.SESSION_SECONDS)[1]


def _explain(error: SextonError) -> str:
    return "unknown user or wrong password" if isinstance(error, NotAuthorized) else str(error)


def _login(request: Request, then: str, problem: str, status: int) -> Response:
    known = session.session_of(request)
    forms = known.forms or session.new_forms_secret()
    values = {"then": safe_target(then), "problem": problem, "form_token": known._replace(forms=forms).form_token}
    answer = rendering.page(request, "login.html", values, status)
    answer.headers["Cache-Control"] = "no-store"
    if not known.forms:
        session.prepare_login(request, answer, forms)
    return answer
