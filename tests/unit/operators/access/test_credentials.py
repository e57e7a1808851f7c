"""Names, passwords, scopes and waiting times after failed logins are decided without a database."""

import sys

import argon2
import pytest

from sexton.kernel.errors import BadInput
from sexton.operators.access import credentials, passwords, policy
from sexton.operators.access.credentials import FORGOTTEN_MS, USER_FAILURES, WINDOW_MS, Failures
from sexton.operators.access.errors import Forbidden, NoArgon2

MINUTE = 60_000
ALLOWED = {
    "read": {"read", "read@a"},
    "read@a": {"read@a"},
    "owner@a": {"read@a", "owner@a"},
    "operate@a": {"read@a", "owner@a", "operate@a"},
    "operate@*": {"read", "read@a", "owner@a", "operate@a", "operate@*"},
    "admin": {"read", "read@a", "owner@a", "operate@a", "operate@*", "admin", "sync:j@a", "node:n@a", "node:n@*"},
    "sync:j@a": {"sync:j@a"},
    "node:n@a": {"node:n@a"},
    "node:n@*": {"node:n@*"},
    "operate@b": set[str](),
}


@pytest.mark.parametrize("own", ALLOWED)
def test_token_scope_never_exceeds_the_scope_of_its_user(own: str) -> None:
    allowed = set()
    for requested in ALLOWED.keys() - {"operate@b"}:
        try:
            allowed.add(str(credentials.granted(policy.scope(own), policy.scope(requested))))
        except Forbidden:
            continue

    assert allowed == ALLOWED[own]
    assert str(credentials.granted(policy.scope(own), None)) == own


@pytest.mark.parametrize("password", ["", "elevenchars", "x" * 257, "Ada-lovelace1", "\udc80" * 12])
def test_unsuitable_password_is_refused_and_not_shown(password: str) -> None:
    with pytest.raises(BadInput) as caught:
        credentials.check_password("ada-lovelace1", password)

    assert len(password) < 12 or password not in str(caught.value)


@pytest.mark.parametrize("name", ["", "Ada", "-a", "a b", "a" * 65, "a\n", "ä", "a\0"])
def test_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        credentials.check_name(name)


def test_unicode_forms_of_a_password_are_equal() -> None:
    assert credentials.typed("pa\u0308ssword") == credentials.typed("p\xe4ssword")


def test_an_unknown_user_takes_as_long_as_a_known_one() -> None:
    parameters = argon2.extract_parameters(passwords.hash_password("correct horse battery"))

    assert argon2.extract_parameters(passwords.UNKNOWN_USER_HASH) == parameters
    assert parameters.type is argon2.Type.ID
    assert (parameters.time_cost, parameters.memory_cost, parameters.parallelism) == (3, 65_536, 4)


def test_missing_argon2_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "argon2", None)

    with pytest.raises(NoArgon2, match=r"pip install 'sexton\[api\]'"):
        passwords.hash_password("correct horse battery")
    with pytest.raises(NoArgon2):
        passwords.matches(None, "correct horse battery")


def test_wait_after_five_failures_doubles_up_to_15_minutes() -> None:
    failures, now, waits = None, 0, []
    for _ in range(12):
        failures = credentials.failed(failures, USER_FAILURES, now)
        waits.append(credentials.waits_ms(failures, USER_FAILURES, now))
        now += waits[-1]

    assert [w // MINUTE for w in waits] == [0, 0, 0, 0, 1, 2, 4, 8, 15, 15, 15, 15]


def test_failures_are_forgotten_after_their_window() -> None:
    four, blocked = Failures(4, 0), Failures(9, 0)

    assert credentials.failed(four, USER_FAILURES, WINDOW_MS - 1).number == 5
    assert credentials.failed(four, USER_FAILURES, WINDOW_MS).number == 1
    assert credentials.failed(blocked, USER_FAILURES, FORGOTTEN_MS - 1).number == 10
    assert credentials.failed(blocked, USER_FAILURES, FORGOTTEN_MS).number == 1
    assert credentials.waits_ms(Failures(10**9, 0), USER_FAILURES, FORGOTTEN_MS) == 0


def test_ipv6_addresses_of_one_network_count_together() -> None:
    assert credentials.network("2001:db8::1") == credentials.network("2001:db8::ffff:1") == "2001:db8::/64"
    assert credentials.network("2001:db8:0:1::1") != credentials.network("2001:db8::1")
    assert credentials.network("::ffff:192.0.2.7") == credentials.network("192.0.2.7") == "192.0.2.7"
    assert credentials.network("fe80::1%eth0") == "fe80::/64"
    assert credentials.network("unknown") == "unknown"
