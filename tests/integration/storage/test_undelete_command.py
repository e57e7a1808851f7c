"""`sexton undelete` confirms, counts, and refuses keys that a claimed mark would hide again."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.interfaces.cli.commands import undelete
from sexton.operators.call_log import CallStore
from sexton.operators.holds.model import Hold
from sexton.operators.registry.undelete import UndeleteUnsafe, find_deletion, hold_on, hold_place
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from sexton.storage.port import Vault
from sexton.storage.vaults import ProvenVaults
from tests.servers.s3 import RunningS3
from tests.support.claims import claim, token
from tests.support.command import run
from tests.support.places import keys
from tests.support.rig import DAY, DEPLOYMENT, GRACE, Rig
from tests.support.undeletes import what_deletes

DUE = 10_800


@pytest.fixture
def cold(database_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Rig]:
    """An instance ``shop`` with a vault ``cold`` in a versioned bucket, which keeps its own audit."""
    s3_server.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    endpoint = s3_server.endpoint_url
    seen = Rig(database_url, endpoint_url=endpoint)
    vaults = ProvenVaults(seen.registry.vault, DEPLOYMENT, endpoint)
    audit = ParquetAudit(AuditLocations(vaults, seen.registry.vaults), 400)
    rig = Rig(database_url, endpoint_url=endpoint, audit=audit).instance()
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
    return rig.round(after=DUE + 1).round


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


def test_a_mark_claimed_before_the_answer_is_waited_for(
    cold: Rig, put: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hold stays when nobody waits any longer."""
    number = recycle(cold, keys=tuple(put[:2]))

    def claim_first(*_: object, **__: object) -> bool:
        cold.mark("dropped", NewMark(id="t2", vault="cold", prefix="d/1/"))
        claim(cold, token(cold, run="second"), "dropped", "t2")
        return True

    monkeypatch.setattr("typer.confirm", claim_first)
    monkeypatch.setattr(undelete, "PATIENCE_SECONDS", 0.0)
    refused = run(cold, capsys, "undelete", "shop", "--round", str(number))

    assert (refused.code, keys(vault(cold), "d/1/"), len(cold.holds.active("shop"))) == (1, [], 1)
    assert "mark dropped t2 of shop is claimed" in refused.err


