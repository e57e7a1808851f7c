"""A user's password gives short-lived tokens, guessers are throttled, and removal ends all tokens at once."""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from argon2 import PasswordHasher
from sqlalchemy import func, select

from sexton.operators.access import passwords, policy
from sexton.operators.access.errors import (
    Forbidden,
    LoginsBusy,
    LoginsThrottled,
    NotAuthorized,
    Unauthenticated,
    UnknownUser,
    UserExists,
)
from sexton.operators.access.login import Logins
from sexton.operators.access.sql.login_throttle import LoginThrottle
from sexton.operators.access.sql.tokens import TokenStore
from sexton.operators.access.sql.users import UserStore
from sexton.operators.call_log.store import CallStore
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig

PASSWORD, ANOTHER = "a-horse-of-correct-batteries", "another-staple-altogether"
HERE, THERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def users(rig: Rig) -> UserStore:
    users = UserStore(rig.db)
    users.add("ada", PASSWORD, policy.scope("operate@*"), "test")
    return users


def counts(rig: Rig, text: str) -> bool:
    try:
        TokenStore(rig.db).authenticate(f"Bearer {text}")
    except Unauthenticated:
        return False
    return True


def rows(rig: Rig, table: str) -> int:
    with rig.db.read() as c:
        return int(c.execute(select(func.count()).select_from(getattr(rig.db.t, table))).scalar_one())


def everything(rig: Rig) -> str:
    with rig.db.read() as c:
        return "\n".join(str(tuple(r)) for t in rig.db.t.all() for r in c.execute(select(t)))


def test_a_password_gives_a_token_for_15_minutes(rig: Rig, users: UserStore) -> None:
    token, text = Logins(rig.db, rig.operators.calls).login("ada", PASSWORD, HERE)
    before = counts(rig, text)
    rig.later(901)

    assert (str(token.scope), token.of_user, token.expires_at - token.created_at) == ("operate@*", "ada", 900_000)
    assert (before, counts(rig, text)) == (True, False)


def test_a_token_above_the_users_scope_is_refused_and_logged(rig: Rig, users: UserStore) -> None:
    for above in ("admin", "sync:copy@shop"):
        with pytest.raises(Forbidden):
            Logins(rig.db, rig.operators.calls).login("ada", PASSWORD, HERE, policy.scope(above))
    less, _ = Logins(rig.db, rig.operators.calls).login("ada", PASSWORD, HERE, policy.scope("read@shop"), 60)

    assert (str(less.scope), less.expires_at - less.created_at) == ("read@shop", 60_000)
    assert [(c.who, c.subject, c.outcome) for c in CallStore(rig.db).last(3)] == [
        ("user ada", "read@shop", "ok"),
        ("user ada", "sync:copy@shop", "FORBIDDEN"),
        ("user ada", "admin", "FORBIDDEN"),
    ]


@pytest.mark.parametrize("ends", ["remove", "change"])
def test_removing_a_user_ends_its_tokens_at_once(rig: Rig, users: UserStore, ends: str) -> None:
    users.add("bob", PASSWORD, policy.scope("read"), "test")
    logins, by_hand = Logins(rig.db, rig.operators.calls), TokenStore(rig.db).create(policy.scope("read"), 1, "test")[1]
    hers, his = logins.login("ada", PASSWORD, HERE)[1], logins.login("bob", PASSWORD, HERE)[1]

    if ends == "remove":
        users.remove("ada", "test")
    else:
        users.change("ada", ANOTHER, "test")

    assert [counts(rig, t) for t in (hers, his, by_hand)] == [False, True, True]
    with pytest.raises(NotAuthorized):
        logins.login("ada", PASSWORD, HERE)


def test_a_password_change_ends_all_tokens_of_the_old_one(rig: Rig, users: UserStore) -> None:
    found = users.secret("ada")
    assert found is not None
    given: list[str] = []
    began = threading.Event()

    def give() -> None:
        try:
            for _ in range(2_000):
                given.append(users.give(*found, policy.scope("read"), 900)[1])
                began.set()
        except NotAuthorized:
            return

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(give) for _ in range(3)]
        assert began.wait(PATIENCE_SECONDS)
        users.change("ada", ANOTHER, "test")
    for one in asking:
        one.result()

    assert given
    assert [t for t in given if counts(rig, t)] == []


def test_a_removed_user_can_be_added_again(rig: Rig, users: UserStore) -> None:
    with pytest.raises(UserExists):
        users.add("ada", ANOTHER, policy.scope("read"), "test")
    users.remove("ada", "boss")
    removed = users.all()
    with pytest.raises(UnknownUser):
        users.remove("ada", "boss")
    users.add("ada", ANOTHER, policy.scope("read"), "test")

    assert [(u.name, u.removed_by) for u in removed] == [("ada", "boss")]
    assert [(u.name, u.removed_at, str(u.scope)) for u in users.all()] == [("ada", None, "read")]
    assert str(Logins(rig.db, rig.operators.calls).login("ada", ANOTHER, HERE)[0].scope) == "read"


