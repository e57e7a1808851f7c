"""Kyoto University 2021: a variable in a cleanup script was empty, and 77 TB were deleted.

Sexton refuses an empty argument, a root and half a name everywhere; it lists and deletes nothing then.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from sexton.contract import NewMark, mark
from sexton.database.tables import METADATA
from sexton.kernel.errors import BadInput
from tests.fault.conftest import Faulty
from tests.integration.check.conftest import Owned
from tests.museum.tables import deleted_ids, marks, run_clean_rounds
from tests.support.command import run
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put

UNSET = ""
"""What a shell makes of a variable that nobody set."""
STAGES = ("stage/u1/a.dat", "stage/u10/b.dat", "stage/u2/c.dat", "data/1/d.dat")
REFUSED = (
    UNSET,
    "/",
    f"/{UNSET}/",
    f"stage/{UNSET}/",
    f"{UNSET}/1/",
    "stage/u1",
    "data",
    ".",
    "./",
    "../",
    "stage/../",
    "_sexton/",
)
"""Prefixes that no mark can have: each is empty, a root, or would mean more than one thing."""
WORDS = (
    f"hold add shop --prefix cold/{UNSET} --for 1h --reason x",
    "hold add shop --prefix / --for 1h --reason x",
    "hold add shop --prefix '' --for 1h --reason x",
    f"hold add shop --prefix {UNSET}/data/1/ --for 1h --reason x",
    "hold add '' --for 1h --reason x",
    "hold add shop --table '' --for 1h --reason x",
    f"hold add shop --mark dropped/{UNSET} --for 1h --reason x",
    f"hold add shop --mark {UNSET}/t1 --for 1h --reason x",
    "hold add shop --mark dropped/t1 --for 1h --reason ''",
    "undelete shop --vault cold --prefix '' --yes",
    "undelete shop --vault cold --prefix / --yes",
    "undelete shop --vault '' --prefix data/1/ --yes",
    "undelete '' --vault cold --prefix data/1/ --yes",
    "plan ''",
    "apply '' --yes",
    "apply 0 --yes",
    "enable ''",
    "stop '' --reason x",
    "start ''",
    "instance add ''",
    "instance observe ''",
    "lists add blacklist ''",
    "lists add whitelist ''",
    "lists add vaults ''",
    "lists add vaults '/'",
    "quarantine retry '' --all",
    "quarantine retry shop ''",
    "quarantine retry shop --reason ''",
    f"quarantine discard shop dropped/{UNSET} --reason x --yes",
    "vault cap '' cold 5",
    "vault cap shop '' 5",
    "vault add shop more --s3 ''",
    "vault add shop more --s3 /",
    "vault add shop more --s3 s3://",
    f"vault add shop more --s3 {UNSET}/data",
    "vault add shop more --local ''",
    "vault add '' more --s3 elsewhere",
    "vault add shop '' --s3 elsewhere",
    "vault trust shop '' --reason x --yes",
    "vault probe shop ''",
)


def words(line: str) -> list[str]:
    return [UNSET if word == "''" else word for word in line.split(" ")]


def contents(rig: Rig) -> dict[str, Sequence[object]]:
    """Return every row of every table."""
    with rig.db.read() as c:
        return {t.name: sorted(map(repr, c.execute(select(t)))) for t in METADATA.sorted_tables}


@pytest.mark.slow
def test_kyoto_2021_every_command_refuses_an_empty_argument(cold: Faulty, capsys: pytest.CaptureFixture[str]) -> None:
    cold.put(*STAGES)
    cold.rig.mark("dropped", NewMark(id="t1", vault="cold", keys=("data/1/d.dat",)))
    cold.rig.later(10_801)
    before, tables_before, requests = cold.listing(), contents(cold.rig), len(cold.proxy.log)

    wrong = {}
    for line in WORDS:
        printed = run(cold.rig, capsys, *words(line))
        error_lines = printed.err.strip().splitlines()
        if printed.code not in (1, 64) or not error_lines or "Traceback" in printed.err:
            wrong[line] = printed
    touched = [e for e in cold.proxy.log[requests:] if e.operation.startswith(("List", "Delete", "Put"))]

    assert wrong == {}
    assert touched == []
    tables_after = contents(cold.rig)
    calls = tables_after.pop(cold.rig.db.t.call.name)
    tables_before.pop(cold.rig.db.t.call.name)
    assert tables_after == tables_before
    assert calls
    assert not any("'ok'" in c for c in calls)  # each was written down, and how it was refused
    assert cold.listing() == before


def test_kyoto_2021_mark_of_an_unsafe_prefix_is_refused(rig: Rig, disk: Path) -> None:
    for name in STAGES:
        put(disk, name)
    raw = text(
        "INSERT INTO sexton.mark (instance, kind, id, vault, prefix) VALUES ('shop', 'dropped', 't2', 'disk', :p)"
    )
    for prefix in REFUSED:
        with pytest.raises(BadInput, match="refused"), rig.db.write() as c:
            mark(c, "shop", "dropped", [NewMark(id="t1", vault="disk", prefix=prefix)])
        with pytest.raises(IntegrityError), rig.db.write() as c:
            c.execute(raw, {"p": prefix})
    rig.later(10_801)
    report = rig.round()

    assert (marks(rig), report.due) == ({}, 0)
    assert set(listing(disk)) == set(STAGES)


def test_kyoto_2021_key_or_star_never_deletes_objects_below_it(cold: Faulty) -> None:
    cold.put(*STAGES)
    values = "'shop', 'dropped', :i, 'cold', CAST(:names AS jsonb)"
    raw = f"INSERT INTO {{}}mark (instance, kind, id, vault, keys) VALUES ({values})"
    for n, key in enumerate((UNSET, "/", ".", "stage", "stage/", "data/1/", "*", "stage/*", "_sexton/vault.json")):
        cold.rig.sql(raw, i=f"t{n}", names=f'["{key}"]')
    cold.rig.later(10_801)
    marker, requests = cold.vault.read_marker(), len(cold.proxy.log)

    run_clean_rounds(cold.rig)

    assert set(cold.listing()) == set(STAGES)
    assert [e for e in cold.proxy.log[requests:] if e.operation.startswith("List")] == []
    assert marker is not None
    assert cold.vault.read_marker().vault_uuid == marker.vault_uuid  # type: ignore[union-attr]

    stars = ("*", "stage/*", "stage/u?/", "*/")
    cold.rig.mark("dropped", *(NewMark(id=f"star{n}", vault="cold", prefix=star) for n, star in enumerate(stars)))
    cold.rig.later(10_801)
    run_clean_rounds(cold.rig)

    assert set(cold.listing()) == set(STAGES)
    assert deleted_ids(cold.rig) >= {"star0", "star1", "star2", "star3"}


def test_kyoto_2021_prefix_above_a_live_entry_is_kept(owned: Owned) -> None:
    for name in STAGES:
        put(owned.root, name)
    owned.live_rows(("stage/u10/", None))
    owned.mark("dropped", NewMark(id="u", vault="disk", prefix=f"stage/{UNSET}"))
    owned.later(10_801)

    report = owned.round()

    assert kept_texts(report) == {"live": 1}
    assert (set(listing(owned.root)), marks(owned)) == (set(STAGES), {"u": "MARKED"})
