"""Clients that are generated from the OpenAPI document compile, and do in Go and TypeScript what operators do."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.servers.api import Api
from tests.servers.generated_client import go_program, typescript_program
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig

Program = Callable[[Path, Path], list[str]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [typescript_program, pytest.param(go_program, marks=pytest.mark.soak)],  # Go compiles its own library: 70 s of CPU
)
def test_a_generated_client_holds_plans_and_releases(api: Api, rig: Rig, tmp_path: Path, program: Program) -> None:
    token = api.token("operate@shop")
    document = tmp_path / "openapi.json"
    described = httpx.get(
        f"{api.url}/v1/openapi.json", headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_SECONDS
    )
    document.write_bytes(described.content)

    command = [*program(document, tmp_path / "home"), "shop"]
    environment = os.environ | {"SEXTON_API_URL": api.url, "SEXTON_API_TOKEN": token}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)

    assert (ran.returncode, ran.stderr) == (0, "")
    said = re.sub(r"\d+", "N", ran.stdout).splitlines()
    mode, held, planned, refused = said
    assert (mode, held, planned) == ("shop is in mode enabled", "hold N blocks N marks", "plan N was made")
    assert refused == "another hold: N"
    assert ran.stdout.endswith("403\n")  # a token of one instance does not learn whether it exists
    assert rig.count("hold") == 1
    assert not rig.holds.active("shop")
    assert rig.count("plan") == 1
