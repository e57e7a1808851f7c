"""The alert rules and the dashboard, taken apart, and what Sexton exports."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from sexton.insight.metrics.collector import NO_FIGURES, FigureCollector, PoolCollector
from tests.machine import need

CONFIG = Path(__file__).parents[2] / "config"
RULES = CONFIG / "prometheus" / "sexton.rules.yml"
CASES = sorted((CONFIG / "prometheus").glob("sexton.rules*.test.yml"))
DOCUMENT = CONFIG.parent / "docs" / "metrics.md"
DASHBOARD = CONFIG / "grafana" / "sexton.json"
EVERYWHERE = {"deployment", "job", "instance"}
"""Labels of every sample."""
_QUEUE = {"namespace", "task_queue"}
ELSEWHERE: Mapping[str, set[str]] = {
    "up": set(),
    "sexton_api_up": set(),
    "process_resident_memory_bytes": set(),
    "temporal_workflow_task_schedule_to_start_latency_seconds_bucket": _QUEUE | {"le"},
    "temporal_activity_schedule_to_start_latency_seconds_bucket": _QUEUE | {"le"},
    "temporal_request_latency_seconds_bucket": {"namespace", "operation", "le"},
    "temporal_request_failure_total": {"namespace", "operation", "status_code"},
    "temporal_worker_task_slots_available": _QUEUE | {"worker_type"},
    "temporal_worker_task_slots_used": _QUEUE | {"worker_type"},
    "temporal_num_pollers": _QUEUE | {"poller_type"},
}
"""Metrics with their labels that the collectors of a worker do not list.

``up`` is Prometheus' own; tests/integration see the others: of the API, of the process, of Temporal's SDK.
"""
WORDS = {"and", "or", "unless", "offset", "bool"}


def promtool(*arguments: str, stdin: str | None = None) -> tuple[int, str]:
    """Run the real promtool; return its exit code and its output."""
    line = [need("promtool"), *arguments]
    done = subprocess.run(line, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def rules() -> dict[str, str]:
    """Return each alert with its part of the file, as text."""
    parts = re.split(r"(?m)^ +- alert: ", RULES.read_text())[1:]
    return {part.split("\n", 1)[0]: part for part in parts}


def expression(rule: str) -> str:
    """Return a rule's expression, of one line or of a block."""
    block = re.search(r"^( +)expr: \|\n((?:\1 .*\n)+)", rule, re.MULTILINE)
    line = re.search(r"^ +expr: (.+)$", rule, re.MULTILINE)
    assert block or line
    return block[2] if block else line[1]  # type: ignore[index]


def metrics(expr: str) -> set[str]:
    """Return the names in a PromQL expression that are metrics: what is no label, function, word, string or number."""
    expr = re.sub(r'"[^"]*"', "", expr)
    expr = re.sub(r"\{[^}]*\}", "", expr)
    expr = re.sub(r"\[[^\]]*\]", "", expr)
    expr = re.sub(r"\b(by|on|ignoring|without|group_left|group_right)\s*\([^)]*\)", "", expr)
    names = re.findall(r"(?<![\w$])([a-zA-Z_:][\w:]*)(?!\w)(?!\s*\()", expr)
    return set(names) - WORDS


def selected_labels(expr: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each metric of an expression that has a selector, with the labels in it."""
    for metric, selector in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", expr):
        yield metric, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', "", selector)))


def grouped_labels(expr: str) -> set[str]:
    """Return the labels by which an expression groups or matches."""
    clauses = re.findall(r"\b(?:by|on|group_left)\s*\(([^)]*)\)", expr)
    return {label for clause in clauses for label in re.findall(r"\w+", clause)}


def panels() -> Iterator[dict[str, Any]]:
    """Yield every panel of the dashboard, those in rows too."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield panel
        yield from panel.get("panels", ())


def queries() -> list[str]:
    """Return the expressions of all panels."""
    return [target["expr"] for panel in panels() for target in panel.get("targets", ())]


def exported_labels() -> dict[str, set[str]]:
    """Return every metric of Sexton by the name of its samples, with its labels."""
    labels = dict(ELSEWHERE)
    figures, pool = (
        FigureCollector(lambda: NO_FIGURES, {}),
        PoolCollector(create_engine("postgresql+psycopg://nobody@unused/shop")),
    )
    for family in (*figures.describe(), *pool.collect()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels[name] = set(getattr(family, "_labelnames", ()))
    return labels


def unknown_labels(expr: str, labels: Mapping[str, set[str]]) -> set[str]:
    """Return what an expression uses that is not exported: metrics, and labels in selectors and groups."""
    used = metrics(expr)
    of_selectors = {
        f"{metric}{{{label}}}"
        for metric, names in selected_labels(expr)
        for label in names - labels.get(metric, set()) - EVERYWHERE
    }
    of_groups = grouped_labels(expr) - EVERYWHERE - set().union(*(labels.get(m, set()) for m in used))
    return (used - labels.keys()) | of_selectors | of_groups
