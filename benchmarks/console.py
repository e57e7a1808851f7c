"""What the pages of the console cost when much is there: p95 of server time, from the access log of `sexton console`.

1,000,000 marks, 10,000 findings, 1,000 rounds, 100,000 marks in the history and 1,000 in quarantine, on PostgreSQL,
with statistics from before the rows were there and after. Goal: at most 200 ms a page.
"""

import re
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

from benchmarks.due import vacuum
from benchmarks.results import Figure, Result, at_most
from benchmarks.scratch import scratch
from tests.browser.live_console import LiveConsole
from tests.integration.protection.registrations import garbage
from tests.servers.postgres import Cluster
from tests.support.rig import Rig

SIZES = {
    "marks": 1_000_000,
    "quarantined": 1_000,
    "history": 100_000,
    "rounds": 1_000,
    "checks": 30,
    "findings": 10_000,
}
QUICK = {"marks": 20_000, "quarantined": 20, "history": 2_000, "rounds": 50, "checks": 3, "findings": 200}
REQUESTS = 40
MOST_MS = 200
PAGES = {
    "overview": "",
    "plans": "/plans?instance=shop",
    "a plan": "/plans/{plan}",
    "blockers": "/blockers?instance=shop",
    "blockers of all": "/blockers",
    "rounds": "/rounds?instance=shop",
    "a round": "/rounds/{round}?instance=shop",
    "why of a marked key": "/why?instance=shop&key=data/{n}",
    "why of a mark": "/why?instance=shop&key=m-{n}",
    "why of a deleted key": "/why?instance=shop&key=gone/{n}",
    "why of a prefix": "/why?instance=shop&key=data/",
    "why of an unknown key": "/why?instance=shop&key=none/{n}",
    "quarantine": "/quarantine?instance=shop",
    "checks": "/checks?instance=shop",
    "vaults": "/vaults?instance=shop",
    "topics": "/topics?instance=shop",
    "binlogs": "/binlogs?instance=shop",
    "settings": "/settings?instance=shop",
    "access": "/access",
    "log": "/log?instance=shop",
    "start": "/start?instance=shop",
}
"""Name of a page → its address below ``/console``."""
_LINE = re.compile(r"GET (/console\S*): 200 in (\d+) ms")
_ROWS = {
    "marks": """
        INSERT INTO sexton.mark (instance, kind, id, vault, keys, bytes, marked_at)
        SELECT 'shop', 'dropped', 'm-' || n, 'disk', jsonb_build_array('data/' || n), 1, now() - n * interval '1 second'
        FROM n""",
    "quarantined": """
        INSERT INTO sexton.mark (instance, kind, id, vault, keys, quarantined_reason, failures)
        SELECT 'shop', 'dropped', 'q-' || n, 'disk', jsonb_build_array('bad/' || n), 'ACCESS_DENIED', 3 FROM n""",
    "history": """
        INSERT INTO sexton.mark_history (instance, kind, id, vault, keys, objects, bytes, marked_at, claimed_at,
            gone_at, batch, round)
        SELECT instance, kind, 'h-' || n, vault, jsonb_build_array('gone/' || n), 1, 1, marked_at, claimed_at,
            now() - n * interval '5 seconds', batch, round
        FROM n, (SELECT * FROM sexton.mark_history LIMIT 1) AS first""",
    "rounds": """
        INSERT INTO sexton.round (instance, run_id, plan, state, started_at, ended_at, report)
        SELECT instance, 'bench-' || n, plan, state, now() - n * interval '1 hour', now() - n * interval '50 minutes',
            report
        FROM n, (SELECT * FROM sexton.round ORDER BY id LIMIT 1) AS first""",
    "checks": """
        INSERT INTO sexton.check_run (instance, run, state, cutoff, ended_at, open_counts)
        SELECT 'shop', 'check-' || n, 'WHOLE', now() - n * interval '1 day', now(), '{"ORPHAN": [10, 5]}' FROM n""",
    "findings": """
        INSERT INTO sexton.finding (instance, type, vault, key, size, first_seen, seen_in, proven_in)
        SELECT 'shop', CASE mod(n, 3) WHEN 0 THEN 'LOST' ELSE 'ORPHAN' END, 'disk', 'found/' || n, 9, now(), run, run
        FROM n, (SELECT max(id) AS run FROM sexton.check_run) AS last""",
}
"""What is added, by name of its number: rows of our own, or copies of what a real round left."""


