"""The owner ``http`` passes the suite with a server in Go; what fails on its way keeps everything, and says so."""

import json
import threading
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sqlalchemy import select

from sexton.kernel.errors import BadInput
from sexton.kernel.trust import STRICT
from sexton.owners.caller import OwnerCaller
from sexton.owners.http.owner import LiveCount
from sexton.owners.plugin import CallOptions
from sexton.owners.port import OwnerSilent
from sexton.testing import OwnerDriver, Workbench
from sexton.testing.workbench import VAULT
from tests.integration.owners.suite.test_every_owner import Everywhere
from tests.servers.certificate import certificate
from tests.servers.go_owner import GoOwner
from tests.servers.http import Asked, answering
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.kept import kept_texts

YEAR = 365 * 86_400


class GoDriver:
    """Drives the lake of examples/go_owner as its users do."""

    def __init__(self, bench: Workbench, owner: GoOwner) -> None:
        self._bench, self._owner, self._drops = bench, owner, dict[str, str]()

    def create(self, name: str) -> set[str]:
        keys = [f"lake/{name}/{n}.parquet" for n in range(2)]
        for key in keys:
            self._bench.put(key)
        self._owner.ask("PUT", f"/tables/{name}", {"vault": VAULT, "keys": keys})
        return set(keys)

    def drop(self, name: str) -> None:
        self._drops[name] = self._owner.ask("DELETE", f"/tables/{name}")["id"]

    def undrop(self, name: str) -> bool:
        try:
            self._owner.ask("POST", f"/drops/{self._drops[name]}")
        except urllib.error.HTTPError:
            return False
        return True

    @contextmanager
    def silence(self) -> Iterator[None]:
        self._owner.kill()
        yield
        self._owner.start()


@pytest.mark.slow
class TestHttp(Everywhere):
    """The server is killed for its silence, and started again with its file."""

    owner = "http"

    @pytest.fixture(autouse=True)
    def server(self, tmp_path: Path) -> Iterator[None]:
        self._server = GoOwner(tmp_path)
        self._server.start()
        yield
        self._server.kill()

    def options(self, directory: Path) -> Mapping[str, str]:
        return {"url": self._server.url}

    def drive(self, bench: Workbench, directory: Path) -> OwnerDriver:
        return GoDriver(bench, self._server)


ASKED_NO_LONGER = threading.Event()
"""Set when nobody waits for a late answer any more."""


class Scripted:
    """Answers each path as ``answers`` says; other paths with nothing that is live or garbage."""

    answers: ClassVar[dict[str, Callable[[], bytes]]] = {}
    usual: ClassVar[dict[str, Any]] = {
        "/v1/garbage": {"entries": [], "end": ""},
        "/v1/live": {"files": []},
        "/v1/live/count": {"objects": 1},
        "/v1/live/search": {"live": [], "searched": 1},
        "/v1/fence": {"answers": []},
    }

    @classmethod
    def answer(cls, asked: Asked) -> tuple[int, bytes]:
        path = asked.path.partition("?")[0]
        answer = cls.answers.get(path) or (lambda: json.dumps(cls.usual.get(path, {})).encode())
        return 200, answer()


@pytest.fixture
def scripted() -> Iterator[str]:
    with answering(Scripted.answer) as url:
        yield url
    Scripted.answers.clear()


@pytest.fixture
def bench(scripted: str, tmp_path: Path, database_url: str) -> Iterator[Workbench]:
    """An instance whose owner is the scripted server."""
    bench = Workbench(tmp_path, "http", {"url": scripted}, database_url)
    yield bench
    bench.close()


def dropped(bench: Workbench) -> str:
    """Mark one object as garbage; return its key."""
    bench.put("lake/t/0.parquet")
    bench.mark_by_mistake("lake/t/0.parquet")
    bench.later()
    return "lake/t/0.parquet"


def never() -> bytes:
    ASKED_NO_LONGER.wait(PATIENCE_SECONDS)
    return b"{}"


WRONG_ANSWERS: list[tuple[str, Callable[[], bytes], str]] = [
    ("/v1/live/search", never, "does not answer"),
    ("/v1/live/search", lambda: b"<html>", "is no JSON"),
    ("/v1/live/search", lambda: b'{"live": []}', "searched: Field required"),
    ("/v1/live/search", lambda: b'{"live": [], "searched": 0}', "searched 0 of 1 marks"),
    ("/v1/garbage", lambda: b'{"entries": [{"kind": "a", "id": "b"}], "end": ""}', "does not move on"),
    (
        "/v1/garbage",
        lambda: b'{"entries": [{"kind": "a", "id": "b", "extra_retention_second": 9}], "end": "1"}',
        "entries.0.extra_retention_second: Extra inputs are not permitted",
    ),
    ("/v1/fence", lambda: b'{"answers": [{"kind": "d", "id": "1", "answer": "yes"}]}', "answers.0.answer"),
]
"""Path, a wrong answer to it, and a part of the reason why every mark is kept."""


