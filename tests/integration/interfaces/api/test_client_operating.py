"""``sexton.client`` does what operators do; each method is compared with the database."""

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from sexton.client import RequestRefused, Sexton
from sexton.protocol.operating import MarkQuery, NewHold, RetryOrder
from tests.integration.interfaces.api.test_operating import quarantine, reasons
from tests.servers.api import Api
from tests.support.rig import Rig


@pytest.fixture
def operator(api: Api) -> Iterator[Sexton]:
    with Sexton(api.url, api.token("operate@*"), patience_seconds=5) as client:
        yield client


def test_an_operator_holds_and_releases(operator: Sexton, rig: Rig) -> None:
    placed = operator.hold("shop", NewHold(scope="instance", seconds=60, reason="x"))
    active = [hold.id for hold in operator.holds("shop").holds]
    kept = rig.round().deleted
    operator.release_hold("shop", placed.hold.id, "it was a drill")
    ended = operator.holds("shop", ended=True, limit=1)

    assert (active, kept, placed.blocks_now) == ([placed.hold.id], 0, len(operator.marks("shop").marks))
    assert (operator.holds("shop").holds, ended.holds[0].id, ended.next) == ((), placed.hold.id, "")
    assert rig.round().deleted > 0


def test_an_operator_searches_the_marks_of_a_plan(operator: Sexton, rig: Rig) -> None:
    plan = operator.plan("shop").plan.id
    everything = operator.marks("shop", MarkQuery(plan=plan)).marks
    found = operator.marks("shop", MarkQuery(plan=plan, under="data/a")).marks
    rig.instance("depot")
    with pytest.raises(RequestRefused, match=f"there is no plan {plan}"):
        operator.marks("depot", MarkQuery(plan=plan))
    with pytest.raises(ValidationError, match="leave the parent and the state out"):
        MarkQuery(plan=plan, state="CLAIMED")

    assert len(everything) > len(found) == 1


def test_an_operator_lists_retries_and_discards_marks(operator: Sexton, rig: Rig) -> None:
    quarantine(rig, "BAD_KEY", "q1", "q2")
    listed = operator.marks("shop", MarkQuery(state="QUARANTINED", limit=1))
    rest = operator.marks("shop", MarkQuery(state="QUARANTINED", after=listed.next))

    retried = operator.retry_quarantined("shop", RetryOrder(mark="dropped/q1"))
    discarded = operator.discard("shop", "dropped/q2", "kept by hand")
    with pytest.raises(RequestRefused) as refused:
        operator.discard("shop", "dropped/q2", "again")

    assert [mark.mark for mark in (*listed.marks, *rest.marks)] == ["q1", "q2"]
    assert (retried.marks, discarded.id, reasons(rig)) == (1, "q2", {"q1": None})
    assert refused.value.code == "NOT_QUARANTINED"


def test_an_operator_reads_rounds_plans_and_the_log(operator: Sexton, rig: Rig) -> None:
    plan = operator.plan("shop").plan.id
    report = rig.round()
    operator.stop("drill", "shop")

    assert plan in [row.id for row in operator.plans("shop").plans]
    assert operator.round_("shop", report.round).round.report == report
    assert [row.id for row in operator.rounds("shop", limit=1).rounds] == [report.round]
    assert [call.action for call in operator.call_log("shop", limit=1).calls] == ["stop"]
    with pytest.raises(RequestRefused, match="awaits no approval"):
        operator.reject(plan, "a mistake")


def test_an_operator_sets_modes_caps_and_lists(operator: Sexton, rig: Rig) -> None:
    operator.observe("shop", "drill")
    observed = operator.instances().instances[0].mode
    operator.enable("shop")
    operator.cap("shop", "disk", 500, "shared")
    capped = operator.vaults("shop", prove=True).vaults[0]
    operator.clear_cap("shop", "disk")
    added = operator.add_to_list("blacklist", "shop", "drill")
    listed = [control.name for control in operator.lists().controls]
    removed = operator.remove_from_list("blacklist", "shop")

    assert (observed, rig.registry.instance("shop").mode) == ("observe", "enabled")
    assert (capped.keys_per_second, capped.fault) == (500, "")
    assert operator.vaults("shop").vaults[0].keys_per_second is None
    assert (added.listed, listed, removed.listed) == (True, ["shop"], False)
    assert operator.pace().places == ()


def test_a_round_is_not_started_without_temporal(operator: Sexton) -> None:
    for request in (lambda: operator.run_round("shop"), lambda: operator.signal_round("shop", "pause")):
        with pytest.raises(Exception, match="Temporal"):
            request()
