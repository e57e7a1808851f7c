"""Define what the activities of a round need from the stores of rounds and plans."""

from collections.abc import Callable
from typing import Protocol

from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder
from sexton.recycle.planning.model import Plan, Policy
from sexton.recycle.rounds.model import CloseOrder, DueInstances, OpenedRound


class RoundStorePort(Protocol):
    """Plans, rounds and reports, as rows."""

    def open(
        self, instance: str, run_id: str, plan: int | None, policy: Policy, heartbeat: Callable[[], None]
    ) -> OpenedRound:
        """Acquire the lease and open the round of this run; repeating it returns the same round.

        ``heartbeat`` is called between pages of marks.
        """
        ...

    def abandon(self, run_id: str, why: str = "cancelled", plan: int = 0, of: str = "") -> None:
        """End a round of an instance that had no lease yet, and the approval of its plan."""
        ...

    def release(self, opened: OpenedRound, why: str) -> None:
        """Release the lease while the round waits (paused, backing off), and record why."""
        ...

    def plan(self, instance: str, policy: Policy, by: str, heartbeat: Callable[[], None]) -> Plan:
        """Fix the cutoffs and counts of a plan, and store it; ``heartbeat`` is called between pages of marks."""
        ...

    def find_plan(self, plan: int) -> Plan:
        """Return a stored plan."""
        ...

    def checked_range(self, order: RangeOrder, policy: Policy) -> RangeOrder:
        """Return the order as far as the rows allow it, or raise ``OrderRefused``."""
        ...

    def checked_adoption(self, order: AdoptOrder, policy: Policy) -> AdoptOrder:
        """Return the order as far as the rows allow it, or raise ``OrderRefused``."""
        ...

    def close(self, order: CloseOrder) -> RoundReport:
        """End the round, free the lease and store the report."""
        ...

    def forget_expired(self, instance: str, heartbeat: Callable[[], None]) -> None:
        """Delete rows whose time is over; ``heartbeat`` is called between pages of rows."""
        ...


class EndingProtections(Protocol):
    """Ends the protections of sync jobs."""

    def end_due(self, instance: str) -> object:
        """End the protections of an instance that have expired."""
        ...

    def delete_ended_rows(self) -> object:
        """Delete the rows of protections that ended long ago."""
        ...


class InstanceSchedulePort(Protocol):
    """Knows when instances are due."""

    def due(self) -> DueInstances:
        """Return the instances whose round should start now, and how many may start."""
        ...
