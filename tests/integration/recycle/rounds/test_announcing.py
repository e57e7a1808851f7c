"""A round announces itself to all vaults in parallel and renews its lease while vaults do not answer."""

import threading
from pathlib import Path
from typing import Any

import pytest

from sexton.recycle.rounds import recycler as announcer
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig


def test_silent_vaults_do_not_delay_the_others(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(7):
        rig.local(tmp_path / f"v{n}", f"v{n}")
    together, renewed = threading.Barrier(7), threading.Event()
    announce, renew = rig.vaults.announce, rig.leases.renew

    def silent(*given: Any) -> None:
        together.wait(PATIENCE_SECONDS)
        assert renewed.wait(PATIENCE_SECONDS)
        announce(*given)

    monkeypatch.setattr(announcer, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(rig.vaults, "announce", silent)
    monkeypatch.setattr(rig.leases, "renew", lambda lease: (renew(lease), renewed.set()))
    opened = rig.rounds.open("shop", "run", None, rig.policy)

    assert rig.recycler.announce(opened, lambda: None) == {}
