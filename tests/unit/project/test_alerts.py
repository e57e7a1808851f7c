"""Alerts and dashboard are valid, each alert fires only when it should, and every metric exists."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from sexton.insight.metrics.pool import PoolCollector
from sexton.insight.metrics.registry import DeploymentRegistry
from tests.support.rig import DEPLOYMENT, Rig
from tests.support.scrape import collector

CONFIG = Path(__file__).parents[3] / "config"
RULES = CONFIG / "prometheus" / "sexton.rules.yml"
CASES = sorted((CONFIG / "prometheus").glob("sexton.rules*.test.yml"))
DOCUMENT = CONFIG.parent / "docs" / "metrics.md"
DASHBOARD = CONFIG / "grafana" / "sexton.json"
OF_PROMETHEUS = {"up"}
"""What Prometheus itself says about each target."""
OF_THE_API = {"sexton_api_up"}
"""What only `sexton api` exports; tests/integration/interfaces/api sees it there."""
OF_TEMPORAL = {
    f"temporal_{name}"
    for name in (
        "workflow_task_schedule_to_start_latency_seconds_bucket",
        "activity_schedule_to_start_latency_seconds_bucket",
        "request_latency_seconds_bucket",
        "worker_task_slots_available",
        "worker_task_slots_used",
        "num_pollers",
        "request_failure_total",
    )
}
"""What Temporal's SDK exports once it has counted something; tests/integration/insight/metrics sees it there."""
WORDS = {"and", "or", "unless", "offset", "bool"}


def promtool(*arguments: str, stdin: str | None = None) -> tuple[int, str]:
    """Run the real promtool; return its exit code and what it said."""
    program = shutil.which("promtool")
    assert program, "promtool is missing: install the Debian package prometheus (apt-get install prometheus)"
    line = [program, *arguments]
    done = subprocess.run(line, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=110)
    return done.returncode, done.stdout


def rules() -> dict[str, str]:
    """Return each alert with its part of the file; nobody here can read YAML but promtool."""
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


def panels() -> Iterator[dict[str, Any]]:
    """Yield every panel of the dashboard, those in rows too."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield panel
        yield from panel.get("panels", ())


def queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel.get("targets", ())]


@pytest.fixture
def exported(tmp_path: Path) -> str:
    """A real scrape of an empty deployment, with the families that have no samples yet."""
    rig = Rig(f"sqlite:///{tmp_path / 'sexton.db'}")
    text = generate_latest(DeploymentRegistry(DEPLOYMENT, collector(rig), PoolCollector(rig.db.engine))).decode()
    rig.db.close()
    return text


def names(exported: str) -> set[str]:
    return set(re.findall(r"^# TYPE (\S+) ", exported, re.MULTILINE)) | OF_PROMETHEUS | OF_THE_API | OF_TEMPORAL


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
    assert re.search(r"^ +summary: .{20,}$", rule, re.MULTILINE)
    assert re.search(r"^ +action: .{20,}$", rule, re.MULTILINE)
    runbook = re.search(r"^ +runbook_url: docs/incidents\.md#([a-z-]+)$", rule, re.MULTILINE)
    headings = re.findall(r"(?m)^##+ (.+)$", (DOCUMENT.parent / "incidents.md").read_text())
    assert runbook
    assert runbook[1] in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("alert", rules())
def test_alert_keeps_deployments_apart(alert: str) -> None:
    """Every aggregation and every match is by deployment, and the summary names it."""
    rule = rules()[alert]
    clauses = re.findall(r"\b(?:by|on|without|ignoring)\s*\([^)]*\)", expression(rule))
    by_target = {"by (job, instance)", "on (job, instance)", "on ()"}  # of Prometheus' own `up`, and of `absent`

    assert [c for c in clauses if "(deployment" not in c and c not in by_target] == []
    assert re.search(r"\b(max|min|sum|count|avg)\s*\(", expression(rule)) is None
    assert re.search(r"^ +summary: .*\$labels\.deployment ", rule, re.MULTILINE)


@pytest.mark.parametrize("alert", rules())
def test_alert_has_a_firing_and_a_silent_case(alert: str) -> None:
    cases = "".join(file.read_text() for file in CASES)

    assert re.search(rf"alertname: {alert}\n +exp_alerts:\n +- exp_labels", cases)
    assert re.search(rf"\{{eval_time: \S+, alertname: {alert}\}}", cases)


def test_every_metric_of_the_rules_is_exported(exported: str) -> None:
    used = {name for rule in rules().values() for name in metrics(expression(rule))}

    assert len(used) > 8
    assert used - names(exported) == set()


def test_every_metric_of_the_dashboard_is_exported(exported: str) -> None:
    used = {name for query in queries() for name in metrics(query)}

    assert len(used) > 20
    assert used - names(exported) == set()


def test_promtool_parses_every_query_of_the_dashboard(tmp_path: Path) -> None:
    values = {"$__rate_interval": "5m", "$instance": ".*"}
    rule_lines = []
    for number, query in enumerate(queries()):
        for variable, value in values.items():
            query = query.replace(variable, value)
        rule_lines.append(f"      - {{record: 'q:{number}', expr: {json.dumps(query)}}}\n")
    (tmp_path / "q.yml").write_text("groups:\n  - name: q\n    rules:\n" + "".join(rule_lines))

    code, output = promtool("check", "rules", str(tmp_path / "q.yml"))

    assert len(rule_lines) > 20
    assert code == 0, output


def test_documentation_names_exactly_the_metrics_and_alerts(exported: str) -> None:
    text = DOCUMENT.read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))

    assert rows == {n for n in names(exported) if n.startswith(("sexton_", "recycler_"))} | set(rules())


def test_dashboard_asks_for_data_source_and_instance() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    variables = {v["name"]: v for v in dashboard["templating"]["list"]}
    ids = [p["id"] for p in panels()]

    assert variables["datasource"]["type"] == "datasource"
    assert "sexton_instance_enabled" in variables["instance"]["definition"]
    assert len(ids) == len(set(ids))
    assert {p["datasource"]["uid"] for p in panels() if p["type"] != "row"} == {"${datasource}"}
    assert "id" not in dashboard


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
