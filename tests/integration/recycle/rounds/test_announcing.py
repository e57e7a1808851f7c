"""A round announces itself to all vaults in parallel and renews its lease while vaults do not answer."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.rig import Rig


def test_silent_vaults_do_not_delay_the_others(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(7):
        rig.local(tmp_path / f"v{n}", f"v{n}")
    renewed: list[float] = []
    announce, renew = rig.vaults.announce, rig.leases.renew

    def silent(*given: Any) -> None:
        time.sleep(1.0)
        announce(*given)

    monkeypatch.setattr(rig.vaults, "announce", silent)
    monkeypatch.setattr(rig.leases, "renew", lambda lease: (renewed.append(time.monotonic()), renew(lease)))
    opened = rig.rounds.open("shop", "run", None, rig.policy)
    began = time.monotonic()
    rig.recycler.announce(opened, lambda: None)

    assert renewed
    assert renewed[-1] - began < 7  # one after the other would take as long as there are vaults
