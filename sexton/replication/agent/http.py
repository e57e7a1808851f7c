"""Cuts over HTTP: ``GET`` and ``POST {api}/v1/nodes/{node}/cuts``. What is not understood is never acted on."""

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import ValidationError

from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message
from sexton.replication.agent.model import GrantedCut, Removed
from sexton.replication.agent.port import ApiRefused, ApiSilent, GrantedCutPage

SECONDS = 30.0
"""For one answer, to its last byte."""
PAGE_CUTS = 500
MOST_BYTES = 4 << 20
"""Of an answer."""
TRIES = 4
FIRST_WAIT_SECONDS = 0.2
PASSING = frozenset({429, 502, 503, 504})
MOST_SHOWN = 200
_URL = re.compile(r"https?://[^/\s?#]+(/[^\s?#]*)?")
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")


class _Page(Message):
    cuts: list[Any]
    next: str = ""


class _Taken(Message):
    taken: int
    ignored: int = 0


A = TypeVar("A", bound=Message)


class HttpCuts:
    """Implements ``port.Cuts``."""

    def __init__(
        self, url: str, token: str, node: str, instance: str = "", wait: Callable[[float], None] = time.sleep
    ) -> None:
        """Send nothing yet.

        Args:
            url: of Sexton's API.
            token: of scope ``node:NODE``.
            node: which backend this is.
            instance: whose backend it is.
            wait: sleeps so many seconds before a request is sent again.

        Raises:
            BadInput: of the URL or the token; the token is not shown.
        """
        try:
            known = _URL.fullmatch(url) and httpx.URL(url).host and urlsplit(url).port != 0
        except (httpx.InvalidURL, ValueError):  # of a port that there is not
            known = False
        if not known:
            raise BadInput(f"{url!r} is no address of the API; write http://HOST:PORT or https://HOST")
        if not _TOKEN.fullmatch(token):
            raise BadInput("the node's token is empty or holds what no token does; make one: sexton token create")
        self._where = f"{url.rstrip('/')}/v1/nodes/{quote(node, safe='')}/cuts"
        self._instance, self._wait = instance, wait
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity", "User-Agent": "sexton-backend"}
        # A redirect would carry the token to somebody else.
        self._http = httpx.Client(headers=headers, timeout=SECONDS, follow_redirects=False, trust_env=False)

    def page(self, after: str) -> GrantedCutPage:
        asked = {"instance": self._instance, "after": after, "limit": str(PAGE_CUTS), "queue": "true"}
        told = self._ask(_Page, "GET", params=asked)
        if told.next and told.next <= after:
            raise ApiRefused(f"{self._where} answers a page after {after!r} that ends at {told.next[:MOST_SHOWN]!r}")
        cuts, refused = list[GrantedCut](), list[str]()
        for item in told.cuts:
            try:
                cuts.append(GrantedCut.model_validate(item, strict=True))
            except ValidationError as e:
                why = "; ".join(f"{'.'.join(map(str, its['loc']))}: {its['msg']}" for its in e.errors())
                refused.append(f"{json.dumps(item)[:MOST_SHOWN]} ({why[:MOST_SHOWN]})")
        return GrantedCutPage(cuts, told.next, refused)

    def acknowledge(self, done: Sequence[Removed]) -> None:
        told = [its.model_dump(mode="json") for its in done]
        self._ask(_Taken, "POST", json={"instance": self._instance, "done": told})

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def _ask(self, kind: type[A], method: str, **more: Any) -> A:
        """Send a request, again where nobody answers: asking and saying twice does no harm."""
        for n in range(1, TRIES + 1):
            try:
                status, body = self._once(method, **more)
                if status not in PASSING:
                    break
                why = f"answers {status}"
            except httpx.HTTPError as e:
                why = f"does not answer: {e or type(e).__name__}"
            if n == TRIES:
                raise ApiSilent(f"{self._where} {why}")
            self._wait(FIRST_WAIT_SECONDS * 2 ** (n - 1))
        if status != httpx.codes.OK:
            raise ApiRefused(f"{self._where} answers {status}: {_detail(body)}")
        try:
            return kind.model_validate_json(body)
        except ValidationError as e:
            raise ApiRefused(f"{self._where} answers nothing of Sexton's: {_shown(body)}") from e

    def _once(self, method: str, **more: Any) -> tuple[int, bytes]:
        over, body = time.monotonic() + SECONDS, b""
        with self._http.stream(method, self._where, **more) as answer:
            for chunk in answer.iter_raw():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise ApiRefused(f"{self._where} answers more than {MOST_BYTES} bytes")
                if time.monotonic() > over:
                    raise httpx.ReadTimeout(f"no whole answer within {SECONDS:.0f} s")
            return answer.status_code, body


class _Problem(Message):
    detail: str


def _detail(body: bytes) -> str:
    try:
        return _Problem.model_validate_json(body).detail[:MOST_SHOWN]
    except ValidationError:
        return _shown(body)


def _shown(body: bytes) -> str:
    return ascii(body[:MOST_SHOWN].decode(errors="replace"))
