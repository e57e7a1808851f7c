"""The asynchronous client protects, stops and refuses as the synchronous one does."""

import asyncio
from pathlib import Path

import pytest

from sexton.client import AsyncSexton, ProtectionLost, RequestRefused
from sexton.client.renewing import Renewals
from sexton.protection.errors import ProtectionNotFound
from sexton.protection.model import ProtectionState
from tests.integration.interfaces.api.copies import LOST_SECONDS, OBJECT, RENEWED_SECONDS, state
from tests.servers.api import Api
from tests.support.kept import kept_texts
from tests.support.rig import Rig


@pytest.mark.slow
async def test_an_async_copy_is_protected_until_its_end(api: Api, rig: Rig, root: Path) -> None:
    async with (
        AsyncSexton(api.url, api.token("sync:copy@shop")) as client,
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], valid_ts=1000, ttl_seconds=RENEWED_SECONDS),
    ):
        await asyncio.sleep(RENEWED_SECONDS / 2)
        inside = await asyncio.to_thread(rig.round)

    assert kept_texts(inside) == {"protection copy:1": 1}
    assert state(rig) is ProtectionState.SOFT


async def test_an_async_copy_is_stopped_when_its_protection_ends(api: Api, rig: Rig, root: Path) -> None:
    async with AsyncSexton(api.url, api.token("sync:copy@shop")) as client:
        with pytest.raises(ProtectionLost):  # noqa: PT012
            async with client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=LOST_SECONDS):
                await asyncio.to_thread(rig.protections.release, "shop", "copy:1")
                await asyncio.sleep(30)
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0


async def test_an_async_copy_is_cancelled_at_most_once(api: Api, root: Path) -> None:
    cancelled = 0
    async with AsyncSexton(api.url, api.token("sync:copy@shop")) as client:
        protected = client.protect("shop", "copy:1", owner="ada", objects=[OBJECT])
        with pytest.raises(ProtectionLost):  # noqa: PT012
            async with protected:
                protected._lose("a test ends it")
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    cancelled += 1
                protected._lose("it is lost already")
                await protected._watch()  # it ends: nothing is left that cancels the task again
                with pytest.raises(ProtectionLost):
                    protected.check()
        await asyncio.sleep(0)

    assert cancelled == 1


async def test_an_async_block_is_not_entered_with_a_lost_protection(
    api: Api, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Renewals, "left", lambda *_: 0.0)  # the first renewal took longer than the protection lasts
    entered = False
    async with AsyncSexton(api.url, api.token("sync:copy@shop")) as client:
        with pytest.raises(ProtectionLost):
            async with client.protect("shop", "copy:1", owner="ada", objects=[OBJECT]):
                entered = True

    assert not entered


async def test_a_cancellation_from_outside_is_not_swallowed(api: Api, rig: Rig, root: Path) -> None:
    async with AsyncSexton(api.url, api.token("sync:copy@shop")) as client:
        inside = asyncio.Event()

        async def copy() -> None:
            async with client.protect("shop", "copy:1", owner="ada", objects=[OBJECT]):
                inside.set()
                await asyncio.sleep(30)

        task = asyncio.create_task(copy())
        await asyncio.wait_for(inside.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert state(rig) is ProtectionState.ACTIVE


async def test_async_refusals_are_typed_errors(api: Api) -> None:
    async with AsyncSexton(api.url, api.token("sync:copy@shop"), patience_seconds=0.3) as client:
        with pytest.raises(ProtectionNotFound):
            await client.renew("copy:none", instance="shop")
        with pytest.raises(RequestRefused):
            await client.watermark("shop", 7)
