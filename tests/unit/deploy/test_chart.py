"""The Helm chart renders into what Kubernetes accepts; the schema of its values refuses typing errors and secrets."""

import json
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.machine import need
from tests.support.chart import CHART, MINIMAL, VALUES, containers, defaults, documents, merged, pods, render
from tests.support.deployed import STOP_SECONDS
from tests.support.go_template import TemplateError

ROOT = Path(__file__).parents[3]
OPERATORS = ("ServiceMonitor", "PrometheusRule")
"""Kinds of the Prometheus operator, which Kubernetes itself does not know."""


@cache
def made(name: str) -> list[dict[str, Any]]:
    """Return the objects that the chart makes from the values of a name; they are rendered once."""
    return documents(VALUES[name])


def of_all() -> Iterator[dict[str, Any]]:
    """Yield the objects that the chart makes from any of the values."""
    for name in VALUES:
        yield from made(name)


def _named(name: str, kind: str) -> dict[str, Any]:
    objects = [*made("minimal"), *made("full")]
    return [d for d in objects if (d["kind"], d["metadata"]["name"]) == (kind, name)][-1]


def test_objects_match_the_schemas_of_kubernetes() -> None:
    import kubernetes_validate  # takes seconds, which every process of a run would wait

    for document in of_all():
        if document["kind"] not in OPERATORS:
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    for name in VALUES:
        names = [(d["kind"], d["metadata"]["name"]) for d in made(name)]
        assert len(names) == len(set(names)) >= 3


def test_values_decide_which_objects_exist() -> None:
    kinds = {name: {d["kind"] for d in made(name)} for name in VALUES}

    assert kinds["small"] == {"ConfigMap", "Service", "Deployment"}
    assert kinds["minimal"] == kinds["small"] | {"Job", "ServiceAccount", "PodDisruptionBudget"}
    assert kinds["full"] == kinds["minimal"] | {"NetworkPolicy", *OPERATORS}


def test_every_pod_is_locked_down_and_every_mount_has_its_volume() -> None:
    for _, spec in pods(list(of_all())):
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
        mounted = {mount["name"] for container in spec["containers"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}


def test_secrets_come_from_secrets() -> None:
    for container in containers(made("full")):
        plain = {entry["name"] for entry in container["env"] if "value" in entry}
        secret = {entry["name"] for entry in container["env"] if "secretKeyRef" in entry.get("valueFrom", {})}
        assert "SEXTON_DATABASE_URL" in secret
        assert not [name for name in plain if any(word in name for word in ("SECRET", "PASSWORD", "API_KEY", "URL"))]
    assert not [d for d in made("full") if d["kind"] == "Secret"]


def test_files_that_variables_name_are_mounted() -> None:
    for container in containers(list(of_all())):
        paths = [mount["mountPath"] for mount in container["volumeMounts"]]
        named = [entry["value"] for entry in container["env"] if entry.get("value", "").startswith("/")]
        assert not [path for path in named if not path.startswith(tuple(paths))]


def test_a_page_is_finished_before_a_worker_is_killed() -> None:
    for name, spec in pods(made("full")):
        if name.endswith("worker"):
            assert spec["terminationGracePeriodSeconds"] >= STOP_SECONDS


def test_init_needs_nothing_that_the_chart_makes() -> None:
    init = dict(pods(made("minimal")))["gc-sexton-init"]

    assert [volume["name"] for volume in init["volumes"]] == ["tmp"]
    assert "serviceAccountName" not in init
    hook = _named("gc-sexton-init", "Job")["metadata"]["annotations"]["helm.sh/hook"]
    assert hook == "pre-install,pre-upgrade"


def test_services_select_pods_and_name_their_ports() -> None:
    for name in VALUES:
        templates = [d["spec"]["template"] for d in made(name) if d["kind"] == "Deployment"]

        for service in (d for d in made(name) if d["kind"] == "Service"):
            selector = service["spec"]["selector"].items()
            selected = [t for t in templates if selector <= t["metadata"]["labels"].items()]
            ports = {port["name"] for t in selected for c in t["spec"]["containers"] for port in c["ports"]}
            assert {port["targetPort"] for port in service["spec"]["ports"]} == ports


def test_a_service_is_not_called_sexton() -> None:
    names = [d["metadata"]["name"] for d in documents(MINIMAL, release="sexton") if d["kind"] == "Service"]

    assert names == ["sexton-api", "sexton-metrics"]


def test_rules_and_dashboard_are_those_of_the_project() -> None:
    rules = _named("gc-sexton", "PrometheusRule")["spec"]
    dashboard = _named("gc-sexton-dashboard", "ConfigMap")["data"]["sexton.json"]

    assert rules == yaml.safe_load((ROOT / "config/prometheus/sexton.rules.yml").read_text())
    assert json.loads(dashboard) == json.loads((ROOT / "config/grafana/sexton.json").read_text())
    assert all(path.is_symlink() for path in (CHART / "files").iterdir())


def test_missing_values_are_named() -> None:
    changes: dict[str, dict[str, Any]] = {
        "set deployment": {"deployment": ""},
        "set database.existingSecret": {"database": {"existingSecret": ""}},
        "set api.tls.existingSecret": {"api": {"tls": {"existingSecret": ""}}},
    }
    for message, change in changes.items():
        with pytest.raises(TemplateError, match=message):
            render(merged(MINIMAL, change))


def test_renders_as_helm_does(tmp_path: Path) -> None:
    helm = need("helm")
    environment = {**os.environ, "HELM_CACHE_HOME": str(tmp_path), "HELM_CONFIG_HOME": str(tmp_path)}
    for name, values in VALUES.items():
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(dict(values)))
        command = [helm, "template", "gc", str(CHART), "-n", "sexton", "-f", str(tmp_path / "values.yaml")]

        run = subprocess.run([*command, "--kube-version", "1.30.0"], capture_output=True, text=True, env=environment)

        assert run.returncode == 0, run.stderr
        rendered = [document for document in yaml.safe_load_all(run.stdout) if document]
        assert sorted(rendered, key=json.dumps) == sorted(made(name), key=json.dumps)


SCHEMA = json.loads((CHART / "values.schema.json").read_text())
MISTAKES: list[dict[str, Any]] = [
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
]


def test_examples_are_accepted_and_mistakes_refused() -> None:
    from jsonschema import Draft7Validator  # takes seconds, which every process of a run would wait

    Draft7Validator.check_schema(SCHEMA)
    validator, own = Draft7Validator(SCHEMA), defaults()
    for values in ({}, *VALUES.values()):
        assert [error.message for error in validator.iter_errors(merged(own, values))] == []
    for change in MISTAKES:
        assert list(validator.iter_errors(merged(own, merged(MINIMAL, change)))), change


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
