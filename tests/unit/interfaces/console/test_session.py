"""Where a login leads, which forms are of a session, and how instants read."""

import pytest

from sexton.interfaces.console.rendering import relative, span
from sexton.interfaces.console.routes.login import safe_target
from sexton.interfaces.console.session import Session, sign, signed

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    "then",
    [
        "",
        "/",
        "https://evil.example/console",
        "//evil.example/console",
        "/console//evil.example",
        "/console\\@evil.example",
        "/console/../v1/status",
        "/console/%2e%2e/v1/status",
        "/consolex",
        "javascript:alert(1)",
        "/console/\r\nSet-Cookie: a=b",
    ],
)
def test_a_login_leads_nowhere_else(then: str) -> None:
    assert safe_target(then) == "/console"


def test_a_login_leads_back_to_the_page() -> None:
    assert safe_target("/console/why?key=a%2Fb%20c") == "/console/why?key=a%2Fb+c"
    assert safe_target("/console/plans/3") == "/console/plans/3"


def test_a_form_is_of_one_login_and_one_browser() -> None:
    one = Session("token", "secret")
    assert one.form_token == Session("token", "secret").form_token
    assert one.form_token not in {Session("other", "secret").form_token, Session("token", "other").form_token}


@pytest.mark.parametrize(
    ("instant", "text"),
    [(10 * HOUR_MS, "just now"), (7 * HOUR_MS, "3 h ago"), (58 * HOUR_MS, "in 2 d"), (10 * HOUR_MS + 9, "within")],
)
def test_instants_are_relative_and_name_utc(instant: int, text: str) -> None:
    shown = relative(instant, 10 * HOUR_MS)
    assert f">{text}" in shown
    assert "UTC" in shown


def test_spans_are_rounded_down() -> None:
    assert [span(n) for n in (0.4, 5, 61, 5_400, 7_200, 200_000)] == [
        "0 s",
        "5 s",
        "1 min 1 s",
        "1 h 30 min",
        "2 h",
        "2 d 7 h",
    ]


def test_a_message_is_of_one_session() -> None:
    one, other = Session("token", "secret"), Session("token", "other")
    assert signed(one, sign(one, "Hold 1 \u8a9e")) == "Hold 1 \u8a9e"
    assert len(sign(one, "\U0001f600" * 2_000)) < 4_000
    assert signed(other, sign(one, "x")) is None
    assert signed(one, "x.y") is None
