"""Workers share request rates and caps of a place through the database."""

import json
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import event

from sexton.kernel.errors import BadInput
from sexton.recycle.pacing.model import Answer, PaceReport, PaceUpdate, Rate, Shared
from sexton.recycle.pacing.pacer import SharedPacer
from sexton.recycle.pacing.policy import FIRST_PAGE
from sexton.recycle.pacing.store import PaceStore
from sexton.storage.model import VaultSpec
from tests.support.command import run
from tests.support.rig import DEPLOYMENT, Rig

PLACE = "127.0.0.1:1/bucket/data/"


def pace_report(
    rate: float, known: Shared | None = None, *, cut: bool = False, place: str = PLACE, **counts: int
) -> PaceReport:
    return PaceReport(place, known, Rate(rate, 4_000.0), cut, True, **counts)


def exchange(store: PaceStore, worker: str, *reports: PaceReport) -> PaceUpdate:
    update = store.exchange(worker, reports)
    assert update is not None
    return update


def test_concurrent_increases_and_refusals_do_not_add_up(rig: Rig) -> None:
    store = PaceStore(rig.db)
    first = exchange(store, "a", pace_report(1_000)).shared[PLACE]
    rig.later(1)
    ada = exchange(store, "a", pace_report(2_000, first)).shared[PLACE]
    bob = exchange(store, "b", pace_report(2_000, first)).shared[PLACE]
    rig.later(1)
    risen = exchange(store, "b", pace_report(3_600, bob)).shared[PLACE]

    assert (ada.keys_per_second, bob, risen.keys_per_second) == (2_000, ada, 3_600)
    assert (first.throttled_at, risen.throttled_at) == (None, None)

    rig.later(1)
    ada = exchange(store, "a", pace_report(3_200, risen, cut=True)).shared[PLACE]
    bob = exchange(store, "b", pace_report(2_800, risen, cut=True)).shared[PLACE]
    eve = exchange(store, "c", pace_report(3_700, risen)).shared[PLACE]
    rig.later(1)
    again = exchange(store, "b", pace_report(2_900, bob, cut=True)).shared[PLACE]

    assert (ada.keys_per_second, bob, eve) == (3_200, ada, ada)
    assert ada.throttled_at is not None
    assert again.keys_per_second == 2_900
    assert again.throttled_at is not None
    assert again.throttled_at > ada.throttled_at


def test_workers_share_a_place_until_15_s_after_their_work(rig: Rig) -> None:
    store = PaceStore(rig.db)
    alone = exchange(store, "a", pace_report(1_000)).workers[PLACE]
    both = exchange(store, "b", pace_report(1_000)).workers[PLACE]
    elsewhere = exchange(store, "c", pace_report(1_000, place="elsewhere")).workers
    rig.later(16)
    left = exchange(store, "b", pace_report(1_000)).workers[PLACE]

    assert (alone, both, elsewhere, left) == (1, 2, {"elsewhere": 1}, 1)


def test_counters_never_shrink_when_their_worker_ends(rig: Rig) -> None:
    store = PaceStore(rig.db)
    for worker in ("a", "b"):
        exchange(store, worker, pace_report(1_000, requests=10, throttled=2, keys=5_000))
    rig.later(3_601)
    exchange(store, "c", pace_report(1_000, requests=1))
    exchange(store, "c", pace_report(1_000, requests=1))

    [found] = store.figures()

    assert (found.place, found.requests, found.throttled, found.keys) == (PLACE, 22, 4, 10_000)
    assert (found.workers, found.ceiling) == (1, 4_000)
    assert rig.count("pace_share") == 2


