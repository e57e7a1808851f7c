"""The processes of Sexton that chart, Compose file and systemd units start: their arguments and variables."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from sexton.interfaces.worker.control import SHUTDOWN
from sexton.storage.model import IN_FLIGHT_SECONDS
from tests.support.chart import DEPLOY, VALUES, containers, documents

STOP_SECONDS = SHUTDOWN.total_seconds() + IN_FLIGHT_SECONDS
"""How long a worker may need to end: its activities are cancelled after a time, and a page under way is finished."""

STANDING_IN: Mapping[str, str] = {
    "SEXTON_DATABASE_URL": "postgresql://sexton@db/sexton",
    "SEXTON_LIVE_DATABASE_URL": "postgresql://{instance}_reader@db/sexton",
    "SEXTON_WAL__FLUSH_SECRET": "f" * 32,
}
"""Values of secrets, for a process that reads its settings in a test."""


class Deployed(NamedTuple):
    """One process. ``settings``: the text of its sexton.toml, None without one."""

    name: str
    arguments: list[str]
    variables: dict[str, str]
    settings: str | None = None


def compose() -> dict[str, Any]:
    """Return the Compose file."""
    parsed: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    return parsed


def unit(name: str) -> list[tuple[str, str, str]]:
    """Return (section, key, value) of each line of a unit, in its order."""
    section, entries = "", []
    for line in (DEPLOY / "systemd" / name).read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            entries.append((section, key, value))
    return entries


def units() -> list[str]:
    """Return the names of the units."""
    return sorted(path.name for path in (DEPLOY / "systemd").glob("*.service"))


def env_file(text: str) -> dict[str, str]:
    """Return the variables of an environment file, those of comments included."""
    return dict(re.findall(r"^#?([A-Z][A-Z0-9_]+)=(.*)$", text, re.MULTILINE))


def processes() -> Iterator[Deployed]:
    """Yield every process."""
    yield from _of_chart()
    yield from _of_compose()
    yield from _of_units()


def _of_chart() -> Iterator[Deployed]:
    for values_name, values in VALUES.items():
        for container in containers(documents(values)):
            variables = {e["name"]: e.get("value", STANDING_IN.get(e["name"], "secret")) for e in container["env"]}
            yield Deployed(
                f"chart, {values_name}, {container['name']}", container["args"], variables, values.get("settings", "")
            )


def _of_compose() -> Iterator[Deployed]:
    for name, service in compose()["services"].items():
        if service["image"].startswith("sexton"):
            filled = {k: re.sub(r"\$\{[^}]*\}", "random", v) for k, v in service["environment"].items()}
            yield Deployed(f"compose, {name}", service["command"], filled)


def _of_units() -> Iterator[Deployed]:
    example = env_file((DEPLOY / "systemd" / "sexton.env.example").read_text()) | STANDING_IN
    for name in units():
        entries = unit(name)
        command = next(value for _, key, value in entries if key == "ExecStart")
        variables = dict(v.partition("=")[::2] for _, key, v in entries if key == "Environment")
        reads_all = ("Service", "EnvironmentFile", "/etc/sexton/sexton.env") in entries
        yield Deployed(
            name, shlex.split(command)[1:], (example if reads_all else {}) | variables | {"SEXTON_DEPLOYMENT": "shop"}
        )
