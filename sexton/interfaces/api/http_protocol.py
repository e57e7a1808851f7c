"""Bound the work that one packet of a client can cause.

h11 needs about as long for a chunk of one byte as for one of some kilobytes, and uvicorn parses all that it has
received before any other request runs. So a body whose chunks are tiny is refused.
"""

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MIN_CHUNK_BYTES = 512
"""On average, over the chunks of a body."""
FREE_CHUNKS = 100
"""So many chunks may be smaller."""
TOO_SMALL = f"The chunks of the body are too small: send {MIN_CHUNK_BYTES} bytes or more in each, or a Content-Length."


class _ChunkCounter(h11.Connection):
    """h11's parser; an invalid request for it is also one with many tiny chunks."""

    chunks = body_bytes = 0
    has_tiny_chunks = False

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.chunks = self.body_bytes = 0
        elif isinstance(event, h11.Data):
            self.chunks += event.chunk_start
            self.body_bytes += len(event.data)
            if self.chunks > FREE_CHUNKS + self.body_bytes // MIN_CHUNK_BYTES:
                self.has_tiny_chunks = True
                raise h11.RemoteProtocolError(TOO_SMALL)
        return event


class BoundedProtocol(H11Protocol):
    """uvicorn's connection, which also refuses bodies in tiny chunks."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn: _ChunkCounter = _ChunkCounter(h11.SERVER)

    def send_400_response(self, msg: str) -> None:
        """Refuse an invalid request and close its connection; only close it if an answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            if self.cycle is not None:
                self.cycle.disconnected = True  # else the application would answer too, which h11 refuses
                self.cycle.message_event.set()
            super().send_400_response(TOO_SMALL if self.conn.has_tiny_chunks else msg)
        else:
            self.transport.abort()
