"""Checks and their findings; and the comparison of a front end's memory with the records."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from sexton.check.model import Finding, RepairResult, Run
from sexton.kernel.message import Message
from sexton.protocol.body import MAX_NAME, Body, Names, Reason

__all__ = ["Acceptance", "ChecksBody", "Finding", "Findings", "Inventory", "RepairOrder", "Repaired", "StartedCheck"]


class Inventory(Body):
    """The ids of one kind of record that a front end has in memory, in the range after ``after``, up to ``until``."""

    kind: Annotated[str, Field(min_length=1, max_length=64)]
    ids: Names
    after: Annotated[str, Field(max_length=MAX_NAME)] = ""
    until: Annotated[str, Field(max_length=MAX_NAME)] = ""


class RepairOrder(Body):
    """What is repaired: confirmed orphans become marks; confirmed losses are undeleted from object versions.

    ``key_prefix`` and ``limit`` go with orphans: only those whose key begins with it; the oldest findings first.
    """

    what: Literal["orphans", "lost"]
    key_prefix: Annotated[str, Field(max_length=MAX_NAME)] = ""
    limit: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None
    dry_run: bool = False
    """Only count."""

    @model_validator(mode="after")
    def _bounds_orphans(self) -> "RepairOrder":
        if self.what == "lost" and (self.key_prefix or self.limit is not None):
            raise ValueError("key_prefix and limit go with orphans")
        return self


class Acceptance(Body):
    """Why a finding is correct."""

    reason: Reason


class Repaired(Message):
    """What a repair did. ``awaits``: why no round deletes these orphans before an operator has applied a plan."""

    result: RepairResult
    awaits: str = ""


class StartedCheck(Message):
    """The check that was started."""

    instance: str
    workflow: str
    run: str


class ChecksBody(BaseModel):
    """Checks, the newest first."""

    checks: tuple[Run, ...]


class Findings(BaseModel):
    """Findings, in the order of their numbers."""

    findings: tuple[Finding, ...]
