"""Sessions of browsers: a cookie with the token of the login, and form tokens that only its own pages know."""

import base64
import hashlib
import hmac
import secrets
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from sexton.operators.access.model import Forbidden

PATH = "/console"
FORM_FIELD = "form_token"
MAX_SIGNED_BYTES = 2_000
"""A browser drops a cookie above 4,096 bytes, and a proxy all headers above that; base64 and the others take half."""


class Session(NamedTuple):
    """What the browser sent: the token of its login, and the secret of its forms; empty: none."""

    token: str
    forms: str

    @property
    def form_token(self) -> str:
        """Return what each form of this session carries; another login, or another browser, has another one."""
        message = f"form of {self.token}".encode()
        return hmac.new(self.forms.encode(), message, hashlib.sha256).hexdigest()


def session_of(request: Request) -> Session:
    """Return the session of a request."""
    name = _name(request)
    return Session(request.cookies.get(name, ""), request.cookies.get(f"{name}-forms", ""))


def check_form(request: Request, form_token: str) -> None:
    """Raise ``Forbidden`` unless a form was sent by a page of this console and this session.

    A browser that names another site as the origin is refused even with the right token.
    """
    session = session_of(request)
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("this form was sent by another site; nothing was changed")
    if not session.forms or not hmac.compare_digest(session.form_token.encode(), form_token.encode()):
        raise Forbidden("this form is not of this session, or is of an older one; open the page again, then send it")


def begin(request: Request, response: Response, token: str) -> None:
    """Set the cookies of a new session, with a secret of its own: an earlier one is worth nothing then."""
    set_cookie(request, response, _name(request), token)
    prepare_login(request, response, secrets.token_urlsafe())


def prepare_login(request: Request, response: Response, forms: str) -> None:
    """Set the secret of the login form."""
    set_cookie(request, response, f"{_name(request)}-forms", forms)


def end(request: Request, response: Response) -> None:
    """Delete the cookies of a session."""
    for name in (_name(request), f"{_name(request)}-forms"):
        response.delete_cookie(name, path=PATH, secure=is_secure(request), httponly=True, samesite="strict")


def sign(session: Session, text: str) -> str:
    """Return a text that only this session accepts; see ``signed``."""
    shortened = text.encode()[:MAX_SIGNED_BYTES].decode(errors="ignore")
    encoded = base64.urlsafe_b64encode(shortened.encode()).decode()
    return f"{encoded}.{_signature(session, encoded)}"


def signed(session: Session, value: str) -> str | None:
    """Return the text that ``sign`` was given; None: the value is none of this session."""
    encoded, _, signature = value.partition(".")
    if not hmac.compare_digest(_signature(session, encoded).encode(), signature.encode()):
        return None
    return base64.urlsafe_b64decode(encoded).decode()


def _signature(session: Session, encoded: str) -> str:
    return hmac.new(session.form_token.encode(), encoded.encode(), hashlib.sha256).hexdigest()


def set_cookie(request: Request, response: Response, name: str, value: str, seconds: int | None = None) -> None:
    """Set a cookie that only this console gets; ``seconds``: how long it is kept; None: until the browser ends."""
    secure = is_secure(request)
    response.set_cookie(name, value, seconds, path=PATH, secure=secure, httponly=True, samesite="strict")


def _name(request: Request) -> str:
    return "__Secure-sexton" if is_secure(request) else "sexton"


def is_secure(request: Request) -> bool:
    """Return whether the browser came over TLS, so that cookies are never sent without it."""
    return request.url.scheme == "https"