def _fill(rig: Rig, root: Path, sizes: Mapping[str, int]) -> dict[str, int]:
    """Run a round, add the rows, and return numbers for the addresses of the pages."""
    garbage(rig, root)
    report = rig.round()
    with rig.db.write() as c:
        c.exec_driver_sql("SET LOCAL session_replication_role = replica")  # the rows are given, not made by an owner
        for name, statement in _ROWS.items():
            c.exec_driver_sql(f"WITH n AS (SELECT generate_series(1, {sizes[name]}) AS n) {statement}")
    return {"plan": report.plan or 0, "round": report.round}


def _ask(live: LiveConsole, ids: Mapping[str, int], requests: int) -> dict[str, list[float]]:
    """Ask for each page so often, in turns; return name → milliseconds of the server."""
    with httpx.Client(base_url=live.url, timeout=60, follow_redirects=True) as client:
        form = re.search(r'name="form_token" value="([^"]+)"', client.get("/console/login").text)
        token = live.token("admin")
        answer = client.post("/console/login", data={"form_token": form[1], "token": token} if form else {})
        answer.raise_for_status()
        seen: dict[str, list[float]] = {name: [] for name in PAGES}
        for turn in range(requests):
            for name, path in PAGES.items():
                place = live.console.log.stat().st_size
                number = 1 + (turn * 7919 + 13) % 1000
                client.get(f"/console{path.format(n=number, **ids)}").raise_for_status()
                seen[name].append(_milliseconds(live, place))
    return seen


def _milliseconds(live: LiveConsole, place: int) -> float:
    """Return what the access log says of the last page, from a place on; the line follows the answer."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with live.console.log.open() as log:
            log.seek(place)
            if found := _LINE.findall(log.read()):
                return float(found[-1][1])
        time.sleep(0.002)
    raise AssertionError(f"the access log has no line of the page: {live.console.tail(5)}")


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def run(sizes: Mapping[str, int] = SIZES, requests: int = REQUESTS) -> Result:
    """Measure each page with statistics from before the rows were there, and after."""
    cluster, found = Cluster(), {}
    try:
        with scratch() as place:
            rig = Rig(cluster.new_database()).instance()
            rig.sql("ALTER TABLE {}mark SET (autovacuum_enabled = false)")
            ids = _fill(rig, place.memory, sizes)
            with LiveConsole(rig, place.disk / "live") as live:
                for state in ("stale", "fresh"):
                    if state == "fresh":
                        vacuum(rig.db)
                    found[state] = _ask(live, ids, requests)
                    print(f"{state}: " + ", ".join(f"{n} {_p95(ms):.0f}" for n, ms in found[state].items()), flush=True)
            rig.db.close()
    finally:
        cluster.stop()
    figures = []
    for state, by_page in found.items():
        page, ms = max(((page, _p95(values)) for page, values in by_page.items()), key=lambda found: found[1])
        figures.append(at_most(f"p95 of the slowest page, {state} statistics: {page}", ms, MOST_MS, "ms", 0))
    slowest = max(values[0] for by_page in found.values() for values in by_page.values())
    figures.append(Figure("slowest first request of a page", f"{slowest:.0f} ms"))
    rows = {name: f"{number:,}" for name, number in sizes.items()}
    return Result("console", rows | {"requests": requests, "database": "PostgreSQL with fsync"}, figures, found)