def test_a_wrong_answer_keeps_everything_and_is_named(bench: Workbench) -> None:
    key = dropped(bench)
    for path, answer, says in WRONG_ANSWERS:
        Scripted.answers.clear()
        Scripted.answers[path] = answer
        ASKED_NO_LONGER.clear()
        bench.restart()

        report = bench.round()
        ASKED_NO_LONGER.set()

        assert bench.keys() == {key}
        assert any(says in why for why in kept_texts(report)), kept_texts(report)
        assert report.faults > 0


def test_extra_retention_of_a_listed_mark_is_kept(bench: Workbench) -> None:
    mark = {"kind": "dropped", "id": "1", "vault": VAULT, "keys": ["lake/t/0.parquet"]}
    entry = mark | {"extra_retention_seconds": YEAR}
    pages = [{"entries": [entry], "end": "1"}]
    Scripted.answers["/v1/garbage"] = lambda: json.dumps(pages.pop() if pages else {"entries": [], "end": "1"}).encode()
    bench.put("lake/t/0.parquet")
    bench.round()
    bench.later()

    report = bench.round()
    with bench.db.read() as c:
        waits = c.execute(select(bench.db.t.mark.c.extra_retention_seconds)).scalar_one()

    assert (report.claimed, waits, bench.keys()) == (0, YEAR, {"lake/t/0.parquet"})


def test_an_owner_that_lies_about_live_is_stopped_by_its_fence(bench: Workbench) -> None:
    """It shows nothing as live, and does not fence: no mark without an answer is deleted."""
    key = dropped(bench)

    report = bench.round()

    assert (bench.keys(), report.deleted) == ({key}, 0)


@pytest.mark.slow
def test_credentials_and_certificates_are_checked(tmp_path: Path) -> None:
    token, wrong = tmp_path / "token", tmp_path / "wrong"
    token.write_text("s3cret\n")
    wrong.write_text("guess")
    with counting(GoOwner(tmp_path, "-token", "s3cret")) as count:
        assert count(token_file=str(token)) == 0
        for bad, says in (({}, "401"), ({"token_file": str(wrong)}, "token is missing or wrong")):
            with pytest.raises(OwnerSilent, match=says):
                count(**bad)
        with pytest.raises(OwnerSilent, match="No such file"):
            count(token_file=str(tmp_path / "nowhere"))


@contextmanager
def counting(server: GoOwner) -> Iterator[Callable[..., int | None]]:
    """Run a server; yield a function that asks it for the number of live objects, with options of the call."""
    server.start()
    try:
        yield (
            lambda **options: (
                OwnerCaller(CallOptions(url=server.url, **options), STRICT).get("live/count", LiveCount).objects
            )
        )
    finally:
        server.kill()


@pytest.mark.slow
def test_certificates_of_another_authority_are_refused(tmp_path: Path) -> None:
    """The owner's one by Sexton, and Sexton's one by the owner."""
    files = certificate(tmp_path)
    own = {"ca_certs": str(files.authority)}
    client = {"certificate_file": str(files.cert), "key_file": str(files.key)}
    arguments = ("-certificate", str(files.cert), "-key", str(files.key), "-clients", str(files.authority))
    with counting(GoOwner(tmp_path, *arguments, scheme="https")) as count:
        assert count(**own, **client) == 0
        with pytest.raises(OwnerSilent, match="certificate verify failed"):
            count(**client)
        with pytest.raises(OwnerSilent, match="does not answer"):
            count(**own)


def test_clear_text_to_another_machine_is_refused() -> None:
    caller = OwnerCaller(CallOptions(url="http://lake.example"), STRICT)

    with pytest.raises(OwnerSilent, match="is not encrypted"):
        caller.get("live/count", LiveCount)


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    """Each workbench is in a new database of the PostgreSQL that the suite itself starts."""
    wrong: list[dict[str, str]] = [{}, {"url": "http://127.0.0.1:1", "token": "s3cret"}]
    for n, options in enumerate(wrong):
        with pytest.raises(BadInput, match="the options of owner http are wrong"):
            Workbench(tmp_path / str(n), "http", options)
