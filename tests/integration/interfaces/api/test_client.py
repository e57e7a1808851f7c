"""Both clients of ``sexton.client`` register, renew and finish protections, stop, and raise typed errors."""

import asyncio
from pathlib import Path

import pytest

from sexton.client import AsyncSexton, Filter, Item, ProtectionLost, RequestRefused, Sexton, Unreachable, protecting
from sexton.client.protecting import RegistrationRequest, Renewals
from sexton.kernel.errors import BadInput
from sexton.operations.protections import Items
from sexton.operators.access import policy
from sexton.protection.model import Exists, Invalid, ProtectionNotFound, ProtectionState, SoftDeleted
from tests.integration.interfaces.api.copies import LOST_SECONDS, OBJECT, RENEWED_SECONDS, copying, state
from tests.integration.interfaces.api.shared import api, rig, root, served_shop
from tests.integration.protection.registrations import remaining_keys, same_protection
from tests.servers.api import Api
from tests.support.eventually import eventually, eventually_async
from tests.support.kept import kept_texts
from tests.support.rig import Rig, put

__all__ = ["api", "rig", "root"]


@pytest.mark.slow
def test_a_copy_is_protected_and_renewed_until_its_end(tmp_path: Path) -> None:
    filter_ = Filter.build([Item("disk", "data/b.dat")], 1)
    with served_shop(tmp_path) as (rig, root, api), Sexton(api.url, api.token("sync:copy@shop")) as client:
        with (
            copying(client, "copy:1", RENEWED_SECONDS, valid_ts=1000) as protected,
            client.protect("shop", "copy:2", owner="ada", filter=filter_) as filtered,
        ):
            first = rig.protections.find("shop", "copy:1").expires_at
            eventually("it is renewed", lambda: rig.protections.find("shop", "copy:1").expires_at > first)
            inside = rig.round()
            protected.check()

        assert kept_texts(inside) == {"protection copy:1": 1, "protection copy:2": 1}
        assert remaining_keys(root) == {"data/a.dat", "data/b.dat"}
        assert protected.registered.sealed is not None
        assert filtered.registered.sealed is not None
        assert (protected.registered.sealed.objects, filtered.registered.sealed.verified) == (1, False)
        assert state(rig) is ProtectionState.SOFT


@pytest.mark.slow
async def test_an_async_copy_is_protected_until_its_end(tmp_path: Path) -> None:
    with served_shop(tmp_path) as (rig, _, api):
        async with (
            AsyncSexton(api.url, api.token("sync:copy@shop")) as client,
            copying(client, "copy:1", RENEWED_SECONDS, valid_ts=1000),
        ):
            first = rig.protections.find("shop", "copy:1").expires_at

            async def is_renewed() -> bool:
                return rig.protections.find("shop", "copy:1").expires_at > first

            await eventually_async("it is renewed", is_renewed)
            inside = await asyncio.to_thread(rig.round)

        assert kept_texts(inside) == {"protection copy:1": 1}
        assert state(rig) is ProtectionState.SOFT


def test_an_exception_keeps_the_protection_for_the_same_job(client: Sexton, rig: Rig) -> None:
    with pytest.raises(RuntimeError, match="the target is full") as caught, copying(client, "copy:full"):
        raise RuntimeError("the target is full")
    kept = state(rig, "copy:full")
    with copying(client, "copy:full"):
        pass

    assert kept is ProtectionState.ACTIVE
    assert "continues it" in caught.value.__notes__[0]
    assert state(rig, "copy:full") is ProtectionState.SOFT


