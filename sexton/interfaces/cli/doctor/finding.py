"""One line of the doctor's output, and how it is made of problems."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

MAX_NAMED = 5
State = Literal["OK", "WARN", "FAIL"]


class DoctorFinding(NamedTuple):
    """The state of one dependency; `todo` is empty if there is no fault."""

    state: State
    about: str
    detail: str
    todo: str = ""


class Problem(NamedTuple):
    """One thing that is wrong; ``state`` is FAIL or WARN."""

    state: State
    text: str


def judged(about: str, problems: Iterable[Problem], fine: str, todo: str) -> DoctorFinding:
    """Return a finding with the worst problems, or that all is fine."""
    worst_first = sorted(problems, key=lambda problem: problem.state != "FAIL")
    if not worst_first:
        return DoctorFinding("OK", about, fine)
    more = f"; and {len(worst_first) - MAX_NAMED} more" if len(worst_first) > MAX_NAMED else ""
    detail = "; ".join(problem.text for problem in worst_first[:MAX_NAMED]) + more
    return DoctorFinding(worst_first[0].state, about, detail, todo)
