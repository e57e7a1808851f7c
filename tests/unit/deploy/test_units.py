"""The systemd units are valid, hardened, and stop no worker within a page."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.chart import DEPLOY
from tests.support.deployed import STOP_SECONDS, unit, units

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


@pytest.mark.parametrize("name", units())
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    entries = unit(name)
    assert {key for section, key, _ in entries if section == "Service"} <= SERVICE_KEYS  # a typing error is ignored
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        text = (DEPLOY / "systemd" / name).read_text().replace("/opt/sexton/bin/sexton", "/bin/true")
        (tmp_path / name).write_text(text)

        run = subprocess.run([analyze, "verify", str(tmp_path / name)], capture_output=True, text=True)

        assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("name", units())
def test_the_service_can_do_little(name: str) -> None:
    values = {key: value for section, key, value in unit(name) if section == "Service"}

    assert values.items() >= HARDENING.items()
    assert values["ExecStart"].startswith("/opt/sexton/bin/sexton ")
    assert values["Environment"].startswith(f"SEXTON_HOME=/var/lib/{values['StateDirectory']}/")


@pytest.mark.parametrize("name", [name for name in units() if "api" not in name])
def test_a_page_is_finished_before_systemd_kills(name: str) -> None:
    seconds = next(int(value) for _, key, value in unit(name) if key == "TimeoutStopSec")

    assert seconds >= STOP_SECONDS


def test_a_backend_worker_reads_no_secret_of_others() -> None:
    entries = unit("sexton-backend@.service")

    assert ("Service", "EnvironmentFile", "/etc/sexton/backend-%i.env") in entries
    assert ("Service", "LoadCredential", "token:/etc/sexton/backend-%i.token") in entries
    assert [value for _, key, value in entries if key == "EnvironmentFile"] == ["/etc/sexton/backend-%i.env"]


def test_every_role_has_a_unit() -> None:
    assert [name.split(".")[0] for name in units()] == [
        "sexton-api",
        "sexton-backend@",
        "sexton-spark-worker",
        "sexton-worker",
    ]
