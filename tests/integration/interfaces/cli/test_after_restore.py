"""`sexton after-restore` stops deletion, ends leases, distrusts maps, trusts vaults, and may be repeated."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.interfaces.cli.commands import after_restore
from sexton.marks.model import LeaseLost
from sexton.marks.sql.leases import EPOCHS_OF_A_COPY
from tests.servers.postgres import new_database
from tests.support.command import Printed, run
from tests.support.kept import kept_texts
from tests.support.rig import Rig, put


@pytest.fixture(autouse=True)
def _no_temporal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(after_restore, "PATIENCE_SECONDS", 0.0)


@pytest.fixture
def restored(tmp_path: Path) -> Rig:
    """A copy of a database; the original has deleted in the vault since, and a mark waits in both."""
    rig = Rig(new_database()).instance()
    root = rig.local(tmp_path / "v")
    for name in "ab":
        put(root, f"{name}.dat")
    rig.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)))
    rig.insert("wal_topic", name="wal-1", instance="shop", enabled=True, mapped_at=1_000)
    rig.later(10_801)
    copy = rig.copy()
    rig.round()
    rig.db.close()
    return copy


def call(rig: Rig, capsys: pytest.CaptureFixture[str], *words: str) -> Printed:
    return run(rig, capsys, "after-restore", "--reason", "backup of 03:00", *words)


def test_restored_database_is_made_ready(restored: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    before = kept_texts(restored.round())
    done, again = call(restored, capsys, "--yes"), call(restored, capsys, "--yes")
    [topic] = restored.rows("wal_topic")
    stopped = run(restored, capsys, "blockers").out
    started = run(restored, capsys, "start", "--all")
    report = restored.round()

    assert before == {"vault disk: BEHIND": 1}
    assert (done.code, again.code, started.code) == (0, 0, 0)
    assert "1. deletion is stopped everywhere, until: sexton start --all" in done.out
    assert "shop: marks that rounds will delete, unless they are undropped or held: 1 dropped" in done.out
    assert "vault disk of shop belongs to this database again" in done.out
    assert "holds, lists, stops, observe modes, settings, revoked tokens and grants" in done.out
    assert "after-restore --check" in done.out
    assert "1. deletion was already stopped everywhere" in again.out
    assert "5. no vault knows a round that this database does not know" in again.out
    assert topic.mapped_at is None
    assert "backup of 03:00" in stopped
    assert (report.claimed, report.kept) == (1, {})


def test_leases_end_and_without_an_answer_no_vault_is_trusted(
    restored: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    lease = restored.leases.acquire("shop", "recycle", "old-run")
    refused = call(restored, capsys)
    proofs = run(restored, capsys, "vault", "list")
    controls = restored.controls.all()
    call(restored, capsys, "--yes")

    assert (refused.code, "BEHIND" in proofs.out, controls != ()) == (1, True, True)
    with pytest.raises(LeaseLost):
        restored.leases.renew(lease)
    again = restored.leases.acquire("shop", "recycle", "old-run")
    assert again.epoch == lease.epoch + EPOCHS_OF_A_COPY + 1
