"""The Helm chart renders into what Kubernetes accepts; the schema of its values refuses typing errors and secrets."""

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.machine import need
from tests.support.chart import CHART, FULL, MINIMAL, VALUES, containers, defaults, documents, merged, pods, render
from tests.support.deployed import STOP_SECONDS
from tests.support.go_template import TemplateError

ROOT = Path(__file__).parents[3]
OPERATORS = ("ServiceMonitor", "PrometheusRule")
"""Kinds of the Prometheus operator, which Kubernetes itself does not know."""


@pytest.fixture(params=VALUES)
def values(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(VALUES[request.param])


def _named(made: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(d for d in made if (d["kind"], d["metadata"]["name"]) == (kind, name))


def test_objects_match_the_schemas_of_kubernetes(values: dict[str, Any]) -> None:
    import kubernetes_validate  # takes seconds, which every process of a run would wait

    made = documents(values)

    for document in made:
        if document["kind"] not in OPERATORS:
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    names = [(d["kind"], d["metadata"]["name"]) for d in made]
    assert len(names) == len(set(names)) >= 3


def test_values_decide_which_objects_exist() -> None:
    kinds = {name: {d["kind"] for d in documents(of)} for name, of in VALUES.items()}

    assert kinds["small"] == {"ConfigMap", "Service", "Deployment"}
    assert kinds["minimal"] == kinds["small"] | {"Job", "ServiceAccount", "PodDisruptionBudget"}
    assert kinds["full"] == kinds["minimal"] | {"NetworkPolicy", *OPERATORS}


def test_every_pod_is_locked_down(values: dict[str, Any]) -> None:
    for _, spec in pods(documents(values)):
        pod = spec["securityContext"]
        assert pod["runAsNonRoot"] is True
        assert pod["runAsUser"] > 0
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["enableServiceLinks"] is False
        assert spec["automountServiceAccountToken"] is False
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
            assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]


def test_every_mount_has_its_volume(values: dict[str, Any]) -> None:
    for _, spec in pods(documents(values)):
        mounted = {mount["name"] for container in spec["containers"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}


def test_secrets_come_from_secrets() -> None:
    for container in containers(documents(FULL)):
        plain = {entry["name"] for entry in container["env"] if "value" in entry}
        secret = {entry["name"] for entry in container["env"] if "secretKeyRef" in entry.get("valueFrom", {})}
        assert "SEXTON_DATABASE_URL" in secret
        assert not [name for name in plain if any(word in name for word in ("SECRET", "PASSWORD", "API_KEY", "URL"))]
    assert not [d for d in documents(FULL) if d["kind"] == "Secret"]


def test_files_that_variables_name_are_mounted() -> None:
    for made in (documents(FULL), documents(MINIMAL)):
        for container in containers(made):
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            named = [entry["value"] for entry in container["env"] if entry.get("value", "").startswith("/")]
            assert not [path for path in named if not path.startswith(tuple(paths))]


def test_a_page_is_finished_before_a_worker_is_killed() -> None:
    for name, spec in pods(documents(FULL)):
        if name.endswith("worker"):
            assert spec["terminationGracePeriodSeconds"] >= STOP_SECONDS


def test_init_needs_nothing_that_the_chart_makes() -> None:
    init = dict(pods(documents(MINIMAL)))["gc-sexton-init"]

    assert [volume["name"] for volume in init["volumes"]] == ["tmp"]
    assert "serviceAccountName" not in init
    hook = _named(documents(MINIMAL), "Job", "gc-sexton-init")["metadata"]["annotations"]["helm.sh/hook"]
    assert hook == "pre-install,pre-upgrade"


def test_services_select_pods_and_name_their_ports(values: dict[str, Any]) -> None:
    made = documents(values)
    templates = [d["spec"]["template"] for d in made if d["kind"] == "Deployment"]

    for service in (d for d in made if d["kind"] == "Service"):
        selected = [t for t in templates if service["spec"]["selector"].items() <= t["metadata"]["labels"].items()]
        ports = {port["name"] for t in selected for c in t["spec"]["containers"] for port in c["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} == ports


def test_a_service_is_not_called_sexton() -> None:
    names = [d["metadata"]["name"] for d in documents(MINIMAL, release="sexton") if d["kind"] == "Service"]

    assert names == ["sexton-api", "sexton-metrics"]


def test_rules_and_dashboard_are_those_of_the_project() -> None:
    made = documents(FULL)
    rules = _named(made, "PrometheusRule", "gc-sexton")["spec"]
    dashboard = _named(made, "ConfigMap", "gc-sexton-dashboard")["data"]["sexton.json"]

    assert rules == yaml.safe_load((ROOT / "config/prometheus/sexton.rules.yml").read_text())
    assert json.loads(dashboard) == json.loads((ROOT / "config/grafana/sexton.json").read_text())
    assert all(path.is_symlink() for path in (CHART / "files").iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"deployment": ""}, "set deployment"),
        ({"database": {"existingSecret": ""}}, "set database.existingSecret"),
        ({"api": {"tls": {"existingSecret": ""}}}, "set api.tls.existingSecret"),
    ],
)
def test_missing_values_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        render(merged(MINIMAL, change))


def test_renders_as_helm_does(values: dict[str, Any], tmp_path: Path) -> None:
    helm = need("helm")
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    command = [helm, "template", "gc", str(CHART), "-n", "sexton", "-f", str(tmp_path / "values.yaml")]
    environment = {**os.environ, "HELM_CACHE_HOME": str(tmp_path), "HELM_CONFIG_HOME": str(tmp_path)}

    run = subprocess.run([*command, "--kube-version", "1.30.0"], capture_output=True, text=True, env=environment)

    assert run.returncode == 0, run.stderr
    rendered = [document for document in yaml.safe_load_all(run.stdout) if document]
    assert sorted(rendered, key=json.dumps) == sorted(documents(values), key=json.dumps)


if TYPE_CHECKING:
    from jsonschema import Draft7Validator

SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.fixture(scope="module")
def validator() -> "Draft7Validator":
    """Import what takes seconds, which every process of a run would wait, only here."""
    from jsonschema import Draft7Validator

    Draft7Validator.check_schema(SCHEMA)
    return Draft7Validator(SCHEMA)


def test_defaults_and_examples_are_accepted(validator: "Draft7Validator") -> None:
    for values in ({}, *VALUES.values()):
        assert [error.message for error in validator.iter_errors(merged(defaults(), values))] == []


@pytest.mark.parametrize(
    "change",
    [
        {"deployment": "Shop"},
        {"worker": {"replica": 3}},
        {"worker": {"replicas": "three"}},
        {"worker": {"terminationGracePeriodSeconds": 30}},
        {"api": {"port": 443}},
        {"spark": {"image": "sexton-spark:1"}},
        {"image": {"repository": "sexton:0.1.0"}},
        {"database": {"url": "postgresql://sexton:secret@db/sexton"}},
        {"database": {"existingSecret": "postgresql://sexton@db/sexton"}},
        {"temporal": {"address": "temporal"}},
        {"temporal": {"apiKey": {"key": ""}}},
        {"temporal": {"tls": {"existingSecret": "temporal-tls"}}},
        {"env": {"SEXTON_WAL__FLUSH_SECRET": "x" * 32}},
        {"env": {"SEXTON_TEMPORAL__API_KEY": "x"}},
        {"env": {"SEXTON_DATABASE_URL": "postgresql://sexton@db/sexton"}},
        {"env": {"AWS_SECRET_ACCESS_KEY": "x"}},
        {"env": {"SEXTON_METRICS__LISTEN": "127.0.0.1:1"}},
        {"env": {"PATH": "/bin"}},
        {"secretEnv": [{"name": "SEXTON_WAL__FLUSH_SECRET", "value": "x"}]},
        {"settings": {"recycle": {"retention_seconds": 3600}}},
        {"nodeselector": {"pool": "batch"}},
    ],
    ids=json.dumps,
)
def test_a_mistake_is_refused(validator: "Draft7Validator", change: dict[str, Any]) -> None:
    assert list(validator.iter_errors(merged(defaults(), merged(MINIMAL, change))))


def test_every_value_is_described_by_the_schema() -> None:
    def missing(values: dict[str, Any], schema: dict[str, Any], path: str) -> list[str]:
        if "properties" not in schema:
            return []
        names = [f"{path}.{name}" for name in values.keys() ^ (schema["properties"].keys() - {"global"})]
        for name, value in values.items():
            if isinstance(value, dict):
                names += missing(value, schema["properties"].get(name, {}), f"{path}.{name}")
        return names

    assert missing(defaults(), SCHEMA, "") == [], "values.yaml and values.schema.json differ: name each in both"
