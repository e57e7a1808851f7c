"""The Compose file has loopback ports and no secret; the systemd units are valid, hardened, and let pages end."""

import re
import shutil
import subprocess
from pathlib import Path

from tests.support.chart import DEPLOY
from tests.support.deployed import STOP_SECONDS, compose, env_file, unit, units

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


HARDENING = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "RestrictNamespaces": "yes",
    "CapabilityBoundingSet": "",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "Restart": "always",
    "User": "sexton",
}
SERVICE_KEYS = {
    *HARDENING,
    *("Type", "Group", "EnvironmentFile", "Environment", "LoadCredential", "WorkingDirectory", "StateDirectory"),
    *("StateDirectoryMode", "ExecStart", "RestartSec", "TimeoutStopSec", "KillMode", "ProtectClock", "ProtectHostname"),
    *("ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "ProtectControlGroups", "ProtectProc"),
    *("RestrictRealtime", "RestrictSUIDSGID", "LockPersonality", "SystemCallArchitectures", "SystemCallFilter"),
    *("SystemCallErrorNumber", "UMask"),
}


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for name in units():
        assert {key for section, key, _ in unit(name) if section == "Service"} <= SERVICE_KEYS  # others are ignored
        text = (DEPLOY / "systemd" / name).read_text().replace("/opt/sexton/bin/sexton", "/bin/true")
        (tmp_path / name).write_text(text)
        if (analyze := shutil.which("systemd-analyze")) is not None:
            run = subprocess.run([analyze, "verify", str(tmp_path / name)], capture_output=True, text=True)
            assert (run.returncode, run.stderr) == (0, ""), name


def test_the_services_can_do_little_and_finish_their_page() -> None:
    for name in units():
        values = {key: value for section, key, value in unit(name) if section == "Service"}

        assert values.items() >= HARDENING.items(), name
        assert values["ExecStart"].startswith("/opt/sexton/bin/sexton ")
        assert values["Environment"].startswith(f"SEXTON_HOME=/var/lib/{values['StateDirectory']}/")
        assert "api" in name or int(values["TimeoutStopSec"]) >= STOP_SECONDS


def test_a_backend_worker_reads_no_secret_of_others() -> None:
    entries = unit("sexton-backend@.service")

    assert units() == [f"sexton-{role}.service" for role in ("api", "backend@", "spark-worker", "worker")]
    assert ("Service", "EnvironmentFile", "/etc/sexton/backend-%i.env") in entries
    assert ("Service", "LoadCredential", "token:/etc/sexton/backend-%i.token") in entries
    assert [value for _, key, value in entries if key == "EnvironmentFile"] == ["/etc/sexton/backend-%i.env"]
