"""A copy learns in time that its protection is lost; ``sexton.client`` does what operators do, compared with rows."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.client import Item, ProtectionLost, RequestRefused, Sexton
from sexton.client.protecting import Protecting
from sexton.client.renewing import Renewals
from sexton.operators.controls.model import ListName
from sexton.protection.model import Protection, ProtectionSettings, ProtectionState
from sexton.protection.policy import digest
from tests.integration.interfaces.api.copies import LOST_SECONDS, OBJECT, RENEWED_SECONDS, state
from tests.integration.interfaces.api.test_operating import quarantine, reasons
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.fixture
def operator(api: Api) -> Iterator[Sexton]:
    with Sexton(api.url, api.token("operate@*"), patience_seconds=5) as client:
        yield client


def test_an_operator_holds_and_releases(operator: Sexton, rig: Rig) -> None:
    placed = operator.hold("shop", seconds=60, reason="x")
    active = [hold.id for hold in operator.holds("shop").items]
    kept = rig.round().deleted
    operator.release_hold(placed.hold.id, reason="it was a drill")
    ended = operator.holds("shop", ended=True, limit=1)

    assert (active, kept, placed.blocks_now) == ([placed.hold.id], 0, len(operator.marks("shop").items))
    assert (operator.holds("shop").items, ended.items[0].id, ended.next) == ((), placed.hold.id, "")
    assert rig.round().deleted > 0


def test_an_operator_searches_the_marks_of_a_plan(operator: Sexton) -> None:
    plan = operator.plan("shop").plan.id
    everything = operator.plan_marks(plan).items
    found = operator.plan_marks(plan, under="data/a").items
    with pytest.raises(RequestRefused, match="there is no plan 999"):
        operator.plan_marks(999)

    assert len(everything) > len(found) == 1


def test_an_operator_lists_retries_and_discards_marks(operator: Sexton, rig: Rig) -> None:
    quarantine(rig, "BAD_KEY", "q1", "q2")
    listed = operator.marks("shop", state="QUARANTINED", limit=1)
    rest = operator.marks("shop", state="QUARANTINED", after=listed.next)

    retried = operator.retry_quarantined("shop", "dropped/q1")
    discarded = operator.discard("shop", "dropped/q2", reason="kept by hand")
    with pytest.raises(RequestRefused) as refused:
        operator.discard("shop", "dropped/q2", reason="again")

    assert [mark.mark for mark in (*listed.items, *rest.items)] == ["q1", "q2"]
    assert (retried.marks, discarded.id, reasons(rig)) == (1, "q2", {"q1": None})
    assert refused.value.code == "NOT_QUARANTINED"


def test_an_operator_reads_rounds_plans_and_the_log(operator: Sexton, rig: Rig) -> None:
    plan = operator.plan("shop").plan.id
    report = rig.round()
    operator.stop("shop", reason="drill")

    assert plan in [row.id for row in operator.plans("shop").items]
    assert operator.round_(report.round).round.report == report
    assert [row.id for row in operator.rounds("shop", limit=1).items] == [report.round]
    assert [call.action for call in operator.call_log(instance="shop", limit=1).items] == ["stop"]
    with pytest.raises(RequestRefused, match="awaits no approval"):
        operator.reject(plan, reason="a mistake")


def test_an_operator_sets_modes_caps_and_lists(operator: Sexton, rig: Rig) -> None:
    operator.observe("shop", reason="drill")
    observed = operator.instances().items[0].mode
    operator.enable("shop")
    operator.cap("shop", "disk", 500, reason="shared")
    capped = operator.vaults("shop").items[0]
    operator.uncap("shop", "disk")
    added = operator.add_to_list(ListName.BLACKLIST, "shop", reason="drill")
    listed = [entry.name for entry in operator.lists().items]
    removed = operator.remove_from_list(ListName.BLACKLIST, "shop")

    assert (observed, rig.registry.instance("shop").mode) == ("observe", "enabled")
    assert (capped.keys_per_second, capped.proof) == (500, "ours")
    assert operator.vaults("shop", prove=False).items[0].keys_per_second is None
    assert (added.listed, listed, removed.listed) == (True, ["shop"], False)
    assert operator.pace().places == ()


@pytest.mark.slow
def test_a_round_is_not_started_without_temporal(operator: Sexton) -> None:
    for request in (lambda: operator.run_round("shop"), lambda: operator.ask("round pause", instance="shop")):
        with pytest.raises(Exception, match="Temporal"):
            request()
