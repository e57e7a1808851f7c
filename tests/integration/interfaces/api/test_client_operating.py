"""``sexton.client`` does what operators do; each method is compared with the database."""

from collections.abc import Iterator

import pytest

from sexton.client import RequestRefused, Sexton
from sexton.operators.controls.model import ListName
from tests.integration.interfaces.api.test_operating import quarantine, reasons
from tests.servers.api import Api
from tests.support.rig import Rig


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


def test_a_round_is_not_started_without_temporal(operator: Sexton) -> None:
    for request in (lambda: operator.run_round("shop"), lambda: operator.ask("round pause", instance="shop")):
        with pytest.raises(Exception, match="Temporal"):
            request()