def test_places_that_nobody_uses_any_longer_are_forgotten(rig: Rig) -> None:
    store = PaceStore(rig.db)
    for day in range(4):
        exchange(store, f"worker of day {day}", pace_report(1_000, place=f"{PLACE}day-{day}/", requests=1))
        exchange(store, f"worker of day {day}", pace_report(1_000, requests=1))
        rig.later(5 * 86_400)
    exchange(store, "last", pace_report(1_000, requests=1))

    places = {figures.place: figures.requests for figures in store.figures()}

    assert places == {PLACE: 5, f"{PLACE}day-2/": 1, f"{PLACE}day-3/": 1}
    assert rig.count("pace") == 3


def test_an_exchange_needs_the_same_statements_for_60_places(rig: Rig) -> None:
    store, seen = PaceStore(rig.db), []
    event.listen(rig.db.engine, "before_cursor_execute", lambda *given: seen.append(given[2]))

    counts = []
    for places in (1, 60):
        for rate in (1_000, 2_000):
            known = {f.place: Shared(**f.model_dump()) for f in store.figures()}
            seen.clear()
            names = [f"{places}/{n}" for n in range(places)]
            exchange(store, "a", *(pace_report(rate, known.get(name), place=name) for name in names))
            counts.append(len(seen))

    assert counts[:2] == counts[2:]
    assert max(counts) <= 8


def test_a_silent_database_loses_no_count(rig: Rig) -> None:
    pacer, store = pacer_of(rig), PaceStore(rig.db)
    [place] = pacer.places("shop", "cold", ["data/1"])
    first = pacer.page_keys(place)
    pacer.reserve({place: 1}, 0.0)
    assert (first, pacer.page_keys(place)) == (FIRST_PAGE, FIRST_PAGE)  # a request without an answer teaches nothing
    pacer.report_result({place: 1}, Answer(0.0, 0.1, {place: 1}))
    there, away = "pace_share", "away"

    rig.sql(f"ALTER TABLE {{}}pace_share RENAME TO {away}")
    refused = store.exchange("a", [pace_report(1_000)])
    waits = pacer.reserve({place: 1}, 5.0)
    rig.sql(f"ALTER TABLE {{}}away RENAME TO {there}")
    pacer.reserve({place: 1}, 10.0)

    [found] = store.figures()
    assert (refused, waits) == (None, 0.0)
    assert (found.requests, found.throttled) == (1, 1)
    assert found.throttled_at is not None


def test_a_cap_binds_all_workers_within_5_s(rig: Rig) -> None:
    store, pacers = PaceStore(rig.db), [pacer_of(rig), pacer_of(rig)]
    for pacer in pacers:
        [place] = pacer.places("shop", "cold", ["data/1"])

    def granted(begin: int, end: int) -> float:
        """Return keys per second that both get, asking a hundred times a second."""
        keys = 0
        for now in (n / 100 for n in range(begin * 100, end * 100)):
            for pacer in pacers:
                page = pacer.page_keys(place)
                if pacer.reserve({place: page}, now) == 0:
                    pacer.report_result({place: page}, Answer(now, 0.001))
                    keys += page
        return keys / (end - begin)

    free = granted(0, 10)
    store.put_cap("cold", 500, "the bucket is shared")
    granted(10, 15)
    capped = granted(15, 45)
    store.clear_cap("shop/cold")
    granted(45, 50)

    assert free > 3_500
    assert 450 < capped < 550
    assert granted(50, 60) > 3_500


def test_a_local_vault_is_paced_only_by_a_cap(rig: Rig, root: Path) -> None:
    pacer, store = SharedPacer(PaceStore(rig.db), rig.registry.vault), PaceStore(rig.db)
    [place] = set(pacer.places("shop", "disk", ["a/1", "b/1"]))
    free = [pacer.reserve({place: 1_000}, 0.0) for _ in range(100)]

    store.put_cap("disk", 100)
    pacer.reserve({place: 1}, 3.0)
    too_many, first, then = (pacer.reserve({place: keys}, 6.0) for keys in (1_000, 100, 1))

    assert (set(free), pacer.page_keys(place)) == ({0.0}, 100)
    assert (too_many > 0, first, then > 0.5) == (True, 0.0, True)
    assert store.figures() == []