def test_many_objects_are_sent_in_repeatable_chunks(
    client: Sexton, rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(25):
        put(root, f"many/{n:02}.dat")
    monkeypatch.setattr(protecting, "CHUNK_ITEMS", 10)
    objects, prefixes = [f"disk/many/{n:02}.dat" for n in range(26)], ["disk/dir/", "disk/none/"]
    wanted = RegistrationRequest(
        "shop", "copy:many", owner="ada", objects=objects, prefixes=prefixes, on_missing="report"
    )

    first = client.register(wanted)
    again = client.register(wanted)

    assert first.sealed is not None
    assert (first.state, first.sealed.objects, first.sealed.missing) == (ProtectionState.ACTIVE, 28, 2)
    assert first.sealed.named == ("disk/many/25.dat: not there", "disk/none/: nothing below it")
    assert same_protection(again, first)
    assert rig.count("protection_chunk", protection=first.id) == 3
    with pytest.raises(Exists):
        client.register(RegistrationRequest("shop", "copy:many", owner="ada", objects=[OBJECT]))


def test_chunks_contain_every_name_once_in_order(subtests: pytest.Subtests) -> None:
    for size, number in [(1, 30_000), (1_000, 18_000)]:
        with subtests.test(size=size):
            objects = [f"disk/{n:06}{'k' * size}" for n in range(number)]

            made = list(protecting.chunks(objects, ["disk/p/"]))

            assert [o for items in made for o in items.objects] == objects
            assert [p for items in made for p in items.prefixes] == ["disk/p/"]
            assert max(len(items.objects) + len(items.prefixes) for items in made) <= protecting.CHUNK_ITEMS
            assert max(len(Items.model_dump_json(items)) for items in made) < 16 << 20


def test_refusals_are_typed_errors(client: Sexton, api: Api) -> None:
    with pytest.raises(ProtectionNotFound, match="no protection"):
        client.renew("copy:none", instance="shop")
    with pytest.raises(Invalid, match="not there"):
        client.register(RegistrationRequest("shop", "copy:soft", owner="ada", objects=["disk/none.dat"]))
    client.register(RegistrationRequest("shop", "copy:soft", owner="ada", objects=[OBJECT]))
    client.finish("copy:soft", instance="shop")
    with pytest.raises(SoftDeleted):
        client.renew("copy:soft", instance="shop")
    with pytest.raises(RequestRefused) as other:
        client.stop(reason="not mine to say", everything=True)
    assert (other.value.code, other.value.status) == ("FORBIDDEN", 403)
    secret = policy.presented(f"Bearer {api.token('read')}").secret
    assert secret not in str(other.value)


def test_a_renewal_may_raise_the_watermark_to_wait_for(client: Sexton, rig: Rig) -> None:
    with copying(client, "copy:raised", valid_ts=7) as copy:
        raised = client.renew("copy:raised", instance="shop", valid_ts=2**62, at_least=True)
        with pytest.raises(Invalid, match="lower one, 8"):
            client.renew("copy:raised", instance="shop", valid_ts=8, ttl_seconds=3_600)
        client.send(copy._renewal())

    assert (raised.valid_ts, rig.protections.find("shop", "copy:raised").valid_ts) == (2**62, 2**62)


def test_an_empty_registration_is_refused_before_it_is_sent(subtests: pytest.Subtests) -> None:
    for given in [
        {},
        {"objects": [OBJECT], "filter": Filter.build([Item("disk", "data/a.dat")], 1)},
        {"objects": OBJECT},
        {"objects": (n for n in [OBJECT])},
    ]:
        with subtests.test(given=given), pytest.raises(Invalid):
            RegistrationRequest("shop", "copy:1", owner="ada", **given)


def test_the_client_names_a_missing_address_or_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEXTON_TOKEN", raising=False)
    with pytest.raises(BadInput, match="SEXTON_TOKEN"):
        Sexton("http://127.0.0.1:1")


def test_a_silent_server_is_unreachable_within_the_patience() -> None:
    with Sexton("http://127.0.0.1:1", "sxt_0", patience_seconds=0.5) as client, pytest.raises(Unreachable):
        client.status()


def test_an_operator_plans_stops_and_sets_watermarks(api: Api) -> None:
    with Sexton(api.url, api.token("operate@*"), patience_seconds=0.1) as client:
        plan = client.plan("shop")
        status = client.status()
        stopped = client.stop("shop", reason="a restore")
        started = client.start("shop")
        client.watermark("shop", 7)

        assert [k.kind for k in plan.plan.kinds] == ["dropped"]
        assert [i.instance for i in status.instances] == ["shop"]
        assert (stopped.stopped, started.stopped) == (True, False)
        assert [s.id for s in client.why("data/a.dat").items] == ["a"]
        for request in (lambda: client.apply(plan.plan.id), lambda: client.ask("round pause", instance="shop")):
            with pytest.raises(RequestRefused, match="Temporal"):
                request()


async def test_an_async_copy_is_stopped_when_its_protection_ends(api: Api, rig: Rig) -> None:
    async with AsyncSexton(api.url, api.token("sync:copy@shop")) as client:
        with pytest.raises(ProtectionLost):  # noqa: PT012
            async with copying(client, "copy:ended", LOST_SECONDS):
                await asyncio.to_thread(rig.protections.release, "shop", "copy:ended")
                await asyncio.sleep(30)
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0


async def test_an_async_copy_is_cancelled_at_most_once(api: Api) -> None:
    cancelled = 0
    async with AsyncSexton(api.url, api.token("sync:copy@shop")) as client:
        protected = copying(client, "copy:once")
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


async def test_a_block_is_not_entered_with_a_lost_protection(
    api: Api, client: Sexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Renewals, "left", lambda *_: 0.0)  # the first renewal took longer than the protection lasts
    with pytest.raises(ProtectionLost), copying(client, "copy:late"):
        raise AssertionError("entered")
    async with AsyncSexton(api.url, api.token("sync:copy@shop")) as asynchronous:
        with pytest.raises(ProtectionLost):
            async with copying(asynchronous, "copy:late"):
                raise AssertionError("entered")


async def test_a_cancellation_from_outside_is_not_swallowed(api: Api, rig: Rig) -> None:
    async with AsyncSexton(api.url, api.token("sync:copy@shop")) as client:
        inside = asyncio.Event()

        async def copy() -> None:
            async with copying(client, "copy:cancelled"):
                inside.set()
                await asyncio.sleep(30)

        task = asyncio.create_task(copy())
        await asyncio.wait_for(inside.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert state(rig, "copy:cancelled") is ProtectionState.ACTIVE


async def test_async_refusals_are_typed_errors(api: Api) -> None:
    async with AsyncSexton(api.url, api.token("sync:copy@shop"), patience_seconds=0.3) as client:
        with pytest.raises(ProtectionNotFound):
            await client.renew("copy:none", instance="shop")
        with pytest.raises(RequestRefused):
            await client.watermark("shop", 7)
