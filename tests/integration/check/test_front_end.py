"""A check compares three sides: objects, records, and the memory of the owner's front end."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from config.settings import EngineSettings
from sexton.check import checker
from sexton.check.policy import APART_MS
from sexton.owners.catalog.model import Schema
from sexton.owners.catalog.owner import IN_MEMORY
from sexton.owners.plugins import add_instance
from sexton.runtime.engine import Engine
from tests.integration.check.conftest import Owned, live_view
from tests.integration.owners.catalog.shop import Shop
from tests.servers.http import Asked, answering
from tests.servers.postgres import DEPLOYMENT
from tests.support.rig import stores_of
from tests.support.stories import stories_of

TOKEN = "the token of the check"


class FrontEnd:
    """A front end that has ids in memory, by kind, and answers checks."""

    def __init__(self) -> None:
        self.ids: dict[str, set[str]] = {kind: set() for kind in IN_MEMORY}
        self.answer: object = None
        """What it answers instead of ids; None: ids."""
        self.asked: list[tuple[str, str, int]] = []
        self._running = ExitStack()
        self.url = self._running.enter_context(answering(self._answer))

    def _answer(self, asked: Asked) -> tuple[int, bytes]:
        if asked.headers["Authorization"] != f"Bearer {TOKEN}":
            return 401, b""
        if not asked.path.startswith("/v1/inventory?"):
            return 200, json.dumps({"objects": 0} if asked.path.endswith("count") else {"files": []}).encode()
        query = {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()}
        return 200, json.dumps(self.page(**query) if self.answer is None else self.answer).encode()

    def page(self, kind: str, limit: str, after: str = "") -> dict[str, list[str]]:
        self.asked.append((kind, after, int(limit)))
        return {"ids": sorted(id_ for id_ in self.ids[kind] if id_ > after)[: int(limit)]}

    def know(self, shop: Shop) -> None:
        """Have in memory what the records of the shop are now."""
        for kind in IN_MEMORY:
            self.ids[kind] = set(shop.catalog_owner.record_ids("shop", kind, "", ""))

    def close(self) -> None:
        self._running.close()


@pytest.fixture
def front_end() -> Iterator[FrontEnd]:
    front_end = FrontEnd()
    yield front_end
    front_end.close()


@pytest.fixture
def shop(database_url: str, tmp_path: Path, front_end: FrontEnd) -> Iterator[Shop]:
    """A shop with a loaded table, whose front end knows everything."""
    shop = Shop(database_url).prove_by_clock()
    (tmp_path / "token").write_text(TOKEN)
    options = {"front_end": front_end.url, "token_file": str(tmp_path / "token")}
    add_instance(shop.db, shop.registry, "shop", "catalog", options)
    shop.local(tmp_path / "disk")
    shop.loaded(shop.table(tablets=3), segments=2)
    front_end.know(shop)
    yield shop
    shop.close()


def test_a_difference_is_confirmed_later_and_closed_when_it_ends(shop: Shop, front_end: FrontEnd) -> None:
    agreed = shop.check()
    asked = {kind for kind, _, _ in front_end.asked}
    lost = min(front_end.ids["tablet"])
    front_end.ids["rowset"].add("zombie")
    front_end.ids["tablet"].remove(lost)
    shop.check()
    found = {(f.key, f.detail.split(",")[0]) for f in shop.runs.findings("shop", 0, 10)}
    soon = shop.open_findings(confirmed=True)
    front_end.ids["tablet"].add(lost)
    shop.check(after=APART_MS // 1000 + 1)
    confirmed = shop.open_findings(confirmed=True)
    told = [event.text for name in ("zombie", "rowset/zombie") for event in stories_of(shop, name)[-1].events]
    front_end.ids["rowset"].remove("zombie")
    shop.check()

    assert front_end.ids["segment"] == {f"{rowset},{n}" for rowset in front_end.ids["rowset"] for n in range(2)}
    assert (agreed.whole, agreed.found, asked) == (True, {}, set(IN_MEMORY))
    assert found == {("rowset/zombie", "the front end has it in memory"), (f"tablet/{lost}", "it is a live record")}
    assert (soon, confirmed) == ({}, {"FRONT_END": {"rowset/zombie"}})
    assert [t.partition(" it ")[0] for t in told] == ["FRONT_END, confirmed: rowset/zombie: the front end has"] * 2
    assert shop.open_findings() == {}


WRONG_ANSWERS = [
    {"ids": ["b", "a"]},
    {"ids": ["a", "a"]},
    {"rows": []},
    {"ids": [], "more": True},
    [],
    {"ids": [str(n) for n in range(10**4, 10**5)]},
    {"ids": ["\ud800"]},
    {"ids": ["a\0b"]},
    {"ids": ["x" * 20_000]},
]


def test_a_front_end_without_a_right_answer_changes_no_finding(shop: Shop, front_end: FrontEnd) -> None:
    front_end.ids["table"].add("dropped-long-ago")
    shop.check()
    for answer in (*WRONG_ANSWERS, None):
        front_end.answer = answer
        if answer is None:
            front_end.close()

        report = shop.check()

        assert report.whole
        assert report.run.evidence is not None
        assert report.run.evidence.unread == ("FRONT_END",), answer
        assert "was not compared with all records" in " ".join(report.run.evidence.notes)
        assert shop.open_findings() == {"FRONT_END": {"table/dropped-long-ago"}}


def test_a_front_end_need_not_know_what_was_dropped(shop: Shop, front_end: FrontEnd) -> None:
    shop.loaded(shop.table("kept"))
    shop.table("wide", 1, partitions=["wide-p"], **{"wide-i": Schema(), "wide-j": Schema()})
    shop.catalog.drop_index("wide-j")
    shop.catalog.drop_partition("wide-p")
    shop.catalog.drop_table("t")
    front_end.know(shop)

    shop.check()

    assert shop.open_findings().get("FRONT_END", set()) == set()
    assert front_end.ids["tablet"].isdisjoint(shop.catalog.tablets(table="t"))
    for kind, gone in (("table", "t"), ("index", "t-i"), ("index", "wide-j"), ("partition", "wide-p")):
        assert gone not in front_end.ids[kind]
    assert len(front_end.ids["rowset"]) == 1


def test_memory_is_compared_page_by_page(shop: Shop, front_end: FrontEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "MEMORY_IDS", 2)
    missing = max(front_end.ids["tablet"])
    front_end.ids["tablet"].remove(missing)
    front_end.ids["tablet"].add("0")

    shop.check()

    assert shop.open_findings() == {"FRONT_END": {"tablet/0", f"tablet/{missing}"}}
    tablet_pages = [(after, limit) for kind, after, limit in front_end.asked if kind == "tablet"]
    assert tablet_pages[0] == ("", 2)
    assert len(tablet_pages) == 2


def test_an_instance_without_a_front_end_asks_none(database_url: str, tmp_path: Path) -> None:
    shop = Shop(database_url).register().prove_by_clock()
    shop.local(tmp_path / "disk")
    shop.loaded(shop.table())

    report = shop.check()

    assert (report.whole, report.found) == (True, {})
    assert shop.check_ports.front_ends.kinds("shop") == ()
    shop.close()


def test_segments_are_compared_page_by_page(shop: Shop, front_end: FrontEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rowset whose id another id begins with, and numbers of two digits, are where the front end has them."""
    monkeypatch.setattr(checker, "MEMORY_IDS", 3)
    rowset = shop.loaded(shop.table("long"), segments=12)[0]
    shop.add(shop.t.rowsets, dict(shop.record(shop.t.rowsets, rowset)._mapping) | {"id": f"{rowset}-1", "segments": 2})
    front_end.know(shop)
    missing = {f"{rowset},2", f"{rowset}-1,1"}
    front_end.ids["segment"] -= missing

    shop.check()

    assert shop.open_findings()["FRONT_END"] == {f"segment/{segment}" for segment in missing}
    assert len([kind for kind, _, _ in front_end.asked if kind == "segment"]) == 7


