"""Bound the work that one packet of a client can cause.

h11 needs about as long for a chunk of one byte as for one of some kilobytes, and as long for each line of a head.
uvicorn parses all that it has received before any other request runs. So a body whose chunks are tiny is refused, and
so is a head of many lines, before h11 sees its lines. The trailer of a body counts as a head.
"""

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import h11
from h11._receivebuffer import ReceiveBuffer, blank_line_regex
from uvicorn.protocols.http.h11_impl import H11Protocol

from sexton.interfaces.api.rare_warning import RareWarning

MIN_CHUNK_BYTES = 512
"""On average, over the chunks of a body."""
FREE_CHUNKS = 100
"""So many chunks may be smaller."""
MAX_HEAD_LINES = 100
"""Without the request line."""
MAX_HEAD_BYTES = 16 << 10
TOO_SMALL = f"The chunks of the body are too small: send {MIN_CHUNK_BYTES} bytes or more in each, or a Content-Length."
TOO_LONG = f"The head is too long: send {MAX_HEAD_LINES} lines and {MAX_HEAD_BYTES >> 10} KiB at most."
INVALID = "Invalid HTTP request received."
refusals = RareWarning(logging.getLogger(__name__), "%d requests refused: not HTTP, or too much work; last from %s")


class _TooMuch(h11.RemoteProtocolError):
    """A valid request that would be too much work."""


class _BoundedHeads(ReceiveBuffer):
    """What was received and not parsed; refuses a long head, complete or not."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        if not self._data.startswith((b"\n", b"\r\n")):  # else there are no lines: a trailer is empty
            start = self._data[: MAX_HEAD_BYTES + 1]
            blank = blank_line_regex.search(start)
            lines = start.count(b"\n", 0, blank.start() if blank else len(start))
            if lines > MAX_HEAD_LINES or (blank is None and len(start) > MAX_HEAD_BYTES):
                raise _TooMuch(TOO_LONG, error_status_hint=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        return super().maybe_extract_lines()


class _BoundedParser(h11.Connection):
    """h11's parser; ``refuse`` is called with each invalid request, and with one that would be too much work."""

    chunks = body_bytes = 0

    def __init__(self, refuse: Callable[[h11.RemoteProtocolError], None]) -> None:
        super().__init__(h11.SERVER)
        self._receive_buffer = _BoundedHeads()
        self._refuse = refuse

    def next_event(self) -> Any:
        try:
            return self._next_event()
        except h11.RemoteProtocolError as e:
            self._refuse(e)
            return h11.NEED_DATA  # else uvicorn would refuse it, too, and log each one

    def _next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.chunks = self.body_bytes = 0
        elif isinstance(event, h11.Data):
            self.chunks += event.chunk_start
            self.body_bytes += len(event.data)
            if self.chunks > FREE_CHUNKS + self.body_bytes // MIN_CHUNK_BYTES:
                raise _TooMuch(TOO_SMALL)
        return event


class BoundedProtocol(H11Protocol):
    """uvicorn's connection, which also refuses long heads and bodies in tiny chunks."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn: _BoundedParser = _BoundedParser(self._refuse)

    def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """Refuse an invalid request and close its connection; only close it if an answer has begun."""
        refusals.count(self.client[0] if self.client else "")
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        if self.cycle is not None:
            self.cycle.disconnected = True  # else the application would answer too, which h11 refuses
            self.cycle.message_event.set()
        status, text = (error.error_status_hint, str(error)) if isinstance(error, _TooMuch) else (400, INVALID)
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        head = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase)
        for event in (head, h11.Data(data=text.encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Do not log that a client asks for WebSockets: its request is answered as one without that wish."""
