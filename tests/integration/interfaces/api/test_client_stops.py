"""The client interrupts a copy when its protection is lost or cannot be renewed in time."""

import threading
import time
from pathlib import Path

import pytest

from sexton.client import Item, ProtectionLost, Sexton, protecting
from sexton.protection.model import Protection, ProtectionSettings, ProtectionState
from sexton.protection.sql.rows import digest
from tests.integration.interfaces.api.copies import LOST_SECONDS, OBJECT, RENEWED_SECONDS, state
from tests.servers.api import Api
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig


def test_a_copy_is_stopped_when_its_protection_ends(client: Sexton, rig: Rig, root: Path) -> None:
    steps = 0
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=LOST_SECONDS),
    ):
        rig.protections.release("shop", "copy:1")
        until = time.monotonic() + 30
        while time.monotonic() < until:  # never asks
            steps += 1

    assert steps
    assert time.monotonic() < until


@pytest.mark.slow
def test_a_copy_is_stopped_in_time_when_the_server_is_away(rig: Rig, root: Path) -> None:
    still: list[bool] = []

    def lost(_: ProtectionLost) -> None:
        with rig.db.read() as c:
            still.append(rig.db.now(c) < rig.protections.find("shop", "copy:1").expires_at)

    server = Api(rig)
    server.__enter__()
    client = Sexton(server.url, server.token("sync:copy@shop"), patience_seconds=1)
    with (  # noqa: PT012
        pytest.raises(ProtectionLost, match="could not be renewed in time"),
        client.protect(
            "shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=15, on_lost=lost
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


def test_a_copy_that_catches_every_error_is_stopped(client: Sexton, rig: Rig, root: Path) -> None:
    steps = 0
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=LOST_SECONDS),
    ):
        rig.protections.release("shop", "copy:1")
        for _ in range(1_000):
            try:
                time.sleep(0.02)
            except Exception:  # noqa: BLE001 - as one object's copy may
                steps = -10_000
            steps += 1

    assert 0 < steps < 1_000


def test_a_stop_while_the_block_is_left_is_raised_once(
    client: Sexton, rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*_: object) -> None:
        time.sleep(0.5)

    monkeypatch.setattr(protecting.log, "error", slowly)  # between the loss and the stop, under the lock
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=LOST_SECONDS) as protected,
    ):
        rig.protections.release("shop", "copy:1")
        for _ in range(1_000):
            time.sleep(0.02)
            protected.check()
    for _ in range(150):  # a second stop would come within a second
        time.sleep(0.01)


def test_an_interrupt_at_the_end_of_the_block_is_recognised(client: Sexton, monkeypatch: pytest.MonkeyPatch) -> None:
    left, other = (client.protect("shop", f"copy:{n}", owner="ada", objects=[OBJECT]) for n in (1, 2))

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


def test_a_new_registration_of_the_job_hides_no_loss(client: Sexton, rig: Rig, root: Path) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=RENEWED_SECONDS),
    ):
        rig.protections.release("shop", "copy:1")
        other = [Item("disk", "data/b.dat")]
        rig.registrar.register_at_once(
            Protection(instance="shop", job="copy:1", owner="bob", digest=digest(other)), other
        )
        for _ in range(1_000):
            time.sleep(0.02)

    assert state(rig) is ProtectionState.ACTIVE


@pytest.mark.parametrize("harm", ["its client is closed", "a shorter longest time"])
def test_a_copy_is_stopped_when_a_renewal_is_impossible(
    api: Api, client: Sexton, rig: Rig, root: Path, harm: str
) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=LOST_SECONDS) as protected,
    ):
        if harm == "its client is closed":
            client.close()
        else:
            api.app.state.service.stores.protections._settings = ProtectionSettings(max_seconds=1)
        for _ in range(1_000):
            time.sleep(0.02)
            protected.check()


def test_a_copy_whose_thread_ended_is_not_renewed(client: Sexton, rig: Rig, root: Path) -> None:
    protecting = client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=LOST_SECONDS)
    thread = threading.Thread(target=protecting.__enter__)
    thread.start()
    thread.join()
    before = rig.protections.find("shop", "copy:1").expires_at
    time.sleep(LOST_SECONDS)

    assert rig.protections.find("shop", "copy:1").expires_at == before


def test_without_interrupt_only_check_and_the_end_raise(client: Sexton, rig: Rig, root: Path) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect(
            "shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=LOST_SECONDS, interrupt=False
        ) as protected,
    ):
        rig.protections.release("shop", "copy:1")
        time.sleep(LOST_SECONDS)
        with pytest.raises(ProtectionLost):
            protected.check()


def test_a_copy_in_another_thread_is_stopped_there(client: Sexton, rig: Rig, root: Path) -> None:
    ended: list[BaseException] = []
    inside = threading.Event()

    def copy() -> None:
        try:
            with client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=LOST_SECONDS):
                inside.set()
                for _ in range(1_500):
                    time.sleep(0.02)
        except ProtectionLost as e:
            ended.append(e)

    thread = threading.Thread(target=copy)
    thread.start()
    assert inside.wait(PATIENCE_SECONDS)
    rig.protections.release("shop", "copy:1")
    thread.join(PATIENCE_SECONDS)

    assert len(ended) == 1


def test_a_job_finished_from_outside_is_lost(client: Sexton, rig: Rig, root: Path) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost, match="finished"),
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=RENEWED_SECONDS),
    ):
        rig.protections.finish("shop", "copy:1")
        for _ in range(1_000):
            time.sleep(0.02)
