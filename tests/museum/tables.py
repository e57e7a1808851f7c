"""Read Sexton's tables with a plain driver, and compare them with reports and listings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg

from sexton.recycle.model import RoundReport
from tests.servers.postgres import driver_url
from tests.support.rig import GRACE, Rig

Rows = Sequence[tuple[Any, ...]]


def rows(rig: Rig, query: str) -> Rows:
    """Return the rows of a query; ``{}`` before a name stands for Sexton's schema."""
    with psycopg.connect(driver_url(rig.url)) as connection:
        return connection.execute(query.replace("{}", "sexton.").encode()).fetchall()


def marks(rig: Rig) -> dict[str, str]:
    """Return id → state of every mark."""
    return {str(r[0]): str(r[1]) for r in rows(rig, "SELECT id, state FROM {}mark")}


def deleted_ids(rig: Rig) -> set[str]:
    """Return the ids of the deleted marks, from the history."""
    return {str(r[0]) for r in rows(rig, "SELECT id FROM {}mark_history")}


def run_clean_rounds(rig: Rig, *, rounds: int = 1) -> list[RoundReport]:
    """Run a round and then ``rounds`` more, each after the upload grace; return their reports."""
    reports = [rig.round()]
    for _ in range(rounds):
        rig.later(GRACE + 1)
        reports.append(rig.round())
    return reports


def check_sums(rig: Rig, reports: Iterable[RoundReport], before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Assert that reports, tables and listings agree about the deleted objects, if no mark is half deleted.

    Args:
        rig: its marks have the true bytes, and every deleted object existed.
        reports: the reports of all its rounds.
        before: key → bytes, listed without Sexton when all was written.
        after: the same now.
    """
    all_reports, deleted = list(reports), set(before) - set(after)

    def total(name: str) -> int:
        return sum(getattr(r, name) for r in all_reports)

    assert total("deleted") == len(deleted)
    assert total("bytes_freed") + total("bytes_estimated") == sum(before[key] for key in deleted)
    assert total("claimed") == total("removed") == len(deleted_ids(rig))
    assert rows(rig, "SELECT count(*) FROM {}mark WHERE state = 'CLAIMED'") == [(0,)]
    assert rows(rig, "SELECT count(*) FROM {}file_list") == [(0,)]
    [(tallied,)] = rows(rig, "SELECT coalesce(sum(deleted), 0) FROM {}tally")
    assert tallied == len(deleted)
