"""Every operation is declared so that each door can be made from it, and runs only for whom it is meant."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from sexton.interfaces.cli.questions import QUESTIONS
from sexton.kernel.errors import SextonError, WrongUsage
from sexton.operations.fields import Instance
from sexton.operations.registry import Call, Deed, Logged, Operation, operations
from sexton.operators.access.model import EVERY_INSTANCE, UNKNOWN_INSTANCE, Forbidden, Grant


class Someone:
    """A caller who has no grant but one; notes what is recorded."""

    name, node = "ada", ""

    def __init__(self, grant: Grant) -> None:
        self._grant, self.deeds, self.keeps = grant, list[Deed](), False

    def selected(self, instance: str | None) -> str:
        return instance or EVERY_INSTANCE

    def read(self, deed: Deed) -> None:
        if deed.grant is not self._grant:
            raise Forbidden(f"{deed.grant} in {deed.instance}")

    def recorded(self, deed: Deed, *, keeps: bool = False, routine: bool = False) -> AbstractContextManager[None]:
        self.read(deed)
        self.deeds += [] if routine else [deed]
        self.keeps = keeps
        return nullcontext()


def hold(call: Call, instance: Instance, key: str, *, days: Annotated[int, Field(ge=1)] = 3, reason: str = "") -> str:
    """Place something."""
    call.deployment.append(f"{instance} {key} {days} {call.by}")  # type: ignore[attr-defined]
    return key


def operation(record: Logged, function: Any = hold, path: str = "/v1/instances/{instance}/holds") -> Operation:
    return Operation("hold add", Grant.OPERATE, "POST", (path,), record, False, False, function)


class Done(list[str]):
    """What was done; every instance is registered but one."""

    @property
    def stores(self) -> Any:
        return SimpleNamespace(registry=SimpleNamespace(instance=self._known, resolve_instance=lambda _: "only"))

    def _known(self, name: str) -> str:
        if name == "unknown":
            raise SextonError("there is no instance unknown")
        return name


HOLD = operation(Logged("{key}"))


def test_every_operation_has_what_its_doors_need() -> None:
    assert {o.name for o in operations().values() if o.record.asks} == set(QUESTIONS)
    for name, declared in operations().items():
        assert re.fullmatch(r"[a-z]+( [a-z-]+){0,2}", name), name
        if declared.is_for_people:
            assert f"\nExample: sexton {name}" in declared.about, f"{name} needs an example"
        for path in declared.paths:
            assert set(re.findall(r"\{(\w+)\}", path)) <= set(declared.parameters), name


def test_values_come_in_the_path_or_the_body() -> None:
    assert HOLD.body is not None
    assert HOLD.path_names(HOLD.paths[0]) == {"instance"}
    assert (
        list(HOLD.order.model_fields) == ["instance", *HOLD.body.model_fields] == ["instance", "key", "days", "reason"]
    )


def run_in(done: Done, caller: Someone, instance: str | None, **more: object) -> Any:
    return HOLD.run(Call(done, caller), {"instance": instance, "key": "a", "days": 3, **more})  # type: ignore[arg-type]


def test_a_change_needs_the_grant_and_is_recorded() -> None:
    done, operator, reader = Done(), Someone(Grant.OPERATE), Someone(Grant.READ)

    assert run_in(done, operator, "shop", reason="why") == "a"
    with pytest.raises(Forbidden, match="operate in shop"):
        run_in(done, reader, "shop", reason="why")
    assert done == ["shop a 3 ada"]
    assert operator.deeds == [Deed("hold add", "shop", Grant.OPERATE, "a", "why")]


def test_values_decide_what_only_keeps_and_what_is_routine() -> None:
    def is_short(days: int, **_: object) -> bool:
        return days == 1

    for days in (1, 9):
        kept, routine = Someone(Grant.OPERATE), Someone(Grant.OPERATE)
        values = {"instance": "shop", "key": "a", "days": days}

        operation(Logged(keeps=is_short)).run(Call(Done(), kept), values)  # type: ignore[arg-type]
        operation(Logged(routine=is_short)).run(Call(Done(), routine), values)  # type: ignore[arg-type]

        assert (kept.keeps, len(routine.deeds)) == (days == 1, days != 1)


def test_what_was_started_is_awaited_while_the_record_is_open() -> None:
    class Open(Someone):
        is_open = False

        @contextmanager
        def recorded(self, deed: Deed, *, keeps: bool = False, routine: bool = False) -> Iterator[None]:
            self.is_open = True
            yield
            self.is_open = False

    operator = Open(Grant.OPERATE)
    given = {"instance": "shop", "key": "a", "days": 3}

    report = HOLD.run(Call(Done(), operator), given, lambda key: (key, operator.is_open))  # type: ignore[arg-type]

    assert (report, operator.is_open) == (("a", True), False)


def test_an_empty_instance_or_a_bare_duration_is_refused() -> None:
    unset, caller = operations()["settings unset"], Someone(Grant.OPERATE)

    with pytest.raises(WrongUsage, match="is a variable empty"):
        unset.run(Call(Done(), caller), {"instance": "", "key": "recycle.retention_seconds"})  # type: ignore[arg-type]
    for name, given in (("binlog set", {"ttl_seconds": "7"}), ("protection renew", {"ttl_seconds": "600"})):
        with pytest.raises(WrongUsage, match="of what"):
            operations()[name].refuse_bare(given)
    operations()["binlog set"].refuse_bare({"ttl_seconds": "forever", "max_bytes": "7"})


def test_the_log_of_calls_names_the_limits_of_a_log() -> None:
    keep = operations()["binlog set"].record.subject
    limits = {"max_bytes": None, "max_history_nums": 0, "from_seq": 0}

    assert callable(keep)
    assert keep(db="sales", table=None, ttl_seconds=0, **limits) == "sales: ttl 0, records 0, from 0"


def test_an_instance_is_the_only_one_or_a_registered_one() -> None:
    done, operator = Done(), Someone(Grant.OPERATE)
    run_in(done, operator, None)
    assert done == ["only a 3 ada"]

    done, operator = Done(), Someone(Grant.OPERATE)
    with pytest.raises(SextonError, match="unknown"):
        run_in(done, operator, "unknown")
    assert (done, [deed.instance for deed in operator.deeds]) == ([], ["unknown"])  # it was recorded before


def test_what_is_unknown_belongs_to_an_unknown_instance() -> None:
    def release(call: Call, number: int) -> str:
        return str(number)

    def of(_call: Call, number: int) -> str:
        if number > 1:
            raise SextonError("no such hold")
        return "shop"

    released = operation(Logged("{number}", of=of), release, "/v1/holds/{number}")
    operator = Someone(Grant.OPERATE)
    for number in (1, 2):
        released.run(Call(Done(), operator), {"number": number})  # type: ignore[arg-type]

    assert [(deed.instance, deed.is_named) for deed in operator.deeds] == [("shop", False), (UNKNOWN_INSTANCE, False)]


def test_true_is_no_number() -> None:
    for name, value in (("vault cap", {"vault": "v", "rate": True}), ("hold release", {"hold": True})):
        with pytest.raises(ValidationError, match="write a whole number"):
            operations()[name].order.model_validate(value)
