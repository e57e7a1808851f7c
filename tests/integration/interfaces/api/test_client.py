"""``sexton.client`` against the API: what is copied stays, and whoever copies is stopped when that is not certain."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.client import AsyncSexton, Filter, Item, ProtectionLost, RequestRefused, Sexton, Unreachable, protecting
from sexton.client import calls as asked
from sexton.client.registering import RegistrationRequest
from sexton.kernel.errors import BadInput
from sexton.operators.access import policy
from sexton.protection.errors import Exists, Invalid, ProtectionNotFound, SoftDeleted
from sexton.protection.model import Protection, ProtectionSettings, ProtectionState
from sexton.protection.sql.rows import digest
from sexton.protocol.protections import Items
from tests.integration.protection.test_rounds import left, same
from tests.servers.api import Api
from tests.support.rig import Rig, put

A = "disk/data/a.dat"
SHORT = 2
"""Seconds of a protection that is lost within a test."""
LONG = 8
"""Seconds of one that is renewed within a test, also on a busy machine."""


@pytest.fixture
def client(api: Api) -> Iterator[Sexton]:
    with Sexton(api.url, api.token("sync:copy"), patience_seconds=5) as client:
        yield client


def state(rig: Rig, job: str = "copy:1") -> ProtectionState | None:
    """Return a protection's state, None where there is none."""
    return {p.job: p.state for p in rig.protections.list_protections("shop")}.get(job)


def test_what_is_copied_stays_and_is_finished_at_the_end(client: Sexton, rig: Rig, root: Path) -> None:
    with client.protect("shop", "copy:1", owner="ada", objects=[A], valid_ts=1000) as protected:
        inside = rig.round()
        during = left(root)
        protected.check()

    assert (inside.held, during) == ({"protection copy:1": 1}, {"data/a.dat"})
    assert protected.registered.sealed is not None
    assert protected.registered.sealed.objects == 1
    assert state(rig) is ProtectionState.SOFT


def test_it_is_renewed_in_the_background(client: Sexton, rig: Rig, root: Path) -> None:
    with client.protect("shop", "copy:1", owner="ada", objects=[A], ttl_seconds=LONG):
        first = later = rig.protections.find("shop", "copy:1").expires_at
        until = time.monotonic() + LONG
        while later == first and time.monotonic() < until:
            time.sleep(0.1)
            later = rig.protections.find("shop", "copy:1").expires_at
        rig.round()

    assert later > first
    assert left(root) == {"data/a.dat"}


def test_an_exception_leaves_it_to_its_time_and_the_same_job_goes_on(client: Sexton, rig: Rig, root: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="the target is full") as caught,
        client.protect("shop", "copy:1", owner="ada", objects=[A]),
    ):
        raise RuntimeError("the target is full")
    kept = state(rig)
    with client.protect("shop", "copy:1", owner="ada", objects=[A]):
        pass

    assert kept is ProtectionState.ACTIVE
    assert "continues it" in caught.value.__notes__[0]
    assert state(rig) is ProtectionState.SOFT


def test_whoever_copies_is_stopped_wherever_it_is_when_the_protection_is_ended(
    client: Sexton, rig: Rig, root: Path
) -> None:
    steps = 0
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[A], ttl_seconds=SHORT),
    ):
        rig.protections.release("shop", "copy:1")
        until = time.monotonic() + 30
        while time.monotonic() < until:  # never asks
            steps += 1

    assert steps
    assert time.monotonic() < until


def test_whoever_copies_is_stopped_before_the_end_when_nobody_answers(rig: Rig, root: Path) -> None:
    still: list[bool] = []

    def lost(_: ProtectionLost) -> None:
        with rig.db.read() as c:
            still.append(rig.db.now(c) < rig.protections.find("shop", "copy:1").expires_at)

    server = Api(rig)
    server.__enter__()
    client = Sexton(server.url, server.token("sync:copy"), patience_seconds=1)
    with (  # noqa: PT012
        pytest.raises(ProtectionLost, match="could not be renewed in time"),
        client.protect(
            "shop", "copy:1", owner="ada", objects=[A], ttl_seconds=15, on_lost=lost
        ),  # a tenth of it: time to stop
    ):
        server.__exit__()
        for _ in range(1_000):
            time.sleep(0.02)
    client.close()
    until = time.monotonic() + 10
    while not still and time.monotonic() < until:
        time.sleep(0.01)

    assert still == [True]


def test_a_copy_that_catches_every_error_is_stopped_all_the_same(client: Sexton, rig: Rig, root: Path) -> None:
    steps = 0
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[A], ttl_seconds=SHORT),
    ):
        rig.protections.release("shop", "copy:1")
        for _ in range(1_000):
            try:
                time.sleep(0.02)
            except Exception:  # noqa: BLE001 - as one object's copy may
                steps = -10_000
            steps += 1

    assert 0 < steps < 1_000


