"""What the tables say, read with a plain driver, and whether it adds up with what rounds say and a listing shows."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg

from sexton.recycle.model import RoundReport
from tests.support.rig import GRACE, Rig

Rows = Sequence[tuple[Any, ...]]


def rows(rig: Rig, query: str) -> Rows:
    """Return what a query finds; ``{}`` before a name stands for Sexton's schema or prefix."""
    if rig.url.startswith("sqlite:///"):
        lite = sqlite3.connect(f"file:{rig.url.removeprefix('sqlite:///')}?mode=ro", uri=True)
        try:
            return lite.execute(query.replace("{}", "sexton_")).fetchall()
        finally:
            lite.close()
    with psycopg.connect(rig.url.replace("+psycopg", "")) as connection:
        return connection.execute(query.replace("{}", "sexton.").encode()).fetchall()


def marks(rig: Rig) -> dict[str, str]:
    """Return id → state of every mark that is there."""
    return {str(r[0]): str(r[1]) for r in rows(rig, "SELECT id, state FROM {}mark")}


def gone(rig: Rig) -> set[str]:
    """Return the ids in the history."""
    return {str(r[0]) for r in rows(rig, "SELECT id FROM {}mark_history")}


def clean(rig: Rig, *, rounds: int = 1) -> list[RoundReport]:
    """Run rounds with nothing in their way, each after the upload grace; return their reports."""
    done = [rig.round()]
    for _ in range(rounds):
        rig.later(GRACE + 1)
        done.append(rig.round())
    return done


def check_sums(rig: Rig, reports: Iterable[RoundReport], before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Compare what rounds say went with what a listing misses, where nothing is left half done.

    Args:
        rig: its marks told the true bytes, and every object that went was there.
        reports: of all its rounds.
        before: key → bytes, listed without Sexton when all was written.
        after: the same now.
    """
    told, of = list(reports), set(before) - set(after)

    def total(name: str) -> int:
        return sum(getattr(r, name) for r in told)

    assert total("deleted") == len(of)
    assert total("bytes_freed") + total("bytes_estimated") == sum(before[key] for key in of)
    assert total("claimed") == total("removed") == len(gone(rig))
    assert rows(rig, "SELECT count(*) FROM {}mark WHERE state = 'CLAIMED'") == [(0,)]
    assert rows(rig, "SELECT count(*) FROM {}mark_file") == [(0,)]
    [(tallied,)] = rows(rig, "SELECT coalesce(sum(deleted), 0) FROM {}tally")
    assert tallied == len(of)
