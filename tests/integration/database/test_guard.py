"""Who takes an instance's guard: each decision, as the first statement of its transaction and before its checks."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from sexton import contract
from sexton.contract import NewMark
from sexton.database.engine import LOCK_SECONDS
from sexton.database.guard import EVERYTHING, UnknownInstance, deciding
from sexton.kernel.errors import GuardBusy
from sexton.marks.model import Candidate, ClaimRequest, DueMark, Reason, Ref, Unresolvable
from sexton.operators.holds.model import Hold
from sexton.protection.model import Protection
from sexton.storage.model import VaultSpec
from tests.support.claims import FAR_MS, claim, token
from tests.support.rig import Rig
from tests.support.transactions import recorded_transactions

T = Ref("dropped", "t")


def discard(rig: Rig, root: Path) -> object:
    return rig.stores.quarantine.discard("shop", T, "its owner has it")


def open_protection(rig: Rig, root: Path) -> object:
    return rig.protections.open(Protection(instance="shop", job="copy", owner="sync", digest="0" * 64), 60)


def add_vault(rig: Rig, root: Path) -> object:
    spec = VaultSpec(instance="shop", name="cold", kind="local", location=str(root))
    return rig.registry.insert_vault(spec, "")


def quarantine(rig: Rig, root: Path) -> object:
    mark = DueMark(kind="dropped", id="u", retention_starts_at=0, vault="disk", prefix=None, keys=("u.dat",), bytes=0)
    return rig.stores.quarantine.quarantine(token(rig, run="other"), [Unresolvable(mark, Reason.NO_VAULT, "")])


def set_hold(rig: Rig, root: Path) -> object:
    return rig.holds.place(Hold(instance="shop", scope="instance", reason="an incident"), 60)


DECISIONS: dict[str, Callable[[Rig, Path], object]] = {
    "claim": lambda rig, _: rig.stores.claims.claim(ClaimRequest(token(rig, run="other"), [Candidate(T)], FAR_MS)),
    "second listing": lambda rig, _: rig.stores.claims.ask_keepers_outside_claim(
        token(rig, run="other"), [Candidate(T)]
    ),
    "quarantine": quarantine,
    "retry": lambda rig, _: rig.stores.quarantine.retry("shop"),
    "discard": discard,
    "take back": lambda rig, _: rig.stores.owner_marks.take_back("shop", {"dropped": ["table"]}, {"table": FAR_MS}),
    "hold": set_hold,
    "register": open_protection,
    "wait for claims": lambda rig, _: rig.protections.wait_for_claims("shop"),
    "enable": lambda rig, _: rig.registry.enable("shop"),
    "observe": lambda rig, _: rig.registry.observe("shop"),
    "add a vault": add_vault,
    "acquire a lease": lambda rig, _: rig.leases.acquire("shop", "check", "a"),
}


@pytest.fixture
def shop(rig: Rig) -> Rig:
    """An instance with a quarantined mark, and one that may be claimed."""
    rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"{name}.dat",)) for name in ("t", "u")))
    rig.sql("UPDATE {}mark SET quarantined_reason = :reason WHERE id = 't'", reason=Reason.CHANGED)
    return rig


def guard_of(rig: Rig, instance: str = "shop") -> int:
    t = rig.db.t.instance_guard
    with rig.db.read() as c:
        return int(c.execute(select(t.c.seq).where(t.c.instance == instance)).scalar_one())


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_takes_the_guard_before_it_checks(shop: Rig, tmp_path: Path, decision: str) -> None:
    before = guard_of(shop)

    with recorded_transactions(shop.db) as transactions:
        DECISIONS[decision](shop, tmp_path)

    assert guard_of(shop) > before
    guarded = [t for t in transactions if any("instance_guard" in statement for statement in t)]
    assert guarded
    assert all(t[0].startswith("UPDATE") and "instance_guard" in t[0] for t in guarded)
    written = [s for t in transactions if t not in guarded for s in t if "mark " in s and s.startswith("UPDATE")]
    assert written == []


def test_an_undrop_takes_the_guard(shop: Rig) -> None:
    before = guard_of(shop)

    with shop.db.write() as c:
        contract.undrop(c, "shop", "dropped", ["u"])

    assert guard_of(shop) == before + 1


def test_leases_are_counted_under_one_guard_for_all(shop: Rig) -> None:
    before = guard_of(shop, EVERYTHING)

    shop.leases.acquire("shop", "check", "a")

    assert guard_of(shop, EVERYTHING) == before + 1


def test_a_decision_leaves_other_instances_unguarded(shop: Rig) -> None:
    shop.instance("bank")
    before = guard_of(shop, "bank")

    claim(shop, token(shop), "dropped", "u")

    assert guard_of(shop, "bank") == before


@pytest.mark.parametrize("instances", [("nope",), (EVERYTHING, "nope")])
def test_an_unregistered_instance_is_not_decided_about(shop: Rig, instances: tuple[str, ...]) -> None:
    with pytest.raises(UnknownInstance, match="unknown instance nope"), deciding(shop.db, *instances):
        raise AssertionError("entered")


def test_a_second_decision_waits_for_the_first(shop: Rig) -> None:
    order: list[str] = []
    entered = threading.Event()

    def second() -> None:
        entered.set()
        with deciding(shop.db, "shop"):
            order.append("second")

    thread = threading.Thread(target=second)
    with deciding(shop.db, "shop"):
        thread.start()
        assert entered.wait(10)
        thread.join(0.2)
        order.append("first")
    thread.join(10)

    assert order == ["first", "second"]


def test_a_guard_held_too_long_is_reported_as_busy(rig: Rig) -> None:
    errors: list[Exception] = []

    def count_leases() -> None:
        try:
            rig.leases.acquire("shop", "check", "a")
        except GuardBusy as e:
            errors.append(e)

    with deciding(rig.db, "shop"):
        thread = threading.Thread(target=count_leases)
        thread.start()
        thread.join(10)

    assert [str(e) for e in errors] == ["another transaction holds the guard of * or shop; retry when it ends"]


def test_a_holder_of_the_first_guard_waits_briefly_for_the_next(rig: Rig) -> None:
    with deciding(rig.db, "shop"):
        began = time.monotonic()
        with pytest.raises(GuardBusy):
            rig.leases.acquire("shop", "check", "a")  # all other acquisitions wait for it

        assert time.monotonic() - began < LOCK_SECONDS


def rolled_back(rig: Rig) -> Any:
    """Decide, and fail."""
    with deciding(rig.db, "shop"):
        raise KeyError("a decision that fails")


def test_a_decision_that_fails_leaves_the_guard_free(shop: Rig) -> None:
    before = guard_of(shop)

    with pytest.raises(KeyError):
        rolled_back(shop)

    assert guard_of(shop) == before
