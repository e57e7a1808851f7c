"""The API without a server: orders of operations, addresses that need TLS, and streams that end."""

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import Field, model_validator
from sqlalchemy.exc import OperationalError

from config.sections import ApiSection
from sexton.interfaces.api.routes import operations, rounds
from sexton.interfaces.api.serve import InsecureListener, check_security
from sexton.kernel.errors import BadInput
from sexton.kernel.message import StrictMessage
from sexton.owners.plugin import OwnerOperation


class Order(StrictMessage):
    table: str
    size: Annotated[int, Field(ge=1)] = 3

    @model_validator(mode="after")
    def _fits(self) -> "Order":
        if self.table == "none":
            raise ValueError("there is no such table")
        return self


def test_an_order_is_the_query_or_the_body() -> None:
    for reads, values in ((True, {"instance", "table", "size"}), (False, {"instance", "order"})):
        offered = OwnerOperation("show", "Show it.", Order, int, lambda *_: 1, reads)
        operation: Any = operations._of_owner("lake", offered)

        assert set(operation.parameters) == values
        assert operation.paths == ("/v1/instances/{instance}/lake/show",)
        assert (operation.record.changes, operation.body) == (not reads, None if reads else Order)
        with pytest.raises(BadInput, match="no such table"):
            operation.function(None, instance="a", table="none")


def test_plain_http_beyond_loopback_is_refused() -> None:
    for host in ("127.0.0.1", "127.0.0.9", "::1", "localhost"):
        check_security(host, ApiSection())
    for host in ("0.0.0.0", "::", "10.0.0.7", "sexton.example", "localhost.example", "::ffff:10.0.0.7"):
        with pytest.raises(InsecureListener, match="in clear text"):
            check_security(host, ApiSection())


async def _away() -> tuple[str, str]:
    raise OperationalError("SELECT 1", {}, Exception("gone"))


async def _read(stopping: bool) -> list[str]:
    return [text async for text in rounds.stream(_away, ("progress", "{}"), lambda: stopping)]


def test_a_stream_ends_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "PERIOD_SECONDS", 0.01)
    for stopping in (False, True):
        assert asyncio.run(_read(stopping)) == ["event: progress\ndata: {}\n\n"]
