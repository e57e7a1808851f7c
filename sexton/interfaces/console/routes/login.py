"""Log in with a token of Sexton or of the issuer, and log out."""

import secrets
from urllib.parse import parse_qsl, urlencode

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from sexton.interfaces.console import rendering, session
from sexton.interfaces.console.visit import CurrentVisit, pages
from sexton.kernel.errors import BadInput
from sexton.operators.access.model import Forbidden, Grant, IssuerAway, Unauthenticated

MAX_TOKEN = 4_000
"""Characters: a browser drops a cookie above 4,096 bytes."""


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


@pages.get("/login")
def form(request: Request, then: str = session.PATH, lost: bool = False) -> Response:
    """Show the login."""
    return _login(request, then, LOST if lost else "", 200)


@pages.post("/login")
async def login(request: Request) -> Response:
    """Begin a session with a token, of Sexton or of the issuer, with which a person may log in."""
    fields = request.state.form
    try:
        token = fields.get("token", "")
        if not token:
            raise BadInput("write a token")
        if len(token) > MAX_TOKEN:
            raise BadInput(
                f"this token has more than {MAX_TOKEN:,} characters, and a browser keeps none of that length"
            )
        identity = await request.app.state.verifier.authenticate(f"Bearer {token}")
        if all(scope.grant in (Grant.SYNC, Grant.NODE, Grant.COMMIT) for scope in identity.scopes):
            raise BadInput("this is the token of a job or a node, which sees no page; use one of a person")
    except (Unauthenticated, Forbidden, IssuerAway, BadInput) as e:
        return _login(request, fields.get("then", ""), str(e), 401)
    answer = RedirectResponse(safe_target(fields.get("then", "")), 303, rendering.HEADERS)
    session.begin(request, answer, token)
    return answer


@pages.post("/logout")
def logout(visit: CurrentVisit) -> Response:
    """End the session. The token stays valid."""
    answer = RedirectResponse(f"{session.PATH}/login", 303, rendering.HEADERS)
    session.end(visit.request, answer)
    return answer


def _login(request: Request, then: str, problem: str, status: int) -> Response:
    known = session.session_of(request)
    forms = known.forms or secrets.token_urlsafe()
    issuer = request.app.state.service.settings.oidc.issuer
    values = {
        "then": safe_target(then),
        "problem": problem,
        "issuer": issuer,
        "form_token": known._replace(forms=forms).form_token,
    }
    answer = rendering.page(request, "login.html", values, status)
    answer.headers["Cache-Control"] = "no-store"
    if not known.forms:
        session.prepare_login(request, answer, forms)
    return answer
