"""Checks and their findings; and the comparison of a front end's memory with the records."""

from typing import Annotated

from pydantic import BaseModel, Field

from sexton.check.model import Finding, Run
from sexton.protocol.body import MAX_NAME, Body, Names


class Inventory(Body):
    """The ids of one kind of record that a front end has in memory, in the range after ``after``, up to ``until``."""

    kind: Annotated[str, Field(min_length=1, max_length=64)]
    ids: Names
    after: Annotated[str, Field(max_length=MAX_NAME)] = ""
    until: Annotated[str, Field(max_length=MAX_NAME)] = ""


class ChecksBody(BaseModel):
    """Checks, the newest first."""

    checks: tuple[Run, ...]


class Findings(BaseModel):
    """Findings, in the order of their numbers."""

    findings: tuple[Finding, ...]
