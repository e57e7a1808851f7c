"""Alerts and the dashboard are valid and complete; each alert fires only when it should, and every metric exists."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from sexton.insight.metrics.collector import DeploymentRegistry, PoolCollector
from sexton.marks.kept import Severity
from tests.support.prometheus import (
    CASES,
    DOCUMENT,
    RULES,
    exported_labels,
    expression,
    metrics,
    promtool,
    queries,
    rules,
    selected_labels,
    unknown_labels,
)
from tests.support.rig import DEPLOYMENT, Rig
from tests.support.scrape import collector

ALERTS: Mapping[Severity, tuple[str, ...]] = {
    Severity.LOST: ("SextonObjectsLost", "SextonTopicLoss", "SextonConsumerLost"),
    # A silent owner keeps every mark, and its rounds do not succeed.
    Severity.FAULT: ("SextonVaultFault", "SextonNoSuccess", "SextonTopicBlocked", "SextonBinlogClockRefused"),
    Severity.FAILED: ("SextonNoSuccess",),
    Severity.QUARANTINED: ("SextonQuarantineGrows", "SextonTopicQuarantined"),
    Severity.OVERDUE: ("SextonNoSuccess", "SextonNotSeen"),
    Severity.APPROVAL: ("SextonApprovalOld", "SextonBinlogCutWaits"),
}
"""The alerts of each severity of problems; those that operators ordered have none that they need."""
OF_NO_DEPLOYMENT = {"up"}
"""Metrics that name no deployment: Prometheus' own."""


def shown() -> set[str]:
    return {name for query in queries() for name in metrics(query)}


def without_panel() -> set[str]:
    """Return the metrics that the documentation lists as having no panel."""
    paragraph = re.search(r"(?m)^No panel shows .*(?:\n.+)*", DOCUMENT.read_text())
    assert paragraph
    return set(re.findall(r"`(\w+)`", paragraph[0]))


def test_every_problem_that_needs_an_operator_has_alerts() -> None:
    assert ALERTS.keys() == {severity for severity in Severity if not severity.is_ordered}
    assert {alert for alerts in ALERTS.values() for alert in alerts} - rules().keys() == set()


def test_queries_and_alerts_use_exported_metrics_and_labels_only() -> None:
    labels = exported_labels()
    unexported = ["max by (kind) (sexton_up)", 'sexton_holds{vault="x"}', "sexton_never", "sexton_holds * on (kind) up"]

    assert [expr for expr in unexported if not unknown_labels(expr, labels)] == []
    used = [*queries(), *(expression(rule) for rule in rules().values())]
    assert {expr: unknown for expr in used if (unknown := unknown_labels(expr, labels))} == {}


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


def test_promtool_parses_every_rule_and_query(tmp_path: Path) -> None:
    values = {"$__rate_interval": "5m", "$instance": ".*", "$deployment": ".*"}
    rule_lines = []
    for number, query in enumerate(queries()):
        for variable, value in values.items():
            query = query.replace(variable, value)
        rule_lines.append(f"      - {{record: 'q:{number}', expr: {json.dumps(query)}}}\n")
    (tmp_path / "q.yml").write_text("groups:\n  - name: q\n    rules:\n" + "".join(rule_lines))

    code, output = promtool("check", "rules", str(RULES), str(tmp_path / "q.yml"))

    assert len(rule_lines) > 90
    assert code == 0, output
    assert f"SUCCESS: {len(rules())} rules found" in output


def test_every_metric_has_a_panel_or_is_listed_without() -> None:
    of_sexton = {name for name in exported_labels() if name.startswith(("sexton_", "recycler_"))}
    alerting = {name for rule in rules().values() for name in metrics(expression(rule))}

    assert alerting - shown() == set(), "add a panel for each to config/grafana/sexton.json"
    assert of_sexton - shown() == without_panel(), 'add a panel, or name it in docs/metrics.md at "No panel shows"'


@pytest.mark.slow
def test_every_alert_fires_when_it_should_and_not_before() -> None:
    code, output = promtool("test", "rules", *map(str, CASES))

    assert code == 0, output


def without(pattern: str) -> list[str]:
    """Return the alerts whose rules have no line of this pattern."""
    return [alert for alert, rule in rules().items() if not re.search(pattern, rule, re.MULTILINE)]


def test_every_alert_has_severity_summary_action_and_runbook() -> None:
    headings = re.findall(r"(?m)^##+ (.+)$", (DOCUMENT.parent / "incidents.md").read_text())
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    runbook = re.compile(r"(?m)^ +runbook_url: docs/incidents\.md#([a-z-]+)$")
    named = {alert: runbook.findall(rule) for alert, rule in rules().items()}

    assert {alert: found for alert, found in named.items() if len(found) != 1 or found[0] not in anchors} == {}
    assert without(r"^ +severity: (page|ticket)$") == []
    assert without(r"^ +summary: .{20,}$") == [], "a sentence in quotes, with the deployment"
    assert without(r"^ +action: .{20,}$") == [], "a sentence in quotes, with the commands"


def test_every_alert_keeps_deployments_apart() -> None:
    """Every aggregation and every match is by deployment, and the summary names it."""
    by_target = {"by (job, instance)", "on (job, instance)", "on ()"}  # of Prometheus' own `up`, and of `absent`
    expressions = {alert: expression(rule) for alert, rule in rules().items()}
    clauses = [
        (alert, clause)
        for alert, expr in expressions.items()
        for clause in re.findall(r"\b(?:by|on|without|ignoring)\s*\([^)]*\)", expr)
    ]

    assert [(a, c) for a, c in clauses if "(deployment" not in c and c not in by_target] == []
    of_all = [alert for alert, expr in expressions.items() if re.search(r"\b(max|min|sum|count|avg)\s*\(", expr)]
    assert of_all == [], "aggregate by (deployment)"
    assert without(r"^ +summary: .*\$labels\.deployment ") == [], 'begin it with "{{ $labels.deployment }}: "'


def test_every_alert_has_a_firing_and_a_silent_case() -> None:
    cases = "".join(file.read_text() for file in CASES)
    fires = r"alertname: {}\n +exp_alerts:\n +- exp_labels"
    silent = r"\{{eval_time: \S+, alertname: {}\}}"

    unfired = [alert for alert in rules() if not re.search(fires.format(alert), cases)]
    assert unfired == [], "add a case with exp_alerts to config/prometheus/sexton.rules.test.yml"
    never_silent = [alert for alert in rules() if not re.search(silent.format(alert), cases)]
    assert never_silent == [], "add a case in which it is silent: {eval_time: 1h, alertname: …}"


def test_documentation_names_exactly_the_metrics_and_alerts() -> None:
    text = DOCUMENT.read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))

    known = {n for n in exported_labels() if n.startswith(("sexton_", "recycler_"))} | set(rules())

    assert known - rows == set(), "add a row for each to docs/metrics.md"
    assert rows - known == set(), "remove the rows of docs/metrics.md"


def test_our_metrics_follow_the_prometheus_conventions(database_url: str) -> None:
    rig = Rig(database_url)
    exported = generate_latest(DeploymentRegistry(DEPLOYMENT, collector(rig), PoolCollector(rig.db.engine))).decode()
    rig.db.close()
    our_lines = "".join(f"{line}\n" for line in exported.splitlines() if re.match(r"(# (HELP|TYPE) )?sexton_", line))

    code, output = promtool("check", "metrics", stdin=our_lines)

    assert code == 0, output