def test_an_undelete_holds_its_place_against_the_second_pass(
    cold: Rig, put: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    vault(cold).delete(put[2:])
    recycle(cold, prefix="d/1/")
    words = ("undelete", "shop", "--yes", "--vault", "cold", "--prefix")

    neighbour = run(cold, capsys, *words, "d/2/")
    again = run(cold, capsys, *words, "d/2/")
    done = run(cold, capsys, *words, "d/1/")
    cold.round(after=GRACE + 1)

    assert neighbour.out == "undeleted: 2 objects, 6 B, under 2 delete markers (2 keys examined)\n"
    assert "hold 1 keeps cold/d/2/ of shop until" in neighbour.err
    assert (again.code, "hold" in again.err) == (0, False)  # nothing was hidden
    logged = [row.subject for row in CallStore(cold.db).rows(0, 99) if row.action == "undelete" and not row.begun_id]
    assert logged == ["cold/d/2/", "cold/d/1/"]
    assert (done.code, keys(vault(cold), "d/1/")) == (0, put[:2])
    assert "1 mark may delete them again when no hold keeps them" in done.out
    assert "sexton quarantine discard shop dropped/t1 --reason undelete" in done.out
    assert json.loads(run(cold, capsys, *words, "d/1/", "--json").out)["deletes_later"] == ["dropped/t1"]
    assert [hold.what for hold in cold.holds.active("shop")] == ["cold/d/2/", "cold/d/1/"]


def test_what_a_round_is_about_to_hide_is_waited_for(
    cold: Rig, put: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cold.mark("dropped", NewMark(id="t1", vault="cold", prefix="d/1/"))
    cold.later(DUE + 1)
    claim(cold, token(cold), "dropped", "t1")  # nothing is hidden yet
    monkeypatch.setattr(undelete, "PATIENCE_SECONDS", 0.0)

    waited = run(cold, capsys, "undelete", "shop", "--vault", "cold", "--prefix", "d/1/", "--yes")

    assert (waited.code, "and the hold stays: run the command again later" in waited.err) == (1, True)
    assert [hold.what for hold in cold.holds.active("shop")] == ["cold/d/1/"]


def test_a_hold_that_ends_during_the_wait_is_noticed(rig: Rig, root: Path) -> None:
    hold = hold_place(rig.holds, hold_on("shop", "disk", "data/"))
    rig.holds.place(Hold(instance="shop", scope="instance", reason="an audit"), DAY)  # it may end for its own reason
    assert hold_place(rig.holds, hold_on("shop", "disk", "data/t/")).id == hold.id
    rig.holds.release(hold.id)

    with pytest.raises(UndeleteUnsafe, match="has ended meanwhile: run the command again"):
        find_deletion(rig.db, hold)


def test_only_marks_of_the_keys_concern_an_undelete(rig: Rig, root: Path) -> None:
    rig.mark("dropped", NewMark(id="t1", vault="disk", prefix="a/"), NewMark(id="t2", vault="disk", keys=("b/x",)))
    rig.later(DUE + 1)
    claim(rig, token(rig), "dropped", "t1", "t2")
    whole = hold_place(rig.holds, hold_on("shop", "disk", ""))

    for named, deletes in ((("a/x", "c"), True), (("b/x",), True), (("b/y", "c"), False), ((), True)):
        assert bool(find_deletion(rig.db, whole, named)) is deletes, named


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
        ("shop", ("--vault", "cold", "--prefix", "_sexton/", "--yes"), 64, ""),
    ]:
        refused = run(cold, capsys, "undelete", instance, *words)
        assert (refused.code, said in refused.err) == (code, True), words


def test_nothing_is_held_where_no_version_is_kept(rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = run(rig, capsys, "undelete", "shop", "--vault", "disk", "--prefix", "d/", "--yes")

    assert (refused.code, "restore them from a backup" in refused.err) == (1, True)
    assert rig.holds.active("shop") == []


RUNS = "the round that runs may delete its files"
NEXT = "the next round deletes its files"
GIVE_UP = "give the mark up permanently"
OF_A_CLAIM: dict[str, object] = {
    "first_pass_at": None,
    "finished": False,
    "quarantined_reason": None,
    "absorbed": False,
}
STATES: dict[str, tuple[dict[str, object], tuple[str, str]]] = {
    "first pass": ({}, (RUNS, NEXT)),
    "second pass": ({"first_pass_at": 1}, (RUNS, "")),
    "finished": ({"first_pass_at": 1, "finished": True}, (RUNS, GIVE_UP)),
    "failed": ({"quarantined_reason": "DELETE_FAILED"}, (RUNS, GIVE_UP)),
    "unreadable": ({"quarantined_reason": "FILES_UNREADABLE"}, (RUNS, GIVE_UP)),
    "failed in its second pass": ({"quarantined_reason": "DELETE_FAILED", "first_pass_at": 1}, (RUNS, "")),
    "quarantined": ({"quarantined_reason": "CHANGED"}, (RUNS, "")),
    "absorbed": ({"absorbed": True}, ("", "")),
}
"""State of a mark → its columns, and what an undelete says of it during a round, and between two rounds."""
PLACES = {
    "prefix": {"data/": True, "data/t/": True, "data/t/x.dat": True, "data": True, "datum/": False, "e/": False},
    "keys": {"data/": True, "data/t/": True, "data/t/x.dat": True, "data/t/y.dat": False, "": True},
}
"""What the mark names → place that an undelete holds → whether the mark may delete there."""
NAMES: dict[str, dict[str, object]] = {"prefix": {"prefix": "data/t/"}, "keys": {"keys": ("data/t/x.dat", "z.dat")}}


@pytest.mark.parametrize("named", PLACES)
def test_what_an_undelete_waits_for(rig: Rig, root: Path, named: str) -> None:
    """Every state of a mark, named by its prefix or its keys, during a round and between two."""
    rig.mark("dropped", NewMark(id="m", vault="disk", **NAMES[named]))  # type: ignore[arg-type]
    rig.later(DUE + 1)
    of_round = token(rig)
    claim(rig, of_round, "dropped", "m")
    said: dict[tuple[str, str, str], str] = {}
    for when in ("during", "between"):
        for state, (values, _) in STATES.items():
            rig.update("mark", **OF_A_CLAIM | values)
            for place in PLACES[named]:
                said[when, state, place] = what_deletes(rig, place)
        if when == "during":
            rig.leases.free(of_round.lease)
            rig.later(60)
    expected = {
        (when, state, place): STATES[state][1][number] if touches else ""
        for number, when in enumerate(("during", "between"))
        for state in STATES
        for place, touches in PLACES[named].items()
    }

    wrong = {case for case, text in expected.items() if text not in said[case] or bool(text) != bool(said[case])}
    assert wrong == set()
    elsewhere = hold_place(rig.holds, hold_on("shop", "disk", "data/")).model_copy(update={"vault": "other"})
    assert find_deletion(rig.db, elsewhere) == ""
