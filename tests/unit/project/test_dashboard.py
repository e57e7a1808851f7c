"""The dashboard is valid and complete: each query works, and every metric and alert has a panel."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

from tests.support.prometheus import (
    DASHBOARD,
    DOCUMENT,
    EVERYWHERE,
    exported_labels,
    expression,
    metrics,
    panels,
    promtool,
    queries,
    rules,
    selected_labels,
    unknown_labels,
)

OF_NO_DEPLOYMENT = {"up"}
"""Metrics that name no deployment: Prometheus' own."""


def shown() -> set[str]:
    return {name for query in queries() for name in metrics(query)}


def without_panel() -> set[str]:
    """Return the metrics that the documentation lists as having no panel."""
    paragraph = re.search(r"(?m)^No panel shows .*(?:\n.+)*", DOCUMENT.read_text())
    assert paragraph
    return set(re.findall(r"`(\w+)`", paragraph[0]))


def test_every_query_uses_only_exported_metrics_and_labels() -> None:
    labels = exported_labels()

    assert {query: unknown for query in queries() if (unknown := unknown_labels(query, labels))} == {}


def test_every_query_asks_for_the_chosen_deployments() -> None:
    assert {query: wrong for query in queries() if (wrong := of_all_deployments(query))} == {}


def of_all_deployments(query: str) -> list[str]:
    """Return what a query asks of all deployments instead of the chosen ones."""
    chosen = {metric for metric, labels in selected_labels(query) if "deployment" in labels}
    wrong = [*(metrics(query) - chosen - OF_NO_DEPLOYMENT)]
    if "by (instance_id" in query:
        wrong.append("by (instance_id")
    if query.count("deployment=~") != query.count('deployment=~"$deployment"'):
        wrong.append("deployment=~")
    return wrong


def test_promtool_parses_every_query(tmp_path: Path) -> None:
    values = {"$__rate_interval": "5m", "$instance": ".*", "$deployment": ".*"}
    rule_lines = []
    for number, query in enumerate(queries()):
        for variable, value in values.items():
            query = query.replace(variable, value)
        rule_lines.append(f"      - {{record: 'q:{number}', expr: {json.dumps(query)}}}\n")
    (tmp_path / "q.yml").write_text("groups:\n  - name: q\n    rules:\n" + "".join(rule_lines))

    code, output = promtool("check", "rules", str(tmp_path / "q.yml"))

    assert len(rule_lines) > 90
    assert code == 0, output


def test_every_metric_of_an_alert_has_a_panel() -> None:
    alerting = {name for rule in rules().values() for name in metrics(expression(rule))}

    assert alerting - shown() == set(), "add a panel for each to config/grafana/sexton.json"


def test_every_metric_has_a_panel_or_is_listed_without() -> None:
    of_sexton = {name for name in exported_labels() if name.startswith(("sexton_", "recycler_"))}

    assert of_sexton - shown() == without_panel(), 'add a panel, or name it in docs/metrics.md at "No panel shows"'


def test_legends_name_existing_labels() -> None:
    labels = exported_labels()
    for panel in panels():
        for target in panel.get("targets", ()):
            used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert used <= EVERYWHERE.union(*(labels[m] for m in metrics(target["expr"]))), panel["title"]


def test_panels_have_ids_titles_and_descriptions() -> None:
    ids = [panel["id"] for panel in panels()]

    assert len(ids) == len(set(ids))
    assert [p["id"] for p in panels() if not p["title"]] == []
    assert [p["title"] for p in panels() if p["type"] != "row" and len(p["description"]) < 10] == []
    assert {p["datasource"]["uid"] for p in panels() if p["type"] != "row"} == {"${datasource}"}
    assert "id" not in json.loads(DASHBOARD.read_text())


def test_panels_do_not_overlap() -> None:
    places = [(p["title"], p["gridPos"]) for p in panels()]

    assert [(a, b) for (a, one), (b, other) in combinations(places, 2) if _overlap(one, other)] == []
    assert [title for title, place in places if place["x"] + place["w"] > 24] == []


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not beside and not below


def test_dashboard_asks_for_source_deployment_and_instance() -> None:
    variables = {v["name"]: v for v in json.loads(DASHBOARD.read_text())["templating"]["list"]}

    assert list(variables) == ["datasource", "deployment", "instance"]
    assert variables["datasource"]["type"] == "datasource"
    assert variables["deployment"]["definition"] == "label_values(sexton_build_info, deployment)"
    assert 'sexton_instance_enabled{deployment=~"$deployment"}' in variables["instance"]["definition"]