@pytest.mark.parametrize("name", ["ada", "nobody", "a name that is none\0\udc80"])
def test_a_guesser_is_throttled_for_unknown_users_too(rig: Rig, users: UserStore, name: str) -> None:
    one, another = Logins(rig.db, rig.operators.calls), Logins(rig.db, rig.operators.calls)  # two processes
    for logins in (one, another, one, another, one):
        with pytest.raises(NotAuthorized):
            logins.login(name, ANOTHER, HERE)

    for logins in (one, another):
        with pytest.raises(LoginsThrottled) as caught:
            logins.login(name, PASSWORD, HERE)
        assert 50 <= caught.value.retry_seconds <= 60
    rig.later(60)
    with pytest.raises(NotAuthorized):
        one.login(name, ANOTHER, HERE)
    with pytest.raises(LoginsThrottled) as caught:
        one.login(name, PASSWORD, HERE)
    assert 60 < caught.value.retry_seconds <= 120


def test_failures_from_elsewhere_do_not_lock_a_user_out(rig: Rig, users: UserStore) -> None:
    throttle = LoginThrottle(rig.db)
    for _ in range(19):
        throttle.failed(HERE, "ada")

    with pytest.raises(LoginsThrottled):
        throttle.check(HERE, "ada")
    throttle.check(HERE, "bob")
    assert Logins(rig.db, rig.operators.calls).login("ada", PASSWORD, THERE)


def test_a_source_that_tries_many_names_is_throttled(rig: Rig) -> None:
    throttle = LoginThrottle(rig.db)
    for n in range(20):
        throttle.check(f"2001:db8::{n}", f"user{n}")
        throttle.failed(f"2001:db8::{n}", f"user{n}")

    with pytest.raises(LoginsThrottled):
        throttle.check("2001:db8::ffff", "somebody")
    throttle.check("2001:db8:0:1::", "somebody")


def test_a_success_clears_the_failures_of_its_user(rig: Rig, users: UserStore) -> None:
    throttle, logins = LoginThrottle(rig.db), Logins(rig.db, rig.operators.calls)
    for _ in range(5):
        for _ in range(4):
            throttle.failed(HERE, "ada")
        logins.login("ada", PASSWORD, HERE)
    for n in range(19):
        throttle.failed(HERE, f"user{n}")
    throttle.check(HERE, "bob")
    throttle.failed(HERE, "ada")

    with pytest.raises(LoginsThrottled):
        logins.login("ada", PASSWORD, HERE)


def test_expired_failures_are_deleted_with_the_next_one(rig: Rig) -> None:
    throttle = LoginThrottle(rig.db)
    for n in range(30):
        throttle.failed(f"198.51.100.{n}", f"user{n}")
    before = rows(rig, "login_failure")
    rig.later(1_801)
    throttle.failed(HERE, "ada")

    assert (before, rows(rig, "login_failure")) == (60, 2)


def test_concurrent_failures_are_all_counted(rig: Rig) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: LoginThrottle(rig.db).failed(HERE, f"user{n % 3}"), range(24)))
    t = rig.db.t.login_failure
    with rig.db.read() as c:
        found = sorted(c.execute(select(t.c.failures)).scalars())

    assert found == [8, 8, 8, 24]


def test_expired_user_tokens_are_deleted_after_a_day(rig: Rig, users: UserStore) -> None:
    logins, by_hand = Logins(rig.db, rig.operators.calls), TokenStore(rig.db)
    by_hand.create(policy.scope("read"), 1, "test")
    for _ in range(3):
        logins.login("ada", PASSWORD, HERE, None, 60)
    rig.later(86_400 + 30)
    logins.login("ada", PASSWORD, HERE)
    lately = rows(rig, "token")
    rig.later(60)
    logins.login("ada", PASSWORD, HERE)

    assert (lately, rows(rig, "token")) == (5, 3)
    assert [t.of_user for t in by_hand.all()] == ["ada", "ada", None]


def test_at_most_two_passwords_are_verified_at_once(
    rig: Rig, users: UserStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins, refused, door = Logins(rig.db, rig.operators.calls), list[str](), threading.Event()
    real = passwords._hasher

    def slow_hasher() -> PasswordHasher:
        assert door.wait(PATIENCE_SECONDS)  # until six were refused, who come while two passwords are verified
        return real()

    def login(_: int) -> str:
        try:
            logins.login("ada", PASSWORD, HERE)
        except LoginsBusy:
            refused.append("busy")
            if len(refused) == 6:
                door.set()
            return "busy"
        return "in"

    with monkeypatch.context() as slow, ThreadPoolExecutor(8) as pool:
        slow.setattr(passwords, "_hasher", slow_hasher)
        came = list(pool.map(login, range(8)))

    assert Counter(came) == {"in": 2, "busy": 6}
    assert logins.login("ada", PASSWORD, HERE)


@pytest.mark.parametrize("swap", [False, True])
def test_no_password_is_stored_from_any_field(rig: Rig, users: UserStore, swap: bool) -> None:
    logins = Logins(rig.db, rig.operators.calls)
    tries: list[Callable[[], object]] = [lambda: logins.login("ada", PASSWORD, HERE)]
    if swap:
        tries.append(lambda: logins.login(PASSWORD, "ada", HERE))
        tries.append(lambda: logins.login(ANOTHER, ANOTHER, HERE))
    for one in tries:
        try:
            one()
        except NotAuthorized:
            continue

    kept = everything(rig)
    for secret in (PASSWORD, ANOTHER):
        assert secret not in kept
        assert hashlib.sha256(secret.encode()).hexdigest()[:16] not in kept
    assert [(c.who, c.subject, c.outcome) for c in CallStore(rig.db).last(9)][:-1] == [
        ("unknown", "", "NOT_AUTHORIZED")
    ] * swap  # refusals of one address are one row
