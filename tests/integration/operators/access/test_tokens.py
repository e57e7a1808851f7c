"""Tokens have a limited lifetime, their use is stored, and one that cannot be read breaks no other."""

import pytest

from sexton.interfaces.cli.doctor.stored import examine_tokens
from sexton.kernel.errors import BadInput
from sexton.operators.access import policy
from sexton.operators.access.model import Forbidden, Grant, Token, Unauthenticated, UnknownToken
from sexton.operators.access.store import TokenStore
from tests.support.command import run
from tests.support.rig import DAY, Rig, service_of


@pytest.fixture
def tokens(rig: Rig) -> TokenStore:
    return TokenStore(rig.db)


def create(tokens: TokenStore, days: int = 90, scope: str = "read") -> tuple[Token, str]:
    token, text = tokens.create(policy.scope(scope), days, "test")
    return token, f"Bearer {text}"


def authenticated(tokens: TokenStore, header: str) -> tuple[Token, int]:
    """Return the token in a header, and the time."""
    [verdict], now = tokens.verify([policy.presented(header)])
    if isinstance(verdict, Unauthenticated):
        raise verdict
    return verdict, now


def test_unreadable_scope_permits_nothing_and_breaks_no_list(rig: Rig, tokens: TokenStore) -> None:
    good, good_text = create(tokens)
    for stored in ("operate", "root@*", "", "sync:copy"):
        spoiled, text = create(tokens, scope="admin")
        rig.update("token", {"id": spoiled.id}, scope=stored)

        with pytest.raises(Unauthenticated, match="permits nothing"):
            authenticated(tokens, text)
        with pytest.raises(BadInput, match="revoke it"):
            tokens.renew(spoiled.id, 90)
        shown = {token.id: str(token.scope) for token in tokens.all() if token.revoked_at is None}
        revoked = tokens.revoke(spoiled.id, "test")

        assert authenticated(tokens, good_text)[0].id == good.id
        assert shown == {good.id: "read", spoiled.id: f"{stored!r} cannot be read; revoke it"}
        assert revoked.revoked_at is not None


def test_no_text_names_an_unreadable_scope() -> None:
    for text in ("unreadable", "unreadable@*", "unreadable:x@shop"):
        with pytest.raises(BadInput):
            policy.scope(text)
    for grant in Grant:
        scope = policy.stored_scope("operate")
        with pytest.raises(Forbidden):
            policy.check([scope], grant if grant in policy.LADDER else Grant.READ, "", job="operate", node="operate")


def test_use_is_stored_at_most_once_a_minute(rig: Rig, tokens: TokenStore) -> None:
    _, text = create(tokens)
    first, now = authenticated(tokens, text)
    tokens.record_use(first)
    second, _ = authenticated(tokens, text)
    rig.later(61)
    third, later = authenticated(tokens, text)

    assert (first.last_used_at, policy.is_use_due(first, now)) == (None, True)
    assert policy.is_use_due(second, second.last_used_at or 0) is False
    assert policy.is_use_due(third, later) is True


def test_lifetime_of_a_token_has_a_ceiling(tokens: TokenStore) -> None:
    for days, message in ((367, r"1 to 366 days.*sexton token renew"), (3_650, "sexton token renew"), (0, "1 to 366")):
        with pytest.raises(BadInput, match=message):
            create(tokens, days)

    token, _ = create(tokens, 366)
    assert token.expires_at - token.created_at == 366 * DAY * 1000


def test_renewed_token_keeps_its_secret_unless_it_has_ended(rig: Rig, tokens: TokenStore) -> None:
    expired, revoked, (token, text) = create(tokens, 1)[0], create(tokens)[0], create(tokens, 30)
    tokens.revoke(revoked.id, "test")
    rig.later(20 * DAY)
    renewed = tokens.renew(token.id, 90)
    rig.later(80 * DAY)

    assert renewed.expires_at > token.expires_at
    assert authenticated(tokens, text)[0].id == token.id
    refused = (
        (expired, 90, "has expired"),
        (revoked, 90, "is revoked"),
        (token, 1, "ends later"),
        (token, 400, "1 to 366"),
    )
    for refused_token, days, reason in refused:
        with pytest.raises(BadInput, match=reason):
            tokens.renew(refused_token.id, days)
    with pytest.raises(UnknownToken):
        tokens.renew("0" * 12, 90)


def test_token_in_use_that_ends_soon_is_named(rig: Rig, tokens: TokenStore, capsys: pytest.CaptureFixture[str]) -> None:
    used, unused, lasting, revoked = (create(tokens, days)[0] for days in (10, 10, 60, 10))
    for token in (used, lasting, revoked):
        tokens.record_use(token)
    tokens.revoke(revoked.id, "test")

    assert unused.id not in {t.id for t in tokens.ending()[1]}
    assert [t.id for t in tokens.ending()[1]] == [used.id]
    rig.later(11 * DAY)
    assert [t.id for t in tokens.ending()[1]] == []  # the first one has ended
    assert [t.id for t in tokens.ending()[0]] == [used.id]
    problem = service_of(rig.db).problems()[0]
    assert (problem.held_by, problem.what) == ("ended token", f"token {used.id} (read)")
    sentence = run(rig, capsys, "status").out.partition("\n")[0]
    assert sentence.endswith(f"Way out: sexton token create --scope read, then: sexton token revoke {used.id}")
    assert "are refused" in {f.about: f.detail for f in examine_tokens(service_of(rig.db))}["ended tokens"]
    tokens.revoke(used.id, "test")
    assert tokens.ending()[0] == []
    rig.later(36 * DAY)
    assert [t.id for t in tokens.ending()[1]] == []  # 13 days left, and not used since 47
    tokens.record_use(lasting)
    assert [t.id for t in tokens.ending()[1]] == [lasting.id]
