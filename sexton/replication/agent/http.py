"""Pull and acknowledge cuts over HTTP: ``GET`` and ``POST {api}/v1/nodes/{node}/cuts``.

A cut that cannot be read is never acted on.
"""

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
from sexton.kernel.trust import STRICT, Trust
from sexton.replication.agent.model import CutDone, GrantedCut, GrantedCutPage
from sexton.replication.errors import ApiRefused, ApiSilent

ANSWER_SECONDS = 30.0
"""For one answer, to its last byte."""
PAGE_CUTS = 500
MAX_ANSWER_BYTES = 4 << 20
TRIES = 4
FIRST_WAIT_SECONDS = 0.2
TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
MAX_SHOWN_CHARACTERS = 200
_URL = re.compile(r"https?://[^/\s?#]+(/[^\s?#]*)?")
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")


class _PageAnswer(Message):
    cuts: list[Any]
    next: str = ""


class _TakenAnswer(Message):
    taken: int
    ignored: int = 0


class _Problem(Message):
    """A problem by RFC 9457."""

    detail: str


A = TypeVar("A", bound=Message)


class HttpCuts:
    """The cuts that Sexton's API grants to a backend."""

    def __init__(
        self,
        url: str,
        token: str,
        node: str,
        instance: str = "",
        wait: Callable[[float], None] = time.sleep,
        trust: Trust = STRICT,
    ) -> None:
        """Check the arguments; nothing is sent yet.

        ``token``: of scope ``node:NODE``. ``wait`` sleeps for some seconds before a request is sent again.

        Raises:
            BadInput: the URL or the token is invalid; the message does not show the token.
            PlainHttp: the token would cross a network in clear text.
        """
        try:
            valid = _URL.fullmatch(url) and httpx.URL(url).host and urlsplit(url).port != 0
        except (httpx.InvalidURL, ValueError):  # an impossible port
            valid = False
        if not valid:
            raise BadInput(f"{url!r} is not an address of the API; write http://HOST:PORT or https://HOST")
        if not _TOKEN.fullmatch(token):
            raise BadInput(
                "the node's token is empty or has characters that no token has; create one: sexton token create"
            )
        trust.check(url)
        self._url = f"{url.rstrip('/')}/v1/nodes/{quote(node, safe='')}/cuts"
        self._instance, self._wait = instance, wait
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity", "User-Agent": "sexton-backend"}
        # A redirect would send the token to another server.
        options: dict[str, Any] = {"follow_redirects": False, "trust_env": False, "verify": trust.verify()}
        self._http = httpx.Client(headers=headers, timeout=ANSWER_SECONDS, **options)

    def page(self, after: str) -> GrantedCutPage:
        """Return cuts of tablets whose uids sort after ``after``. Raises ``ApiSilent``, ``ApiRefused``."""
        parameters = {"instance": self._instance, "after": after, "limit": str(PAGE_CUTS), "queue": "true"}
        answer = self._request(_PageAnswer, "GET", params=parameters)
        if answer.next and answer.next <= after:
            raise ApiRefused(
                f"{self._url} answers a page after {after!r} that ends at {answer.next[:MAX_SHOWN_CHARACTERS]!r}"
            )
        cuts, refused = list[GrantedCut](), list[str]()
        for item in answer.cuts:
            try:
                cuts.append(GrantedCut.model_validate(item, strict=True))
            except ValidationError as e:
                why = "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in e.errors())
                refused.append(f"{json.dumps(item)[:MAX_SHOWN_CHARACTERS]} ({why[:MAX_SHOWN_CHARACTERS]})")
        return GrantedCutPage(cuts, answer.next, refused)

    def acknowledge(self, done: Sequence[CutDone]) -> None:
        """Report what is deleted; repeatable. Raises ``ApiSilent``, ``ApiRefused``."""
        acknowledgements = [cut.model_dump() for cut in done]
        self._request(_TakenAnswer, "POST", json={"instance": self._instance, "done": acknowledgements})

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _request(self, kind: type[A], method: str, **arguments: Any) -> A:
        """Send a request, and again if there is no answer: both requests may be repeated."""
        for attempt in range(1, TRIES + 1):
            try:
                status, body = self._send_once(method, **arguments)
                if status not in TRANSIENT_STATUSES:
                    break
                why = f"answers {status}"
            except httpx.HTTPError as e:
                why = f"does not answer: {e or type(e).__name__}"
            if attempt == TRIES:
                raise ApiSilent(f"{self._url} {why}")
            self._wait(FIRST_WAIT_SECONDS * 2 ** (attempt - 1))
        if status != httpx.codes.OK:
            try:
                detail = _Problem.model_validate_json(body).detail[:MAX_SHOWN_CHARACTERS]
            except ValidationError:
                detail = _printable(body)
            raise ApiRefused(f"{self._url} answers {status}: {detail}")
        try:
            return kind.model_validate_json(body)
        except ValidationError as e:
            raise ApiRefused(f"{self._url} gives an answer that is not Sexton's: {_printable(body)}") from e

    def _send_once(self, method: str, **arguments: Any) -> tuple[int, bytes]:
        deadline, body = time.monotonic() + ANSWER_SECONDS, b""
        with self._http.stream(method, self._url, **arguments) as answer:
            for chunk in answer.iter_raw():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise ApiRefused(f"{self._url} answers more than {MAX_ANSWER_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout(f"no complete answer within {ANSWER_SECONDS:.0f} s")
            return answer.status_code, body


def _printable(body: bytes) -> str:
    return ascii(body[:MAX_SHOWN_CHARACTERS].decode(errors="replace"))