def test_a_cap_needs_one_known_vault(rig: Rig) -> None:
    pacer_of(rig)
    store = PaceStore(rig.db)
    for vault, says in [("nowhere", "there is no vault nowhere"), ("other/cold", "no vault"), ("", "no vault")]:
        with pytest.raises(BadInput, match=says):
            store.put_cap(vault, 500)
        with pytest.raises(BadInput, match=says):
            store.clear_cap(vault)
        assert store.caps() == []

    rig.instance("other")
    insert_vault(rig, "other", "elsewhere")
    with pytest.raises(BadInput, match="name one: other/cold, shop/cold"):
        store.put_cap("cold", 500)
    store.put_cap("shop/cold", 500, "first", "ada")
    store.put_cap("shop/cold", 700, "then", "bob")

    [cap] = store.caps()
    assert (cap.instance, cap.keys_per_second, cap.reason, cap.set_by) == ("shop", 700, "then", "bob")
    assert [store.clear_cap("shop/cold") for _ in "12"] == [("shop/cold", True), ("shop/cold", False)]


def test_a_cap_is_shown_in_status_and_blockers(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    pacer_of(rig)
    rig.instance("other")
    cap = PaceStore(rig.db).put_cap("cold", 1_500, "the bucket is shared", "ada")

    status, holds = run(rig, capsys, "status").out, run(rig, capsys, "blockers").out
    [shop] = [i for i in json.loads(run(rig, capsys, "status", "--json").out)["instances"] if i["instance"] == "shop"]
    listed = json.loads(run(rig, capsys, "blockers", "--json").out)["items"]
    [kept] = [row for row in listed if row["held_by"] != "no worker"]
    PaceStore(rig.db).clear_cap("cold")
    cleared = [run(rig, capsys, "status").out, run(rig, capsys, "blockers", "shop").out]

    assert (
        status.count("  paced: no more than 1,500 keys/s in vault cold (the bucket is shared); see: sexton pace") == 1
    )
    assert shop["caps"] == [cap.model_dump(mode="json", by_alias=True)]
    assert "vault cold: no more than 1,500 keys/s" in holds
    assert (kept["instance"], kept["held_by"], kept["by"], kept["since_at"]) == ("shop", "cap", "ada", cap.since)
    assert (kept["why"], kept["way_out"]) == ("the bucket is shared", "sexton vault uncap shop cold")
    assert [text for text in cleared if "1,500" in text] == []


def insert_vault(rig: Rig, instance: str, bucket: str) -> None:
    """Register a vault in a bucket that need not exist."""
    spec = VaultSpec(instance=instance, name="cold", kind="s3", location=bucket, uuid=instance, deployment=DEPLOYMENT)
    rig.registry.insert_vault(spec, "http://127.0.0.1:1")


def pacer_of(rig: Rig) -> SharedPacer:
    """Return the pacer of another worker of the rig's deployment, whose instance has a vault ``cold``."""
    if not rig.registry.vaults("shop"):
        insert_vault(rig, "shop", "bucket")
    return SharedPacer(PaceStore(rig.db), rig.registry.vault, "http://127.0.0.1:1")


def test_the_first_request_keeps_a_cap_that_it_did_not_know(rig: Rig) -> None:
    """A worker learns of caps with its first request, which it has made already."""
    rig.instance()
    pacer, store = pacer_of(rig), PaceStore(rig.db)
    store.put_cap("shop/cold", 1)
    keys = [f"a/{n}" for n in range(1_000)]
    places, waits = pacer.places("shop", "cold", keys), []
    for now in (0.0, 0.01):
        page = places[: pacer.page_keys(places[0])]
        waits.append((len(page), pacer.reserve(Counter(page), now)))

    assert [(size > 1, wait > 0) for size, wait in waits] == [(True, True), (False, False)]
