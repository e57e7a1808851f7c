"""Behind the samples of proxies hostile clients do not keep stops, renewals and health checks from being answered."""

import os
from collections import Counter
from pathlib import Path

import pytest

from sexton.protection.model import Item
from tests.fault import api_judge, hostile_clients
from tests.integration.protection.registrations import garbage, registration
from tests.servers.api_process import ApiProcess
from tests.servers.forked import Forked
from tests.servers.sample_proxy import SampleProxy
from tests.support.eventually import eventually
from tests.support.rig import Rig

ANSWERS = 8
"""Of each kind during the attack."""
KINDS = ("health", "stop", "renewal")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["nginx", pytest.param("caddy", marks=pytest.mark.soak)])
def test_stop_renew_and_health_answer_behind_a_proxy(rig: Rig, tmp_path: Path, program: str) -> None:
    garbage(rig, tmp_path)
    item = Item("disk", "data/a.dat")
    rig.registrar.register_at_once(registration("copy:1", item), [item])
    with ApiProcess(rig, tmp_path) as api, SampleProxy(program, api.address, tmp_path) as proxy:
        tokens = {api_judge.OPERATOR: api.token("operate@*"), api_judge.JOB: api.token("sync:copy@shop")}
        judge = Forked("judge", "tests.fault.api_judge", [proxy.url], tmp_path, os.environ | tokens)
        env = os.environ | {hostile_clients.TOKEN: api.token("sync:evil@shop")}
        hostile = Forked("hostile", "tests.fault.hostile_clients", ["127.0.0.1", str(proxy.port)], tmp_path, env)
        try:
            judge.start(lambda: bool(_answers(judge)))
            hostile.start(lambda: "under way" in hostile.log.read_text())
            before = _answers(judge)
            eventually(
                "each kind is answered during the attack",
                lambda: _answers(judge) - before,
                lambda during: all(during[f"{kind} 200"] >= ANSWERS for kind in KINDS),
            )
        finally:
            hostile.kill()
            judge.kill()
        log = api.log()

    # 503: the machine is too slow for now; the judge asks again.
    assert set(_answers(judge)) <= {f"{kind} {status}" for kind in KINDS for status in (200, 503)}
    assert "Traceback" not in log


def _answers(judge: Forked) -> Counter[str]:
    return Counter(judge.log.read_text().split("\n")[:-1])