def with_view(database_url: str, root: Path, options: dict[str, str], owner: str = "sql") -> Owned:
    """Return a rig whose instance has a front end."""
    owned = Owned(database_url)
    add_instance(owned.db, owned.registry, "shop", owner, options)
    owned.root = owned.local(root)
    engine = Engine(owned.db, EngineSettings(DEPLOYMENT), stores_of(owned.db))
    owned.checker, owned.direct = engine.checker, engine.in_process_compare
    return owned


def test_an_owner_with_a_view_has_its_files_compared(database_url: str, tmp_path: Path, front_end: FrontEnd) -> None:
    (tmp_path / "token").write_text(TOKEN)
    options = {"front_end": front_end.url, "token_file": str(tmp_path / "token"), "front_end_kinds": "key,rowset,Table"}
    owned = with_view(database_url, tmp_path / "disk", options)
    front_end.ids |= {"key": {"data/t/a", "data/t/B", "data/t/z"}, "rowset": {"a"}, "Table": set()}
    with live_view(owned):
        owned.write_live("data/t/a", "data/t/B", "data/t/ä")
        report = owned.check()
        findings = owned.open_findings()
        owned.sql("DROP VIEW public.sexton_live")
        unread = owned.check().run.evidence
    owned.db.close()

    assert report.whole
    assert findings == {"FRONT_END": {"key/data/t/z", "key/data/t/ä", "rowset/B", "rowset/ä"}}
    assert unread is not None
    assert "FRONT_END" in unread.unread


def test_an_owner_over_http_lists_its_own_ids(database_url: str, tmp_path: Path, front_end: FrontEnd) -> None:
    (tmp_path / "token").write_text(TOKEN)
    owner = FrontEnd()
    options = {"url": owner.url, "front_end": front_end.url, "token_file": str(tmp_path / "token")}
    shop = with_view(database_url, tmp_path / "disk", options, "http")
    owner.ids["key"] = {f"lake/{n}" for n in range(6_000)}
    front_end.ids["key"] = owner.ids["key"] - {"lake/0", "lake/5999"} | {"lake/a"}

    shop.check()
    owner.close()
    findings = shop.open_findings()
    shop.db.close()

    assert findings == {"FRONT_END": {"key/lake/0", "key/lake/5999", "key/lake/a"}}


def test_a_kind_that_the_owner_does_not_have_is_noted(database_url: str, tmp_path: Path, front_end: FrontEnd) -> None:
    (tmp_path / "token").write_text(TOKEN)
    front_end.ids["view"] = set()
    options = {"front_end": front_end.url, "token_file": str(tmp_path / "token"), "front_end_kinds": "view"}
    shop = with_view(database_url, tmp_path / "disk", options, "catalog")

    evidence = shop.check().run.evidence
    shop.db.close()

    assert evidence is not None
    assert evidence.unread == ("FRONT_END",)
    assert "no records of kind 'view'" in " ".join(evidence.notes)
