"""The Compose file: ports on loopback, servers of the tested versions, no secret in it, an order that works."""

import re
from pathlib import Path

from tests.support.chart import DEPLOY
from tests.support.deployed import STOP_SECONDS, compose, env_file

ROOT = Path(__file__).parents[3]
SERVICES = compose()["services"]


def test_every_port_is_on_loopback() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]

    assert len(ports) >= 5
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_servers_are_the_tested_versions() -> None:
    tested = dict(re.findall(r"^([\w-]+)-bin==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))

    assert SERVICES["temporal"]["image"] == f"temporalio/temporal:{tested['temporal']}"
    assert SERVICES["s3"]["image"] == f"chrislusf/seaweedfs:{tested['seaweedfs']}"


def test_secrets_are_variables_of_the_env_file() -> None:
    text = (DEPLOY / "compose" / "compose.yaml").read_text()
    example = env_file((DEPLOY / "compose" / "env.example").read_text())
    inserted = re.findall(r"\$\{(\w+):\?see README.md\}", text)

    assert set(inserted) == set(example)
    assert set(example.values()) == {""}
    assert text.count("${") == len(inserted)
    for line in text.splitlines():
        if re.search(r"(PASSWORD|_KEY|_KEY_ID|SECRET|DATABASE_URL)\w*:", line):
            assert "${" in line, line


def test_every_server_is_waited_for() -> None:
    conditions = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}

    for name, needed in conditions.items():
        for other, how in needed.items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], f"{name} waits for {other}"
    assert conditions["schedules"]["init"] == {"condition": "service_completed_successfully"}
    assert {"schedules"} == conditions["api"].keys() == conditions["worker"].keys() - {"s3"}


def test_services_of_sexton_cannot_write_their_image() -> None:
    own = [service for service in SERVICES.values() if service["image"].startswith("sexton")]

    assert len(own) == 4
    for service in own:
        assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, "/tmp", ["ALL"])


def test_the_worker_finishes_its_page() -> None:
    assert int(SERVICES["worker"]["stop_grace_period"].removesuffix("s")) >= STOP_SECONDS


def test_healthchecks_ask_the_published_ports() -> None:
    for name in ("api", "worker"):
        port = re.search(r"127\.0\.0\.1:(\d+)/readyz", SERVICES[name]["healthcheck"]["test"][-1])
        assert port
        assert SERVICES[name]["ports"] == [f"127.0.0.1:{port[1]}:{port[1]}"]
        listening = [v for k, v in SERVICES[name]["environment"].items() if k.endswith("__LISTEN")]
        assert listening == [f"0.0.0.0:{port[1]}"]
