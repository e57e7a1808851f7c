"""A copy learns in time that its protection is lost."""

import threading

import pytest

from sexton.client import Item, ProtectionLost, Sexton
from sexton.client.protecting import Protecting
from sexton.protection.model import Protection, ProtectionSettings, ProtectionState
from sexton.protection.policy import digest
from tests.integration.interfaces.api.copies import LOST_SECONDS, RENEWED_SECONDS, copying, state
from tests.integration.interfaces.api.shared import api, rig, root
from tests.servers.api import Api
from tests.support.eventually import eventually
from tests.support.rig import Rig

__all__ = ["api", "rig", "root"]


def is_lost(protected: Protecting) -> bool:
    try:
        protected.check()
    except ProtectionLost:
        return True
    return False


def test_a_released_protection_is_lost_for_check_and_the_end(client: Sexton, rig: Rig) -> None:
    lost: list[ProtectionLost] = []
    with (  # noqa: PT012
        pytest.raises(ProtectionLost),
        copying(client, "copy:released", LOST_SECONDS, on_lost=lost.append) as protected,
    ):
        rig.protections.release("shop", "copy:released")
        eventually("the protection is lost", lambda: is_lost(protected) and lost)

    assert len(lost) == 1


@pytest.mark.slow
def test_a_loss_is_noticed_in_time_when_the_server_is_away(rig: Rig, api: Api) -> None:
    still: list[bool] = []

    def lost(_: ProtectionLost) -> None:
        still.append(rig.now() < rig.protections.find("shop", "copy:away").expires_at)

    server = Api(rig)
    server.__enter__()
    client = Sexton(server.url, server.token("sync:copy@shop"), patience_seconds=1)
    with (  # noqa: PT012
        pytest.raises(ProtectionLost, match="could not be renewed in time"),
        copying(client, "copy:away", 60, on_lost=lost),
    ):
        server.__exit__()
        eventually("the loss is reported", lambda: still)
    client.close()

    assert still == [True]


def test_a_forked_copy_finishes_no_protection_of_its_parent(client: Sexton, rig: Rig) -> None:
    with (
        pytest.raises(ProtectionLost, match="a copy of this process"),
        copying(client, "copy:forked") as protected,
    ):
        protected._pid = -1  # as after a fork

    assert state(rig, "copy:forked") is ProtectionState.ACTIVE


def test_an_error_of_the_copy_is_not_replaced_by_the_loss(client: Sexton, rig: Rig) -> None:
    with (  # noqa: PT012
        pytest.raises(RuntimeError, match="the target is full") as caught,
        copying(client, "copy:failed", LOST_SECONDS) as protected,
    ):
        rig.protections.release("shop", "copy:failed")
        eventually("the protection is lost", lambda: is_lost(protected))
        raise RuntimeError("the target is full")

    assert "is lost" in caught.value.__notes__[0]


@pytest.mark.slow
def test_a_new_registration_of_the_job_hides_no_loss(client: Sexton, rig: Rig) -> None:
    with pytest.raises(ProtectionLost), copying(client, "copy:again", RENEWED_SECONDS) as protected:  # noqa: PT012
        rig.protections.release("shop", "copy:again")
        other = [Item("disk", "data/b.dat")]
        of_bob = Protection(instance="shop", job="copy:again", owner="bob", digest=digest(other))
        rig.registrar.register_at_once(of_bob, other)
        eventually("the protection is lost", lambda: is_lost(protected))

    assert state(rig, "copy:again") is ProtectionState.ACTIVE


def test_an_impossible_renewal_is_a_loss(api: Api, client: Sexton) -> None:
    protections = api.app.state.service.stores.protections
    with (  # noqa: PT012
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(ProtectionLost),
        copying(client, "copy:short", LOST_SECONDS) as protected,
    ):
        patch.setattr(protections, "_settings", ProtectionSettings(max_seconds=1))
        eventually("the protection is lost", lambda: is_lost(protected))
    with pytest.raises(ProtectionLost), copying(client, "copy:closed", LOST_SECONDS) as protected:  # noqa: PT012
        client.close()
        eventually("the protection is lost", lambda: is_lost(protected))


@pytest.mark.slow
def test_a_copy_whose_thread_ended_is_not_renewed(client: Sexton, rig: Rig) -> None:
    protecting = copying(client, "copy:thread", RENEWED_SECONDS)
    thread = threading.Thread(target=protecting.__enter__)
    thread.start()
    thread.join()
    before = rig.protections.find("shop", "copy:thread").expires_at

    eventually("the protection is lost", lambda: is_lost(protecting))

    assert rig.protections.find("shop", "copy:thread").expires_at == before


def test_a_job_finished_from_outside_is_lost(client: Sexton, rig: Rig) -> None:
    with (  # noqa: PT012
        pytest.raises(ProtectionLost, match="finished"),
        copying(client, "copy:finished", RENEWED_SECONDS) as protected,
    ):
        rig.protections.finish("shop", "copy:finished")
        eventually("the protection is lost", lambda: is_lost(protected))
