"""A request with an idempotency key is done once; its repetitions receive the first answer, or say why not."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy.exc import OperationalError
from temporalio.client import WorkflowHandle

from sexton.client import Sexton
from sexton.operators.access.sql import answers
from sexton.operators.access.sql.answers import AnswerStore, KeyedRequest, StoredAnswer
from sexton.operators.controls.model import ControlKind
from sexton.operators.holds.model import Hold
from sexton.operators.holds.store import HoldStore
from sexton.runtime.temporal import starter
from sexton.runtime.temporal.control_client import ControlClient
from tests.servers.api import Api
from tests.support.rig import Rig

HOLD = {"scope": "instance", "seconds": 60, "reason": "x"}
HOLDS = "/v1/instances/shop/holds"


class Sender:
    """Sends requests with a token."""

    def __init__(self, api: Api, scope: str = "operate@shop") -> None:
        self._api, self._token = api, api.token(scope)

    def __call__(self, path: str, key: str, body: Any = None, method: str = "POST") -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._token}", "Idempotency-Key": key}
        return httpx.request(method, self._api.url + path, json=body, headers=headers, timeout=30)


@pytest.fixture
def rig(database_url: str) -> Iterator[Rig]:
    rig = Rig(database_url).instance()
    yield rig
    rig.db.close()


@pytest.fixture
def send(api: Api) -> Sender:
    return Sender(api)


def test_a_repetition_receives_the_first_answer(send: Sender, rig: Rig) -> None:
    first, second = send(HOLDS, "k1", HOLD), send(HOLDS, "k1", HOLD)
    assert (first.status_code, first.json()) == (second.status_code, second.json())
    assert (first.headers.get("idempotent-replay"), second.headers["idempotent-replay"]) == (None, "true")
    assert rig.count("hold") == 1
    assert send(HOLDS, "k2", HOLD).json() != first.json()
    assert rig.count("hold") == 2


def test_an_answer_without_a_body_is_repeated_too(send: Sender) -> None:
    answered = [send("/v1/instances/shop/observe", "k1", {"reason": "x"}) for _ in range(2)]
    assert [(a.status_code, a.content) for a in answered] == [(204, b""), (204, b"")]
    assert answered[1].headers["idempotent-replay"] == "true"


def test_a_key_belongs_to_one_request_of_one_caller(send: Sender, api: Api, rig: Rig) -> None:
    send(HOLDS, "k1", HOLD)
    other = send(HOLDS, "k1", HOLD | {"seconds": 61})
    assert (other.status_code, other.json()["code"]) == (409, "KEY_OF_ANOTHER_REQUEST")
    assert Sender(api)(HOLDS, "k1", HOLD).headers.get("idempotent-replay") is None
    assert rig.count("hold") == 2


def test_a_refused_request_may_be_sent_again(send: Sender, rig: Rig) -> None:
    assert send(HOLDS, "k1", HOLD | {"seconds": -1}).status_code == 422
    assert send("/v1/instances/none/holds", "k2", HOLD).status_code == 403
    assert rig.count("answer") == 0
    assert send(HOLDS, "k1", HOLD).status_code == 201


def test_a_secret_is_not_stored(api: Api, rig: Rig) -> None:
    send = Sender(api, "admin")
    created = send("/v1/tokens", "k1", {"scope": "read@shop"})
    again = send("/v1/tokens", "k1", {"scope": "read@shop"})
    assert (created.status_code, again.status_code, again.json()["code"]) == (201, 409, "UNKNOWN_OUTCOME")
    assert "shown once" in again.json()["detail"]
    secret = created.json()["secret" if "secret" in created.json() else "token"]
    with rig.db.read() as c:
        assert all(secret not in str(row) for row in c.execute(rig.db.t.answer.select()))


def test_a_wrong_key_is_refused(api: Api, rig: Rig, subtests: pytest.Subtests) -> None:
    for key in ["", "two words", "ä", "x" * 201]:
        with subtests.test(key=key):
            headers = {"Authorization": f"Bearer {api.token('operate@shop')}", "Idempotency-Key": key.encode("latin-1")}
            assert httpx.post(api.url + HOLDS, json=HOLD, headers=headers).status_code == 422
            assert rig.count("hold") == 0


def test_a_request_that_was_cut_off_is_not_repeated(rig: Rig) -> None:
    store, request = AnswerStore(rig.db), KeyedRequest("ada", "k1", "a" * 64)
    assert store.begin(request) is None
    with pytest.raises(answers.UnknownOutcome, match="look what it has done"):
        store.begin(request)
    store.end(request, StoredAnswer(201, "{}"))
    assert store.begin(request) == StoredAnswer(201, "{}")
    store.forget(request)
    assert store.begin(request) == StoredAnswer(201, "{}")

    rig.later(86_401)
    assert store.begin(request) is None
    assert rig.count("answer") == 1


def test_a_caller_has_so_many_keys_in_a_day(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_KEYS", 2)
    store = AnswerStore(rig.db)
    for key in "ab":
        store.begin(KeyedRequest("ada", key, "a" * 64))
    with pytest.raises(answers.TooManyKeys):
        store.begin(KeyedRequest("ada", "c", "a" * 64))
    assert store.begin(KeyedRequest("bob", "c", "a" * 64)) is None


def test_each_stop_stops_whatever_its_key(send: Sender, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_KEYS", 1)
    send(HOLDS, "k1", HOLD)
    for _ in range(2):
        stopped = send("/v1/instances/shop/stop", "k2", {"reason": "odd deletes"})
        assert stopped.status_code == 200
        assert [control.name for control in rig.controls.all()] == ["shop"]
        assert send("/v1/instances/shop/start", "k1x").status_code == 429
        rig.controls.remove(ControlKind.STOP, "shop")


def test_an_answered_key_is_answered_at_the_limit(send: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_KEYS", 1)
    first = send(HOLDS, "k1", HOLD)

    assert send(HOLDS, "k1", HOLD).json() == first.json()
    assert send(HOLDS, "k2", HOLD).json()["code"] == "TOO_MANY_KEYS"


def test_a_key_of_a_user_outlives_the_login(api: Api, rig: Rig) -> None:
    login = {"user": "ada", "password": "a long password of ada"}
    with Sexton(api.url, api.token("admin")) as admin:
        admin.add_user("ada", "operate@shop", login["password"])
    logins = [httpx.post(f"{api.url}/v1/token", json=login).json()["token"] for _ in range(2)]
    answered = [
        httpx.post(api.url + HOLDS, json=HOLD, headers={"Authorization": f"Bearer {token}", "Idempotency-Key": "k"})
        for token in logins
    ]

    assert answered[0].json() == answered[1].json()
    assert rig.count("hold") == 1


def test_a_key_answers_no_token_of_another_scope(api: Api, rig: Rig) -> None:
    login = {"user": "ada", "password": "a long password of ada"}
    with Sexton(api.url, api.token("admin")) as admin:
        admin.add_user("ada", "operate@shop", login["password"])

    def hold() -> httpx.Response:
        token = httpx.post(f"{api.url}/v1/token", json=login).json()["token"]
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k"}
        return httpx.post(api.url + HOLDS, json=HOLD, headers=headers)

    first = hold()
    with Sexton(api.url, api.token("admin")) as admin:
        admin.remove_user("ada")
        admin.add_user("ada", "operate@*", login["password"])
    second = hold()

    assert (first.status_code, second.status_code) == (201, 409)
    assert second.json()["code"] == "UNKNOWN_OUTCOME"
    assert rig.count("hold") == 1


@pytest.mark.parametrize("work", ["rounds", "checks"])
def test_what_may_have_begun_is_not_begun_again(api: Api, monkeypatch: pytest.MonkeyPatch, work: str) -> None:
    begun: list[str] = []

    async def begin(*_: Any) -> WorkflowHandle[Any, Any]:
        begun.append(work)
        await asyncio.Event().wait()
        raise AssertionError("nobody waits for this answer")

    async def connected(_: Any) -> object:
        return object()

    monkeypatch.setattr(ControlClient, "start", begin)
    monkeypatch.setattr(starter, "connect", connected)
    monkeypatch.setattr(starter, "PATIENCE_SECONDS", 0.2)
    send = Sender(api, "admin")
    first, second = (send(f"/v1/instances/shop/{work}", "k1") for _ in range(2))

    assert (first.status_code, first.json()["code"]) == (503, "TEMPORAL_AWAY")
    assert (second.status_code, second.json()["code"]) == (409, "UNKNOWN_OUTCOME")
    assert begun == [work]


def test_a_deed_whose_answer_was_an_error_is_not_repeated(
    send: Sender, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = HoldStore.place

    def lose_the_connection(self: HoldStore, hold: Hold, seconds: int) -> None:
        place(self, hold, seconds)
        raise OperationalError("COMMIT", {}, Exception("the server closed the connection"))

    with monkeypatch.context() as m:
        m.setattr(HoldStore, "place", lose_the_connection)
        cut_off = send(HOLDS, "k1", HOLD)
    repeated = send(HOLDS, "k1", HOLD)

    assert cut_off.status_code == 503
    assert (repeated.status_code, repeated.json()["code"]) == (409, "UNKNOWN_OUTCOME")
    assert rig.count("hold") == 1
