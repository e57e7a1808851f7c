"""A stream ends when the database is away, and when the process ends."""

import asyncio

import pytest
from sqlalchemy.exc import OperationalError

from sexton.interfaces.api.routes import rounds


async def _away() -> tuple[str, str]:
    raise OperationalError("SELECT 1", {}, Exception("gone"))


async def _read(stopping: bool) -> list[str]:
    return [text async for text in rounds.stream(_away, ("progress", "{}"), lambda: stopping)]


@pytest.mark.parametrize("stopping", [False, True])
def test_a_stream_ends_without_an_error(monkeypatch: pytest.MonkeyPatch, stopping: bool) -> None:
    monkeypatch.setattr(rounds, "PERIOD_SECONDS", 0.01)
    assert asyncio.run(_read(stopping)) == ["event: progress\ndata: {}\n\n"]