def test_a_stop_that_comes_while_the_block_is_left_is_the_same_loss(
    client: Sexton, rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*_: object) -> None:
        time.sleep(0.5)

    monkeypatch.setattr(protecting.log, "error", slowly)  # between the loss and the stop, under the lock
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[A], ttl_seconds=SHORT) as protected,
    ):
        rig.protections.release("shop", "copy:1")
        for _ in range(1_000):
            time.sleep(0.02)
            protected.check()
    for _ in range(150):  # a second stop would come within a second
        time.sleep(0.01)


def test_a_stop_that_comes_out_at_the_very_end_of_the_block_is_seen_to(
    client: Sexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, other = (client.protect("shop", f"copy:{n}", owner="ada", objects=[A]) for n in (1, 2))

    def stopped(self: protecting.Protecting) -> None:
        raise self._interruption

    monkeypatch.setattr(protecting.Protecting, "_leave", stopped)
    with pytest.raises(protecting.CopyInterrupted) as at_the_end:
        left.__exit__(None, None, None)
    with pytest.raises(protecting.CopyInterrupted) as inside:
        stopped(left)

    seen = {}
    for name, raised in (("at the end", at_the_end), ("inside", inside)):
        for one in (left, other):
            one._raised.append(raised.value)
            seen[name, one is left] = one._raised_at_the_end()
    assert seen == {k: k == ("at the end", True) for k in seen}
    assert left._raised == []


def test_another_registration_of_the_same_job_hides_no_loss(client: Sexton, rig: Rig, root: Path) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[A], ttl_seconds=LONG),
    ):
        rig.protections.release("shop", "copy:1")
        other = [Item("disk", "data/b.dat")]
        rig.registrar.whole(Protection(instance="shop", job="copy:1", owner="bob", digest=digest(other)), other)
        for _ in range(1_000):
            time.sleep(0.02)

    assert state(rig) is ProtectionState.ACTIVE


@pytest.mark.parametrize("harm", ["its client is closed", "a shorter longest time"])
def test_whatever_keeps_it_from_being_renewed_stops_the_copy(
    api: Api, client: Sexton, rig: Rig, root: Path, harm: str
) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[A], ttl_seconds=SHORT) as protected,
    ):
        if harm == "its client is closed":
            client.close()
        else:
            api.app.state.service.stores.protections._settings = ProtectionSettings(max_seconds=1)
        for _ in range(1_000):
            time.sleep(0.02)
            protected.check()


def test_who_ends_without_leaving_the_block_is_renewed_no_more(client: Sexton, rig: Rig, root: Path) -> None:
    protecting = client.protect("shop", "copy:1", owner="ada", objects=[A], ttl_seconds=SHORT)
    thread = threading.Thread(target=protecting.__enter__)
    thread.start()
    thread.join()
    before = rig.protections.find("shop", "copy:1").expires_at
    time.sleep(SHORT)

    assert rig.protections.find("shop", "copy:1").expires_at == before


def test_without_interrupt_only_asking_and_the_end_tell(client: Sexton, rig: Rig, root: Path) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[A], ttl_seconds=SHORT, interrupt=False) as protected,
    ):
        rig.protections.release("shop", "copy:1")
        time.sleep(SHORT)
        with pytest.raises(ProtectionLost):
            protected.check()


def test_a_block_in_another_thread_is_stopped_there(client: Sexton, rig: Rig, root: Path) -> None:
    ended: list[BaseException] = []
    inside = threading.Event()

    def copy() -> None:
        try:
            with client.protect("shop", "copy:1", owner="ada", objects=[A], ttl_seconds=SHORT):
                inside.set()
                for _ in range(1_500):
                    time.sleep(0.02)
        except ProtectionLost as e:
            ended.append(e)

    thread = threading.Thread(target=copy)
    thread.start()
    assert inside.wait(30)
    rig.protections.release("shop", "copy:1")
    thread.join(20)

    assert len(ended) == 1


def test_a_job_that_was_finished_from_outside_is_lost(client: Sexton, rig: Rig, root: Path) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost, match="finished"),
        client.protect("shop", "copy:1", owner="ada", objects=[A], ttl_seconds=LONG),
    ):
        rig.protections.finish("shop", "copy:1")
        for _ in range(1_000):
            time.sleep(0.02)


