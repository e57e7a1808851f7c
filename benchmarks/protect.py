"""Sync protection: what a registration of a million objects costs, what a million rows cost a claim, and its filters.

Goals: at most 100 requests, each holding the guard for at most 100 ms, on PostgreSQL; a claim beside a million rows of
others, in a thousand protections, takes at most 10 % longer; a filter has no false negative.
"""

import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import event, text

from benchmarks.results import Figure, Result, at_most
from benchmarks.scratch import scratch
from sexton.client import Filter, Item, Sexton
from sexton.client.protecting import RegistrationRequest
from sexton.contract import NewMark
from tests.servers.api import Api
from tests.servers.postgres import Cluster
from tests.support.rig import Rig

OBJECTS, PAIRS = 1_000_000, 7
PROTECTIONS = 1_000
MARKS = 20_000
FOLDER = 10_000
MOST_REQUESTS, MOST_MILLISECONDS, MOST_RATIO = 100, 100, 1.10
SEEDS, RATES = (0, 1, 2), (0.01, 0.001)


@contextmanager
def _guarded(engine: Any) -> Iterator[list[float]]:
    """Yield the milliseconds of each hold of an instance's guard: from the lock to after the commit."""
    held: list[float] = []

    def locked(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE") and "instance_guard" in statement:
            connection.info["guarded"] = time.perf_counter()

    def freed(_dbapi: Any, record: Any) -> None:
        if (began := record.info.pop("guarded", None)) is not None:
            held.append(1000 * (time.perf_counter() - began))

    event.listen(engine, "after_cursor_execute", locked)
    event.listen(engine, "checkin", freed)
    yield held
    event.remove(engine, "after_cursor_execute", locked)
    event.remove(engine, "checkin", freed)


def _registration(rig: Rig, root: Path, objects: int) -> dict[str, Any]:
    """Register so many objects over the API, from files that are there."""
    for folder in range(0, objects, FOLDER):
        (root / f"d/{folder}").mkdir(parents=True)
        for n in range(folder, min(folder + FOLDER, objects)):
            os.close(os.open(root / f"d/{folder}/{n:07}.dat", os.O_CREAT | os.O_WRONLY))
    names = [f"disk/d/{n - n % FOLDER}/{n:07}.dat" for n in range(objects)]
    sent: list[float] = []
    began = time.perf_counter()

    def ended(answer: httpx.Response) -> None:
        answer.read()
        sent.append(answer.elapsed.total_seconds())

    with Api(rig) as api, _guarded(rig.db.engine) as held:
        client = Sexton(api.url, api.token("sync:copy@shop"), timeout_seconds=120, event_hooks={"response": [ended]})
        made = client.register(RegistrationRequest("shop", "copy:1", owner="benchmark", objects=names))
        client.close()
    seconds = time.perf_counter() - began
    if made.sealed is None or (made.sealed.objects, made.sealed.missing) != (objects, 0):
        raise AssertionError(f"registered {made.sealed}")
    rig.protections.release("shop", "copy:1")
    return {"requests": len(sent), "seconds": seconds, "slowest_request": max(sent), "guard_ms": held}


def _claims(rig: Rig, pairs: int, objects: int, marks: int) -> dict[str, list[float]]:
    """Claim the same marks in an instance with rows of others and in one without, in turns; seconds in the claim."""
    each = objects // PROTECTIONS
    t = rig.db.t
    with rig.db.write() as c:
        c.execute(
            text(
                f"INSERT INTO {t.protection.fullname} (instance, job, owner, state, registered_at, expires_at, digest,"
                " changes) SELECT 'with', 'job-' || n, 'benchmark', 'ACTIVE', now(), now() + interval '20 years', '',"
                f" 1 FROM generate_series(1, {PROTECTIONS}) n"
            )
        )
        c.execute(
            text(
                f"INSERT INTO {t.protection_item.fullname} (instance, vault, key, prefix, protection)"
                " SELECT 'with', 'disk', 'other/' || p.id || '/' || n, false, p.id"
                f" FROM {t.protection.fullname} p, generate_series(1, {each}) n WHERE p.instance = 'with'"
            )
        )
    with rig.db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
        c.exec_driver_sql("VACUUM ANALYZE")  # as it would have been by then; not beside what is measured
    took: dict[str, list[float]] = {"with": [], "without": []}
    claim, spent = rig.stores.claims.claim, [0.0]

    def timed(*given: Any) -> Any:
        began = time.perf_counter()
        try:
            return claim(*given)
        finally:
            spent[0] += time.perf_counter() - began

    rig.stores.claims.claim = timed  # type: ignore[method-assign]
    for pair in range(-1, pairs):  # the first is for the caches
        for name in sorted(took, reverse=bool(pair % 2)):
            every = (NewMark(id=f"{pair}-{n}", vault="disk", keys=(f"data/{pair}/{n}",)) for n in range(marks))
            rig.mark("dropped", *every, instance=name)
            rig.later(10_801)
            spent[0] = 0.0
            report = rig.round(name)
            if report.removed != marks:
                raise AssertionError(f"{report.removed} of {marks} marks went")
            if pair >= 0:
                took[name].append(spent[0])
    return took


def _filters(objects: int) -> list[dict[str, Any]]:
    """Build filters of real keys and ask about each of them, and about as many others."""
    random.seed(7)
    keys = [Item("cold", f"data/{n % 997}/{random.getrandbits(128):032x}_{n % 9}.dat") for n in range(objects)]
    found = []
    for size, rate, seed in [(objects, r, s) for r in RATES for s in SEEDS] + [(objects // 100, 0.001, 0)]:
        some = keys[:size]
        began = time.perf_counter()
        filter_ = Filter.build(some, size, false_positives=rate, seed=seed)
        built = time.perf_counter()
        filter_ = Filter.parse(bytes(filter_))
        parsed = time.perf_counter()
        missed = sum(not filter_.covers(i.vault, i.key) for i in some)
        asked = time.perf_counter()
        others = sum(filter_.covers("cold", f"none/{n}.dat") for n in range(size))
        found.append(
            {
                "keys": size,
                "rate": rate,
                "seed": seed,
                "missed": missed,
                "false_positives": others / size,
                "bits_per_key": 8 * len(bytes(filter_)) / size,
                "build_per_second": size / (built - began),
                "ask_per_second": size / (asked - parsed),
            }
        )
    return found


def run(objects: int = OBJECTS, pairs: int = PAIRS, marks: int = MARKS) -> Result:
    """Measure on PostgreSQL; filters need no database."""
    filters = _filters(objects)
    cluster = Cluster()
    try:
        with scratch() as scratches:
            rig = Rig(cluster.new_database()).instance("shop").instance("with").instance("without")
            root = rig.local(scratches.memory / "v")
            for name in ("with", "without"):
                rig.local(scratches.memory / name, instance=name)
            registered = _registration(rig, root, objects)
            claims = _claims(rig, pairs, objects, marks)
            rig.db.close()
    finally:
        cluster.stop()
    ratios = [w / o for w, o in zip(claims["with"], claims["without"], strict=True)]
    guard = registered["guard_ms"]
    figures = [
        Figure(
            f"requests that register {objects:,} objects",
            str(registered["requests"]),
            f"<= {MOST_REQUESTS}",
            registered["requests"] <= MOST_REQUESTS,
        ),
        at_most("the longest hold of the guard of them", max(guard), MOST_MILLISECONDS, "ms", 1),
        Figure("the median hold", f"{statistics.median(guard):.1f} ms"),
        Figure("registering them, with a look for each", f"{registered['seconds']:.0f} s"),
        at_most(
            f"claims beside {objects:,} rows in {PROTECTIONS:,} protections", statistics.median(ratios), MOST_RATIO, "x"
        ),
        *_told(filters),
    ]
    sizes = {"objects": f"{objects:,}", "pairs": pairs, "marks of a claim's round": f"{marks:,}"}
    runs = {"registration": registered, "claims": claims, "filters": filters}
    return Result("protect", sizes, figures, runs)


def _told(filters: Sequence[dict[str, Any]]) -> Iterator[Figure]:
    missed, asked = sum(f["missed"] for f in filters), sum(f["keys"] for f in filters)
    yield Figure(f"keys that a filter built from them denied, of {asked:,}", str(missed), "= 0", missed == 0)
    for rate in RATES:
        its = [f for f in filters if f["rate"] == rate and f["keys"] == filters[0]["keys"]]
        bits, false = (statistics.median(f[n] for f in its) for n in ("bits_per_key", "false_positives"))
        yield Figure(f"filter for 1 false positive in {1 / rate:,.0f}: bits a key, found", f"{bits:.1f}, {false:.5f}")
        build, ask = (statistics.median(f[n] for f in its) for n in ("build_per_second", "ask_per_second"))
        yield Figure(f"filter for 1 in {1 / rate:,.0f}: keys built, asked a second", f"{build:,.0f}, {ask:,.0f}")
