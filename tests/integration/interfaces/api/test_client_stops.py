"""A copy learns in time that its protection is lost, and is never interrupted by another thread."""

import threading
from pathlib import Path

import pytest

from sexton.client import Item, ProtectionLost, Sexton
from sexton.client.protecting import Protecting
from sexton.client.renewing import Renewals
from sexton.protection.model import Protection, ProtectionSettings, ProtectionState
from sexton.protection.sql.rows import digest
from tests.integration.interfaces.api.copies import LOST_SECONDS, OBJECT, RENEWED_SECONDS, state
from tests.servers.api import Api
from tests.support.eventually import eventually
from tests.support.rig import Rig


def is_lost(protected: Protecting) -> bool:
    try:
        protected.check()
    except ProtectionLost:
        return True
    return False


def test_a_released_protection_is_lost_for_check_and_the_end(client: Sexton, rig: Rig, root: Path) -> None:
    lost: list[ProtectionLost] = []
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect(
            "shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=LOST_SECONDS, on_lost=lost.append
        ) as protected,
    ):
        rig.protections.release("shop", "copy:1")
        eventually("the protection is lost", lambda: is_lost(protected) and lost)

    assert len(lost) == 1


@pytest.mark.slow
def test_a_loss_is_noticed_in_time_when_the_server_is_away(rig: Rig, root: Path) -> None:
    still: list[bool] = []

    def lost(_: ProtectionLost) -> None:
        with rig.db.read() as c:
            still.append(rig.db.now(c) < rig.protections.find("shop", "copy:1").expires_at)

    server = Api(rig)
    server.__enter__()
    client = Sexton(server.url, server.token("sync:copy@shop"), patience_seconds=1)
    with (  # noqa: PT012
        pytest.raises(ProtectionLost, match="could not be renewed in time"),
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=60, on_lost=lost),
    ):
        server.__exit__()
        eventually("the loss is reported", lambda: still)
    client.close()

    assert still == [True]


def test_a_block_is_not_entered_with_a_lost_protection(
    client: Sexton, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Renewals, "left", lambda *_: 0.0)  # the first renewal took longer than the protection lasts
    entered = False

    with pytest.raises(ProtectionLost), client.protect("shop", "copy:1", owner="ada", objects=[OBJECT]):
        entered = True

    assert not entered


def test_a_forked_copy_finishes_no_protection_of_its_parent(client: Sexton, rig: Rig, root: Path) -> None:
    with (
        pytest.raises(ProtectionLost, match="a copy of this process"),
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT]) as protected,
    ):
        protected._pid = -1  # as after a fork

    assert state(rig) is ProtectionState.ACTIVE


def test_an_error_of_the_copy_is_not_replaced_by_the_loss(client: Sexton, rig: Rig, root: Path) -> None:
    with (  # noqa: PT012
        pytest.raises(RuntimeError, match="the target is full") as caught,
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=LOST_SECONDS) as protected,
    ):
        rig.protections.release("shop", "copy:1")
        eventually("the protection is lost", lambda: is_lost(protected))
        raise RuntimeError("the target is full")

    assert "is lost" in caught.value.__notes__[0]


def test_a_new_registration_of_the_job_hides_no_loss(client: Sexton, rig: Rig, root: Path) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=RENEWED_SECONDS) as protected,
    ):
        rig.protections.release("shop", "copy:1")
        other = [Item("disk", "data/b.dat")]
        rig.registrar.register_at_once(
            Protection(instance="shop", job="copy:1", owner="bob", digest=digest(other)), other
        )
        eventually("the protection is lost", lambda: is_lost(protected))

    assert state(rig) is ProtectionState.ACTIVE


@pytest.mark.parametrize("harm", ["its client is closed", "a shorter longest time"])
def test_an_impossible_renewal_is_a_loss(api: Api, client: Sexton, rig: Rig, root: Path, harm: str) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=LOST_SECONDS) as protected,
    ):
        if harm == "its client is closed":
            client.close()
        else:
            api.app.state.service.stores.protections._settings = ProtectionSettings(max_seconds=1)
        eventually("the protection is lost", lambda: is_lost(protected))


def test_a_copy_whose_thread_ended_is_not_renewed(client: Sexton, rig: Rig, root: Path) -> None:
    protecting = client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=RENEWED_SECONDS)
    thread = threading.Thread(target=protecting.__enter__)
    thread.start()
    thread.join()
    before = rig.protections.find("shop", "copy:1").expires_at

    eventually("the protection is lost", lambda: is_lost(protecting))

    assert rig.protections.find("shop", "copy:1").expires_at == before


def test_a_job_finished_from_outside_is_lost(client: Sexton, rig: Rig, root: Path) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost, match="finished"),
        client.protect("shop", "copy:1", owner="ada", objects=[OBJECT], ttl_seconds=RENEWED_SECONDS) as protected,
    ):
        rig.protections.finish("shop", "copy:1")
        eventually("the protection is lost", lambda: is_lost(protected))