def test_many_objects_go_in_chunks_and_the_same_again_changes_nothing(
    client: Sexton, rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(25):
        put(root, f"many/{n:02}.dat")
    monkeypatch.setattr(asked, "CHUNK_ITEMS", 10)
    wanted = RegistrationRequest(
        "shop", "copy:1", owner="ada", objects=[f"disk/many/{n:02}.dat" for n in range(25)], prefixes=["disk/dir/"]
    )

    first = client.register(wanted)
    again = client.register(wanted)

    assert first.sealed is not None
    assert (first.state, first.sealed.objects) == (ProtectionState.ACTIVE, 26)
    assert same(again, first)
    assert rig.count("protection_chunk") == 3
    with pytest.raises(Exists):
        client.register(RegistrationRequest("shop", "copy:1", owner="ada", objects=[A]))


@pytest.mark.parametrize("size", [1, 1_000])
def test_chunks_have_all_names_once_in_order_and_fit(size: int) -> None:
    objects = [f"disk/{n:06}{'k' * size}" for n in range(30_000)]

    made = list(asked.chunks(objects, ["disk/p/"]))

    assert [o for items in made for o in items.objects] == objects
    assert [p for items in made for p in items.prefixes] == ["disk/p/"]
    assert max(len(items.objects) + len(items.prefixes) for items in made) <= asked.CHUNK_ITEMS
    assert max(len(Items.model_dump_json(items)) for items in made) < 16 << 20


def test_a_filter_is_built_here_and_kept_there(client: Sexton, rig: Rig, root: Path) -> None:
    filter_ = Filter.build([Item("disk", "data/a.dat")], 1)
    with client.protect("shop", "copy:1", owner="ada", filter=filter_):
        rig.round()

    assert "data/a.dat" in left(root)


def test_refusals_are_the_typed_errors_of_the_command_line(client: Sexton, api: Api) -> None:
    with pytest.raises(ProtectionNotFound, match="no protection"):
        client.renew("shop", "copy:none")
    with pytest.raises(Invalid, match="not there"):
        client.register(RegistrationRequest("shop", "copy:1", owner="ada", objects=["disk/none.dat"]))
    client.register(RegistrationRequest("shop", "copy:1", owner="ada", objects=[A]))
    client.finish("shop", "copy:1")
    with pytest.raises(SoftDeleted):
        client.renew("shop", "copy:1")
    with pytest.raises(RequestRefused) as other:
        client.stop("not mine to say")
    assert (other.value.code, other.value.status) == ("FORBIDDEN", 403)
    secret = policy.presented(f"Bearer {api.token('read')}").secret
    assert secret not in str(other.value)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"objects": [A], "filter": Filter.build([Item("disk", "data/a.dat")], 1)},
        {"objects": A},
        {"objects": (n for n in [A])},
    ],
    ids=["nothing", "both", "a name alone", "a generator"],
)
def test_what_protects_nothing_is_refused_before_it_is_sent(given: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        RegistrationRequest("shop", "copy:1", owner="ada", **given)


def test_without_an_address_or_a_token_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEXTON_TOKEN", raising=False)
    with pytest.raises(BadInput, match="SEXTON_TOKEN"):
        Sexton("http://127.0.0.1:1")


def test_nobody_there_is_unreachable_within_its_patience() -> None:
    with Sexton("http://127.0.0.1:1", "sxt_0", patience_seconds=0.5) as client, pytest.raises(Unreachable):
        client.status()


def test_operators_ask_the_rest(api: Api, rig: Rig, root: Path) -> None:
    with Sexton(api.url, api.token("operate")) as client:
        plan = client.plan("shop")
        status = client.status()
        stopped = client.stop("a restore", "shop")
        started = client.start("shop")
        client.watermark("shop", 7)

        assert [k.kind for k in plan.plan.kinds] == ["dropped"]
        assert [i.instance for i in status.instances] == ["shop"]
        assert (stopped.stopped, started.stopped) == (True, False)
        assert [s.id for s in client.why("data/a.dat").stories] == ["a"]
        with pytest.raises(RequestRefused, match="Temporal"):
            Sexton(api.url, api.token("operate"), patience_seconds=0.1).apply(plan.plan.id)


class TestAsync:
    """The asynchronous client does the same."""

    async def test_what_is_copied_stays_and_is_finished_at_the_end(self, api: Api, rig: Rig, root: Path) -> None:
        async with (
            AsyncSexton(api.url, api.token("sync:copy")) as client,
            client.protect("shop", "copy:1", owner="ada", objects=[A], valid_ts=1000, ttl_seconds=LONG),
        ):
            await asyncio.sleep(LONG / 2)
            inside = await asyncio.to_thread(rig.round)

        assert inside.held == {"protection copy:1": 1}
        assert state(rig) is ProtectionState.SOFT

    async def test_whoever_copies_is_stopped_when_the_protection_is_ended(self, api: Api, rig: Rig, root: Path) -> None:
        async with AsyncSexton(api.url, api.token("sync:copy")) as client:
            with pytest.raises(ProtectionLost):  # noqa: PT012
                async with client.protect("shop", "copy:1", owner="ada", objects=[A], ttl_seconds=SHORT):
                    await asyncio.to_thread(rig.protections.release, "shop", "copy:1")
                    await asyncio.sleep(30)
            current = asyncio.current_task()
            assert current is not None
            assert current.cancelling() == 0

    async def test_a_cancellation_from_outside_stays_one(self, api: Api, rig: Rig, root: Path) -> None:
        async with AsyncSexton(api.url, api.token("sync:copy")) as client:
            inside = asyncio.Event()

            async def copy() -> None:
                async with client.protect("shop", "copy:1", owner="ada", objects=[A]):
                    inside.set()
                    await asyncio.sleep(30)

            task = asyncio.create_task(copy())
            await asyncio.wait_for(inside.wait(), 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        assert state(rig) is ProtectionState.ACTIVE

    async def test_refusals_are_typed(self, api: Api) -> None:
        async with AsyncSexton(api.url, api.token("sync:copy"), patience_seconds=0.3) as client:
            with pytest.raises(ProtectionNotFound):
                await client.renew("shop", "copy:none")
            with pytest.raises(RequestRefused):
                await client.watermark("shop", 7)
