"""Alerts are valid, each fires only when it should, and every metric exists."""

import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from sexton.insight.metrics.pool import PoolCollector
from sexton.insight.metrics.registry import DeploymentRegistry
from tests.support.prometheus import (
    CASES,
    DOCUMENT,
    RULES,
    exported_labels,
    expression,
    metrics,
    promtool,
    rules,
    unknown_labels,
)
from tests.support.rig import DEPLOYMENT, Rig
from tests.support.scrape import collector


@pytest.fixture
def exported(postgres_url: str) -> str:
    """A real scrape of an empty deployment, with the families that have no samples yet."""
    rig = Rig(postgres_url)
    text = generate_latest(DeploymentRegistry(DEPLOYMENT, collector(rig), PoolCollector(rig.db.engine))).decode()
    rig.db.close()
    return text


def test_promtool_accepts_the_rules() -> None:
    code, output = promtool("check", "rules", str(RULES))

    assert code == 0, output
    assert f"SUCCESS: {len(rules())} rules found" in output


@pytest.mark.slow
def test_every_alert_fires_when_it_should_and_not_before() -> None:
    code, output = promtool("test", "rules", *map(str, CASES))

    assert code == 0, output


def test_promtool_would_notice_an_alert_that_never_fires(tmp_path: Path) -> None:
    (tmp_path / RULES.name).write_text(RULES.read_text().replace("absent(sexton_up)", "absent(sexton_up) > 1"))
    header, first_case, *_ = re.split(r"(?m)^(?=  - name: )", CASES[-1].read_text())
    (tmp_path / "cases.yml").write_text(header + first_case)

    code, output = promtool("test", "rules", str(tmp_path / "cases.yml"))

    assert code != 0
    assert "SextonNotSeen" in output


@pytest.mark.parametrize("alert", rules())
def test_alert_has_severity_summary_action_and_runbook(alert: str) -> None:
    rule = rules()[alert]

    assert re.search(r"^ +severity: (page|ticket)$", rule, re.MULTILINE)
    assert re.search(r"^ +summary: .{20,}$", rule, re.MULTILINE), "a sentence in quotes, with the deployment"
    assert re.search(r"^ +action: .{20,}$", rule, re.MULTILINE), "a sentence in quotes, with the commands"
    runbook = re.search(r"^ +runbook_url: docs/incidents\.md#([a-z-]+)$", rule, re.MULTILINE)
    headings = re.findall(r"(?m)^##+ (.+)$", (DOCUMENT.parent / "incidents.md").read_text())
    assert runbook, "runbook_url: docs/incidents.md#HEADING"
    assert runbook[1] in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("alert", rules())
def test_alert_keeps_deployments_apart(alert: str) -> None:
    """Every aggregation and every match is by deployment, and the summary names it."""
    rule = rules()[alert]
    clauses = re.findall(r"\b(?:by|on|without|ignoring)\s*\([^)]*\)", expression(rule))
    by_target = {"by (job, instance)", "on (job, instance)", "on ()"}  # of Prometheus' own `up`, and of `absent`

    assert [c for c in clauses if "(deployment" not in c and c not in by_target] == []
    assert re.search(r"\b(max|min|sum|count|avg)\s*\(", expression(rule)) is None, "aggregate by (deployment)"
    named = re.search(r"^ +summary: .*\$labels\.deployment ", rule, re.MULTILINE)
    assert named, 'begin the summary with "{{ $labels.deployment }}: "'


@pytest.mark.parametrize("alert", rules())
def test_alert_has_a_firing_and_a_silent_case(alert: str) -> None:
    cases = "".join(file.read_text() for file in CASES)

    fires = re.search(rf"alertname: {alert}\n +exp_alerts:\n +- exp_labels", cases)
    assert fires, "add a case with exp_alerts to config/prometheus/sexton.rules.test.yml"
    silent = re.search(rf"\{{eval_time: \S+, alertname: {alert}\}}", cases)
    assert silent, f"add a case in which it is silent: {{eval_time: 1h, alertname: {alert}}}"


@pytest.mark.parametrize("alert", rules())
def test_alert_uses_only_exported_metrics_and_labels(alert: str) -> None:
    assert unknown_labels(expression(rules()[alert]), exported_labels()) == set()


def test_documentation_names_exactly_the_metrics_and_alerts() -> None:
    text = DOCUMENT.read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))

    known = {n for n in exported_labels() if n.startswith(("sexton_", "recycler_"))} | set(rules())

    assert known - rows == set(), "add a row for each to docs/metrics.md"
    assert rows - known == set(), "remove the rows of docs/metrics.md"


def test_our_metrics_follow_the_prometheus_conventions(exported: str) -> None:
    our_lines = "".join(f"{line}\n" for line in exported.splitlines() if re.match(r"(# (HELP|TYPE) )?sexton_", line))

    code, output = promtool("check", "metrics", stdin=our_lines)

    assert code == 0, output


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        ('max by (instance_id) (a_b{x="y", z=~"up"}) > 3 * max(c:d)', {"a_b", "c:d"}),
        ("sum(rate(n_total[5m])) unless on (k) m offset 1h", {"n_total", "m"}),
        ("a - on (kind) group_left () max by (kind) (b) + 24 * 3600", {"a", "b"}),
    ],
)
def test_metric_names_of_an_expression_are_extracted(expr: str, found: set[str]) -> None:
    assert metrics(expr) == found


@pytest.mark.parametrize(
    "expr",
    ["max by (kind) (sexton_up)", 'sexton_holds{vault="x"}', "sexton_never", "sexton_holds * on (kind) sexton_up"],
)
def test_what_is_not_exported_would_be_noticed(expr: str) -> None:
    assert unknown_labels(expr, exported_labels()) != set()
