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
from tests.museum.tables import deleted_ids, marks
from tests.support.command import run
from tests.support.kept import kept_texts
from tests.support.planned import Limited, limited_policy, waiting_plans
from tests.support.rig import GRACE, Rig, listing, put
from tests.support.transactions import owner_write

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
    f"hold vault-prefix cold/{UNSET} --for 1h --reason x",
    "hold vault-prefix / --for 1h --reason x",
    "hold vault-prefix '' --for 1h --reason x",
    f"hold vault-prefix {UNSET}/data/1/ --for 1h --reason x",
    "hold instance '' --for 1h --reason x",
    "hold table '' --for 1h --reason x",
    f"hold mark dropped/{UNSET} --for 1h --reason x",
    f"hold mark {UNSET}/t1 --for 1h --reason x",
    "hold mark dropped/t1 --for 1h --reason ''",
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
    "pace '' 5/s",
    "vault add shop more --s3 ''",
    "vault add shop more --s3 /",
    "vault add shop more --s3 s3://",
    f"vault add shop more --s3 {UNSET}/data",
    "vault add shop more --local ''",
    "vault add '' more --s3 elsewhere",
    "vault add shop '' --s3 elsewhere",
    "vault trust shop '' --yes",
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


def test_kyoto_2021_prefix_u1_does_not_delete_u10(rig: Rig, disk: Path) -> None:
    for name in STAGES:
        put(disk, name)
    rig.mark("dropped", NewMark(id="u1", vault="disk", prefix="stage/u1/"))
    rig.later(10_801)
    rig.round()
    rig.later(GRACE + 1)
    rig.round()

    assert set(listing(disk)) == set(STAGES) - {"stage/u1/a.dat"}
    assert deleted_ids(rig) == {"u1"}


def test_kyoto_2021_key_never_deletes_objects_below_it(cold: Faulty) -> None:
    cold.put(*STAGES)
    values = "'shop', 'dropped', :i, 'cold', CAST(:names AS jsonb)"
    raw = f"INSERT INTO {{}}mark (instance, kind, id, vault, keys) VALUES ({values})"
    for n, key in enumerate((UNSET, "/", ".", "stage", "stage/", "data/1/", "*", "stage/*", "_sexton/vault.json")):
        cold.rig.sql(raw, i=f"t{n}", names=f'["{key}"]')
    cold.rig.later(10_801)
    marker, requests = cold.vault.read_marker(), len(cold.proxy.log)

    for _ in range(2):
        cold.rig.round()
        cold.rig.later(GRACE + 1)

    assert set(cold.listing()) == set(STAGES)
    assert [e for e in cold.proxy.log[requests:] if e.operation.startswith("List")] == []
    assert marker is not None
    assert cold.vault.read_marker().vault_uuid == marker.vault_uuid  # type: ignore[union-attr]


def test_kyoto_2021_star_in_a_key_is_no_pattern(cold: Faulty) -> None:
    cold.put(*STAGES)
    stars = ("*", "stage/*", "stage/u?/", "*/")
    cold.rig.mark("dropped", *(NewMark(id=f"t{n}", vault="cold", prefix=star) for n, star in enumerate(stars)))
    cold.rig.later(10_801)
    for _ in range(2):
        cold.rig.round()
        cold.rig.later(GRACE + 1)

    assert set(cold.listing()) == set(STAGES)
    assert deleted_ids(cold.rig) == {"t0", "t1", "t2", "t3"}


def test_kyoto_2021_prefix_above_a_live_entry_is_kept(rig: Rig, disk: Path) -> None:
    for name in STAGES:
        put(disk, name)
    with owner_write(rig.db) as c:
        c.exec_driver_sql(
            "CREATE VIEW sexton_live AS SELECT 'shop' AS instance, 'stage' AS kind, 'u10' AS id, 'disk' AS vault, "
            "'stage/u10/' AS key"
        )
    rig.mark("dropped", NewMark(id="u", vault="disk", prefix=f"stage/{UNSET}"))
    rig.later(10_801)

    report = rig.round()

    assert kept_texts(report) == {"live": 1}
    assert (set(listing(disk)), marks(rig)) == (set(STAGES), {"u": "MARKED"})


def test_kyoto_2021_drop_of_everything_waits_for_approval(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Limited(database_url).instance()
    shop.policy = limited_policy(objects=50)
    root = shop.local(tmp_path / "v")
    for n in range(60):
        put(root, f"data/{n}/a.dat")
    before = listing(root)
    shop.mark("dropped", *(NewMark(id=f"t{n}", vault="disk", keys=(f"data/{n}/a.dat",)) for n in range(60)))
    shop.later(10_801)
    unasked = [shop.round() for _ in range(3)]
    [number] = waiting_plans(shop)
    nobody = run(shop, capsys, "apply", str(number))  # a script: nobody answers with yes
    with shop.db.write() as c:
        c.execute(shop.db.t.mark.delete())
    after = shop.round()
    shop.db.close()

    assert [r.claimed for r in (*unasked, after)] == [0, 0, 0, 0]
    assert nobody.code == 1
    assert listing(root) == before
