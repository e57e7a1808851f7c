"""Every operation is declared so that each door can be made from it."""

import re
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import pytest
from pydantic import Field

from sexton.operations.registry import Deed, Operation, Recording, operations
from sexton.operators.access.errors import Forbidden
from sexton.operators.access.model import Grant


class Someone:
    """A caller who has no grant but one; notes what is recorded."""

    name = "ada"

    def __init__(self, grant: Grant) -> None:
        self._grant, self.deeds = grant, list[Deed]()

    def require(self, grant: Grant, instance: str) -> None:
        if grant is not self._grant:
            raise Forbidden(f"{grant} in {instance}")

    def recorded(self, deed: Deed, *, keeps: bool = False) -> AbstractContextManager[None]:
        self.require(deed.grant, deed.instance)
        self.deeds.append(deed)
        return nullcontext()


def hold(deployment: list[str], instance: str, key: str, *, days: Annotated[int, Field(ge=1)] = 3, by: str) -> str:
    """Place something."""
    deployment.append(f"{instance} {key} {days} {by}")
    return key


HOLD = Operation("hold add", Grant.OPERATE, "POST", "/v1/instances/{instance}/holds", Recording("{key}"), hold)


def test_every_operation_has_what_its_doors_need() -> None:
    for name, operation in operations().items():
        assert re.fullmatch(r"[a-z]+ [a-z-]+", name), name
        assert f"\nExample: sexton {name}" in operation.about, f"{name} needs an example"
        assert set(re.findall(r"\{(\w+)\}", operation.path)) <= set(operation.parameters), name


def test_values_come_in_the_path_or_the_body() -> None:
    assert HOLD.path_names == {"instance"}
    assert HOLD.body is not None
    assert list(HOLD.body.model_fields) == ["key", "days"]
    assert list(HOLD.order.model_fields) == ["instance", "key", "days"]


def test_a_change_needs_the_grant_and_is_recorded() -> None:
    done: list[str] = []
    operator, reader = Someone(Grant.OPERATE), Someone(Grant.READ)
    values = {"instance": "shop", "key": "a", "days": 3}

    assert HOLD.run(done, operator, values) == "a"
    with pytest.raises(Forbidden, match="operate in shop"):
        HOLD.run(done, reader, values)
    assert done == ["shop a 3 ada"]
    assert operator.deeds == [Deed("hold add", "shop", Grant.OPERATE, "a")]
