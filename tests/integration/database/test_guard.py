"""Who takes an instance's guard: each decision, as the first statement of its transaction and before its checks."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sexton.database.engine import LOCK_SECONDS
from sexton.database.guard import EVERYTHING, UnknownInstance, deciding
from sexton.kernel.errors import GuardBusy
from sexton.marks.model import Candidate, ClaimRequest, DueMark, Reason, Ref, Unresolvable
from sexton.operators.holds.model import Hold
from sexton.protection.model import Protection
from sexton.storage.model import VaultSpec
from tests.support.claims import FAR_MS, claim, mark_keys, token
from tests.support.eventually import PATIENCE_SECONDS
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
    mark_keys(rig, "t", "u")
    quarantine_t(rig)
    return rig


def quarantine_t(rig: Rig) -> None:
    rig.update("mark", {"id": "t"}, quarantined_reason=Reason.CHANGED)


def guard_of(rig: Rig, instance: str = "shop") -> int:
    return next(int(guard.seq) for guard in rig.rows("instance_guard") if guard.instance == instance)


def test_a_decision_takes_the_guard_before_it_checks(shop: Rig, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, decide in DECISIONS.items():
        with subtests.test(decision=name):
            quarantine_t(shop)  # unless an earlier decision discarded it
            before = guard_of(shop)

            with recorded_transactions(shop.db) as transactions:
                decide(shop, tmp_path)

            assert guard_of(shop) > before
            guarded = [t for t in transactions if any("instance_guard" in statement for statement in t)]
            assert guarded
            assert all(t[0].startswith("UPDATE") and "instance_guard" in t[0] for t in guarded)
            written = [
                s for t in transactions if t not in guarded for s in t if "mark " in s and s.startswith("UPDATE")
            ]
            assert written == []


def test_the_guard_is_of_the_instance_alone_or_of_all(shop: Rig) -> None:
    shop.instance("bank")
    guards = [{name: guard_of(shop, name) for name in ("shop", "bank", EVERYTHING)}]
    shop.undrop_marks("dropped", "u")
    guards.append({name: guard_of(shop, name) for name in guards[0]})
    shop.leases.acquire("shop", "check", "a")  # leases are counted under one guard for all
    guards.append({name: guard_of(shop, name) for name in guards[0]})
    claim(shop, token(shop), "dropped", "t")

    assert guards[1] == guards[0] | {"shop": guards[0]["shop"] + 1}
    assert guards[2][EVERYTHING] == guards[1][EVERYTHING] + 1
    assert guard_of(shop, "bank") == guards[0]["bank"]


def test_a_decision_that_fails_leaves_the_guard_free(rig: Rig) -> None:
    before = guard_of(rig)
    for instances in (("nope",), (EVERYTHING, "nope")):
        with pytest.raises(UnknownInstance, match="unknown instance nope"), deciding(rig.db, *instances):
            raise AssertionError("entered")

    with pytest.raises(KeyError), deciding(rig.db, "shop"):
        raise KeyError("a decision that fails")

    assert guard_of(rig) == before


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
        assert entered.wait(PATIENCE_SECONDS)
        thread.join(0.2)
        order.append("first")
    thread.join(10)

    assert order == ["first", "second"]


def test_a_guard_held_too_long_is_reported_as_busy(rig: Rig) -> None:
    with deciding(rig.db, "shop"):
        began = time.monotonic()
        with pytest.raises(GuardBusy, match=r"^another transaction holds the guard of \* or shop; retry when it ends$"):
            rig.leases.acquire("shop", "check", "a")  # it holds the first guard: all other acquisitions wait for it

        assert time.monotonic() - began < LOCK_SECONDS
