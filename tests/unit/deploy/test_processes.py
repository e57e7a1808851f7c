"""What chart, Compose file and units start exists: each command, each option, each variable, each port."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from config.settings import load
from config.sources import CONTROL_NAMES, PREFIX
from sexton.interfaces.cli.main import root
from tests.servers.certificate import certificate
from tests.support.chart import DEPLOY, FULL, MINIMAL, containers, documents, render
from tests.support.deployed import Deployed, compose, processes


@pytest.fixture(scope="module")
def deployed() -> list[Deployed]:
    """Every process; the chart is rendered only when a test needs it."""
    return list(processes())


def _words(command: Any, arguments: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the first words name, and what follows them."""
    for at, word in enumerate(arguments):
        if not hasattr(command, "commands"):
            return command, arguments[at:]
        command = command.commands[word]
    return command, []


def test_every_command_and_option_exists(deployed: list[Deployed]) -> None:
    for process in deployed:
        command, rest = _words(root(), process.arguments)

        assert not hasattr(command, "commands"), f"{process.name} names a group"
        options = {option for parameter in command.params for option in parameter.opts}
        assert [word for word in rest if word.startswith("--") and word not in options] == [], process.name


def test_settings_are_read(deployed: list[Deployed], tmp_path: Path, subtests: pytest.Subtests) -> None:
    authority = str(certificate(tmp_path).authority)
    for process in deployed:
        with subtests.test(process.name), pytest.MonkeyPatch.context() as environment:
            _read(process, tmp_path, authority, environment)


def _read(process: Deployed, folder: Path, authority: str, environment: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        environment.delenv(name)
    environment.chdir(folder)
    for name, value in process.variables.items():
        environment.setenv(name, value)
    if "SEXTON_CONFIG" in process.variables:
        assert process.variables["SEXTON_CONFIG"] == "/etc/sexton/sexton.toml"
        (folder / "own.toml").write_text(process.settings or "")
        environment.setenv("SEXTON_CONFIG", str(folder / "own.toml"))
    if "SEXTON_CA_CERTS" in process.variables:
        environment.setenv("SEXTON_CA_CERTS", authority)

    settings = load()

    assert settings.require_deployment() in ("shop-prod", "compose-trial", "shop")
    unread = {n for n in process.variables if n.startswith(PREFIX)} - CONTROL_NAMES - _settings_of(settings)
    assert unread == set()


def _settings_of(settings: Any) -> set[str]:
    """Return the names of variables of all settings."""
    names = set()
    for name in type(settings).model_fields:
        section = getattr(settings, name)
        keys = type(section).model_fields if isinstance(section, BaseModel) else [""]
        names |= {f"{PREFIX}{name}{'__' if key else ''}{key}".upper() for key in keys}
    return names


def test_probes_ask_the_port_that_listens_as_it_speaks() -> None:
    for values, scheme in ((MINIMAL, "HTTPS"), (FULL, "HTTP")):
        for container in containers(documents(values)):
            probes = [value for key, value in container.items() if key.endswith("Probe")]
            listening = [e["value"] for e in container["env"] if e["name"].endswith("__LISTEN")]
            assert [f"0.0.0.0:{port['containerPort']}" for port in container.get("ports", ())] == listening
            assert {probe["httpGet"]["path"] for probe in probes} <= {"/livez", "/readyz"}
            assert {probe["httpGet"]["port"] for probe in probes} == {p["name"] for p in container.get("ports", ())}
            if container["name"] == "api":
                assert [probe["httpGet"]["scheme"] for probe in probes] == [scheme] * 2


def test_ports_are_those_of_the_settings() -> None:
    port = load().api.listen.rpartition(":")[2]
    services = compose()["services"]

    assert f"127.0.0.1:{port}:{port}" in services["api"]["ports"]
    assert render(MINIMAL)["api.yaml"].count(f"containerPort: {port}") == 1


def test_deploy_files_name_known_variables_only() -> None:
    known = _settings_of(load()) | CONTROL_NAMES
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file() and not path.is_symlink():
            names = set(re.findall(r"\bSEXTON_[A-Z][A-Z0-9_]*[A-Z0-9]\b", path.read_text()))
            assert names - known == set(), path


def test_the_chart_serves_the_console_if_asked() -> None:
    for console, command in ((False, "api"), (True, "console")):
        values = MINIMAL | {"api": {**MINIMAL.get("api", {}), "console": console}}
        api = next(c for c in containers(documents(values)) if c["name"] == "api")
        assert api["args"] == [command]
