"""Call an owner over HTTP: with its credentials, within limits of time and size, and every failure as its silence."""

import json
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

import httpx
from pydantic import Field, ValidationError

from sexton.database.contract_errors import check_text
from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message, StrictMessage
from sexton.kernel.trust import PlainHttp, Trust
from sexton.owners.plugin import CallOptions
from sexton.owners.port import OwnerSilent

ATTEMPT_SECONDS = 5.0
"""How long each read may take, and an answer as a whole, by the clock after each part of it: an activity must send a
heartbeat every 10 s."""
MOST_BYTES = 64 * 2**20
"""Longest answer."""
SHOWN = 200
"""Characters of an owner's own error that are shown."""
MOST_ID_CHARACTERS = 1_024
"""An id of another form than the owner's is no reason for silence: it is a finding."""
Answer = TypeVar("Answer", bound=StrictMessage)


class InventoryAnswer(StrictMessage):
    """The answer to ``GET /v1/inventory?kind=KIND&after=ID&limit=N``: the next ids of live records, in order."""

    ids: tuple[Annotated[str, Field(max_length=MOST_ID_CHARACTERS)], ...]


class OwnerCaller:
    """Calls one owner. Threads may share it; no connection outlives a call, so a changed secret counts at once."""

    def __init__(self, options: CallOptions, trust: Trust) -> None:
        self._options = options
        self._trust = trust.model_copy(update={"ca_certs": options.ca_certs or trust.ca_certs})

    def get(self, path: str, answer: type[Answer], **query: object) -> Answer:
        """Return the answer to a question; ``OwnerSilent``."""
        return self._read(answer, self._send("GET", path, params={k: str(v) for k, v in query.items()}))

    def post(self, path: str, request: Message, answer: type[Answer]) -> Answer:
        """Return the answer to a request; ``OwnerSilent``."""
        return self._read(answer, self._send("POST", path, json=request.model_dump(mode="json")))

    def tell(self, path: str, request: Message) -> None:
        """Send a request whose answer says nothing more; ``OwnerSilent``."""
        self._send("POST", path, json=request.model_dump(mode="json"))

    def inventory(self, kind: str, after: str, limit: int) -> Sequence[str]:
        """Return the next ids of a kind, fewer than the limit: the last; ``OwnerSilent``, too, if not in order."""
        ids = self.get("inventory", InventoryAnswer, kind=kind, after=after, limit=limit).ids
        of_kind = f"{self._options.url} lists an id of kind {kind}"
        if len(ids) > limit or any(first >= second for first, second in pairwise((after, *ids))):
            raise OwnerSilent(f"{of_kind} that is not among the next {limit:,} behind {after!r}, in order")
        try:
            check_text(*ids)
        except BadInput as e:
            raise OwnerSilent(f"{of_kind} that is none: {e}") from e
        return ids

    def _send(self, method: str, path: str, **content: Any) -> bytes:
        url = f"{self._options.url.rstrip('/')}/v1/{path}"
        until = time.monotonic() + ATTEMPT_SECONDS
        try:
            self._trust.check(url)
            context = self._context(url)
            headers: dict[str, str] = {}
            if self._options.token_file:
                headers["Authorization"] = f"Bearer {Path(self._options.token_file).read_text('utf-8').strip()}"
            with (
                httpx.Client(verify=context, trust_env=False, timeout=ATTEMPT_SECONDS) as client,
                client.stream(method, url, headers=headers, **content) as response,
            ):
                body = bytearray()
                for part in response.iter_bytes():
                    body += part
                    if len(body) > MOST_BYTES:
                        raise OwnerSilent(f"{url} answers with more than {MOST_BYTES:,} bytes; send smaller pages")
                    if time.monotonic() > until:
                        raise OwnerSilent(f"{url} does not answer whole within {ATTEMPT_SECONDS:g} s")
        except PlainHttp as e:
            raise OwnerSilent(str(e)) from e
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as e:
            raise OwnerSilent(f"{url} does not answer: {e or type(e).__name__}") from e
        if not 200 <= response.status_code < 300:
            raise OwnerSilent(f"{url} answers {response.status_code}: {_text(bytes(body))}")
        return bytes(body)

    def _read(self, answer: type[Answer], body: bytes) -> Answer:
        try:
            return answer.model_validate(json.loads(body))
        except ValidationError as e:
            first = e.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise OwnerSilent(f"{self._options.url} gives a wrong answer: {where}: {first['msg']}") from e
        except ValueError as e:
            raise OwnerSilent(f"{self._options.url} gives an answer that is no JSON: {_text(body)}") from e

    def _context(self, url: str) -> Any:
        if not url.lower().startswith("https:"):
            return False  # reading the public authorities takes longer than the call
        context = httpx.create_ssl_context(self._trust.verify(), trust_env=False)
        if self._options.certificate_file:
            context.load_cert_chain(self._options.certificate_file, self._options.key_file or None)
        return context


def _text(body: bytes) -> str:
    return body[:SHOWN].decode(errors="replace").strip() or "nothing"
