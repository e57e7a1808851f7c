"""Render the Helm chart of deploy/helm, and find containers and variables in what comes out."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tests.support.go_template import Templates

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "sexton"
MINIMAL: Mapping[str, Any] = {
    "deployment": "shop-prod",
    "database": {"existingSecret": "sexton-database"},
    "api": {"tls": {"existingSecret": "sexton-api-tls"}},
}
FULL: Mapping[str, Any] = {
    "deployment": "shop-prod",
    "settings": '[recycle]\nrecycle_interval_seconds = 600\n[wal]\nflush_nodes = ["*.nodes.example"]\n',
    "env": {"AWS_DEFAULT_REGION": "eu-west-1", "SEXTON_SPARK__SPARK_TASK_REQUESTS": 8},
    "secretEnv": [{"name": "SEXTON_WAL__FLUSH_SECRET", "secret": "sexton-flush", "key": "secret"}],
    "imagePullSecrets": [{"name": "registry"}],
    "database": {"existingSecret": "sexton-database", "liveUrlKey": "live-url"},
    "temporal": {
        "address": "shop.a1b2c.tmprl.example:7233",
        "namespace": "shop.a1b2c",
        "apiKey": {"existingSecret": "temporal-key"},
        "tls": {"enabled": True, "existingSecret": "temporal-tls"},
    },
    "caCerts": {"configMap": "authorities"},
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::000000000000:role/sexton"}},
    "api": {"insecure": True, "service": {"annotations": {"a": "b"}}},
    "spark": {"enabled": True},
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True},
    },
    "networkPolicy": {
        "enabled": True,
        "apiFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
    },
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "storage"},
    "nodeSelector": {"pool": "batch"},
    "tolerations": [{"key": "batch", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "sexton"}},
        }
    ],
}
SMALL: Mapping[str, Any] = {
    **MINIMAL,
    "serviceAccount": {"create": False},
    "api": {"enabled": False},
    "podDisruptionBudget": {"enabled": False},
    "jobs": {"init": False, "schedules": False},
}
VALUES: Mapping[str, Mapping[str, Any]] = {"minimal": MINIMAL, "full": FULL, "small": SMALL}
"""Values files by name, each with the parts of the chart that it switches on or off."""


def defaults() -> dict[str, Any]:
    """Return the chart's own values."""
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return values


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as Helm merges them: mappings by key, everything else as a whole."""
    result = dict(deepcopy(base))
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = deepcopy(value)
    return result


def render(values: Mapping[str, Any], release: str = "gc") -> dict[str, str]:
    """Return template → text; raises ``TemplateError`` as Helm fails."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    sources = {path.name: path.read_text() for path in sorted((CHART / "templates").iterdir())}
    files = {f"files/{path.name}": path.read_text() for path in (CHART / "files").iterdir()}
    templates = Templates(sources, files)
    dot = {
        "Values": merged(defaults(), values),
        "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
        "Release": {"Name": release, "Namespace": "sexton", "Service": "Helm"},
    }
    return {name: templates.render(name, dot) for name in sources if not name.startswith("_")}


def documents(values: Mapping[str, Any], release: str = "gc") -> list[dict[str, Any]]:
    """Return the objects of Kubernetes that the chart makes from values."""
    texts = [text for name, text in render(values, release).items() if name.endswith(".yaml")]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def pods(made: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and pod spec of each Deployment and Job."""
    for document in made:
        if document["kind"] in ("Deployment", "Job"):
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]


def containers(made: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each container."""
    for _, spec in pods(made):
        yield from spec["containers"]
