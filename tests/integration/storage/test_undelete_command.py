"""`sexton undelete` confirms, counts, and refuses keys that a claimed mark would hide again."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.operators.holds.model import Hold
from sexton.operators.registry.undelete_check import UndeleteUnsafe, ensure_undelete_is_safe
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from sexton.storage.port import Vault
from sexton.storage.vaults import ProvenVaults
from tests.servers.s3 import RunningS3
from tests.support.claims import claim, token
from tests.support.command import run
from tests.support.places import keys
from tests.support.rig import DEPLOYMENT, GRACE, Rig

DUE = 10_800


@pytest.fixture
def cold(database_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Rig]:
    """An instance ``shop`` with a vault ``cold`` in a versioned bucket, which keeps its own audit."""
    s3_server.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    url = database_url
    endpoint = s3_server.endpoint_url
    seen = Rig(url, endpoint_url=endpoint)
    vaults = ProvenVaults(seen.registry.vault, DEPLOYMENT, endpoint)
    rig = Rig(
        url, endpoint_url=endpoint, audit=ParquetAudit(AuditLocations(vaults, seen.registry.vaults), 400)
    ).instance()
    rig.s3(bucket, prefix="wh/")
    yield rig
    rig.db.close()
    seen.db.close()


@pytest.fixture
def put(s3_server: RunningS3, bucket: str) -> list[str]:
    """Two objects of 3 bytes under each of `d/1/` and `d/2/`."""
    written = [f"d/{a}/{n}" for a in (1, 2) for n in (1, 2)]
    for key in written:
        s3_server.client().put_object(Bucket=bucket, Key=f"wh/{key}", Body=b"abc")
    return written


def vault(rig: Rig) -> Vault:
    return rig.vaults.get("shop", "cold")


def recycle(rig: Rig, **where: object) -> int:
    """Mark, wait and run a round; return its number."""
    rig.mark("dropped", NewMark(id="t1", vault="cold", **where))  # type: ignore[arg-type]
    rig.later(DUE + 1)
    return rig.round().round


def test_keys_hidden_by_a_round_are_undeleted_once_confirmed(
    cold: Rig, put: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    number = recycle(cold, keys=tuple(put[:2]))
    vault(cold).delete(["d/2/1"])  # hidden by somebody else
    words = ("undelete", "shop", "--round", str(number))

    counted = run(cold, capsys, *words, "--dry-run")
    unanswered = run(cold, capsys, *words)

    assert (counted.code, "would undelete: 2 objects, 6 B" in counted.out) == (0, True)
    assert (unanswered.code, "to undelete: 2 objects" in unanswered.err) == (1, True)
    assert keys(vault(cold), "d/") == ["d/2/2"]
    done = run(cold, capsys, *words, "--yes", "--json")
    assert (done.code, json.loads(done.out)["shown"], json.loads(done.out)["bytes"]) == (0, 2, 6)
    assert keys(vault(cold), "d/") == ["d/1/1", "d/1/2", "d/2/2"]


def test_a_mark_claimed_before_the_answer_is_noticed(
    cold: Rig, put: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    number = recycle(cold, keys=tuple(put[:2]))

    def claim_first(*_: object, **__: object) -> bool:
        cold.mark("dropped", NewMark(id="t2", vault="cold", prefix="d/1/"))
        claim(cold, token(cold, run="second"), "dropped", "t2")
        return True

    monkeypatch.setattr("typer.confirm", claim_first)
    refused = run(cold, capsys, "undelete", "shop", "--round", str(number))

    assert (refused.code, keys(vault(cold), "d/1/")) == (1, [])
    assert "mark dropped t2 of shop is claimed" in refused.err


def test_a_claimed_prefix_needs_a_hold_before_an_undelete(
    cold: Rig, put: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    vault(cold).delete(put[2:])
    recycle(cold, prefix="d/1/")
    words = ("undelete", "shop", "--yes", "--vault", "cold", "--prefix")

    neighbour = run(cold, capsys, *words, "d/2/")
    refused = [run(cold, capsys, *words, prefix) for prefix in ("d/", "d/1/")]
    assert (neighbour.code, neighbour.out) == (
        0,
        "undeleted: 2 objects, 6 B, under 2 delete markers (2 keys examined)\n",
    )
    assert ([one.code for one in refused], keys(vault(cold), "d/1/")) == ([1, 1], [])
    assert "sexton hold add shop --prefix cold/d/1/ --for 7d" in refused[1].err
    held = ("--for", "7d", "--reason", "undelete")
    assert run(cold, capsys, "hold", "add", "shop", "--prefix", "cold/d/1/", *held).code == 0
    done = run(cold, capsys, *words, "d/1/")
    cold.later(GRACE + 1)
    cold.round()

    assert (done.code, keys(vault(cold), "d/1/")) == (0, put[:2])


def test_a_request_that_names_no_hidden_key_is_refused(cold: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    number = str(recycle(cold, keys=("d/never",)))
    cold.registry.add_instance("other")

    for instance, words, code, said in [
        ("other", ("--round", number, "--yes"), 1, "is of instance shop"),
        ("shop", ("--round", "999", "--yes"), 1, "no round 999"),
        ("shop", ("--round", number, "--vault", "hot", "--yes"), 1, "hid nothing in vault hot"),
        ("shop", (), 64, ""),
        ("shop", ("--vault", "cold"), 64, ""),
        ("shop", ("--prefix", "d/"), 64, ""),
        ("shop", ("--vault", "cold", "--prefix", "d/", "--round", "1"), 64, ""),
        ("shop", ("--vault", "hot", "--prefix", "d/", "--yes"), 1, ""),
        ("shop", ("--vault", "cold", "--prefix", "_sexton/", "--yes"), 1, ""),
    ]:
        refused = run(cold, capsys, "undelete", instance, *words)
        assert (refused.code, said in refused.err) == (code, True), words


@pytest.mark.slow
def test_no_undelete_without_versions_or_during_a_deletion(
    rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = run(rig, capsys, "undelete", "shop", "--vault", "disk", "--prefix", "d/", "--yes")
    assert (refused.code, "restore them from a backup" in refused.err) == (1, True)
    rig.mark("dropped", NewMark(id="t1", vault="disk", prefix="data/"))
    rig.later(DUE + 1)
    claim(rig, token(rig), "dropped", "t1")
    assert rig.row("dropped", "t1").state == "CLAIMED"
    hold = Hold(instance="shop", scope="prefix", vault="disk", prefix="data/", reason="r")
    rig.holds.place(hold, 60)  # it does not cover an object that is being deleted

    for meant in ({"prefix": "data/"}, {"prefix": "data/t1.dat"}, {"keys": ["other", "data/t1.dat"]}):
        with pytest.raises(UndeleteUnsafe, match="still being deleted"):
            ensure_undelete_is_safe(rig.db, "shop", "disk", **meant)  # type: ignore[arg-type]
    for free in ({"keys": ["other"]}, {"prefix": "datum/"}):
        assert ensure_undelete_is_safe(rig.db, "shop", "disk", **free) is None  # type: ignore[arg-type, func-returns-value]
    assert ensure_undelete_is_safe(rig.db, "shop", "hot", prefix="data/") is None  # type: ignore[func-returns-value]
