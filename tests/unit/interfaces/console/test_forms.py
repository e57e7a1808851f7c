"""Forms of the console: where a login leads, what operations and holds ask and say, and which limit is shown."""

from sexton.interfaces.console.rendering import charts, relative, span
from sexton.interfaces.console.routes.login import safe_target
from sexton.interfaces.console.routes.operations import ON_A_PAGE, WITH_A_PAGE, offered
from sexton.interfaces.console.routes.vaults import RateLimit, rate_limits
from sexton.interfaces.console.session import Session, sign, signed
from sexton.interfaces.console.visit import outcome_text
from sexton.interfaces.questions import QUESTIONS
from sexton.operations.holds import PlacedHold
from sexton.operations.registry import READING, operations
from sexton.operators.holds.model import Hold
from sexton.recycle.model import PARTIAL, RoundReport
from sexton.recycle.pacing.model import PlaceFigures
from sexton.recycle.rounds.model import RoundRow

HOUR_MS = 3_600_000


ELSEWHERE = (
    *("", "/", "https://evil.example/console", "//evil.example/console", "/console//evil.example"),
    *("/console\\@evil.example", "/console/../v1/status", "/console/%2e%2e/v1/status", "/consolex"),
    *("javascript:alert(1)", "/console/\r\nSet-Cookie: a=b"),
)


def test_a_login_leads_back_to_the_page_and_nowhere_else() -> None:
    assert {then: safe_target(then) for then in ELSEWHERE} == dict.fromkeys(ELSEWHERE, "/console")
    assert safe_target("/console/why?key=a%2Fb%20c") == "/console/why?key=a%2Fb+c"
    assert safe_target("/console/plans/3") == "/console/plans/3"


def test_a_form_is_of_one_login_and_one_browser() -> None:
    one = Session("token", "secret")
    assert one.form_token == Session("token", "secret").form_token
    assert one.form_token not in {Session("other", "secret").form_token, Session("token", "other").form_token}


def test_instants_are_relative_and_spans_are_rounded_down() -> None:
    for hours, text in {10: "just now", 7: "3 h ago", 58: "in 2 d", 10 + 1e-5: "within"}.items():
        shown = relative(int(hours * HOUR_MS), 10 * HOUR_MS)
        assert f">{text}" in shown
        assert "UTC" in shown
    spans = {0.4: "0 s", 5: "5 s", 61: "1 min 1 s", 5_400: "1 h 30 min", 7_200: "2 h", 200_000: "2 d 7 h"}
    assert {seconds: span(seconds) for seconds in spans} == spans


def _round(number: int, **counts: object) -> RoundRow:
    report = RoundReport(round=number, instance="shop", **counts) if counts else None
    return RoundRow(round=number, instance="shop", state="", started_at=1, ended_at=None, plan=None, report=report)


def test_charts_show_ended_rounds_from_old_to_new() -> None:
    newest_first = [_round(4), _round(3, deleted=1, due=2, state=PARTIAL), _round(2, deleted=4, bytes_freed=5)]

    assert charts(newest_first) == {
        "freed bytes": [(2, 5, 1.0), (3, 0, 0.0)],
        "objects deleted": [(2, 4, 1.0), (3, 1, 0.25)],
        "marks due": [(2, 0, 0.0), (3, 2, 1.0)],
        "failed rounds": [(2, 0, 0.0), (3, 1, 1.0)],
    }


def test_a_message_is_of_one_session() -> None:
    one, other = Session("token", "secret"), Session("token", "other")
    assert signed(one, sign(one, "Hold 1 \u8a9e")) == "Hold 1 \u8a9e"
    assert len(sign(one, "\U0001f600" * 2_000)) < 4_000
    assert signed(other, sign(one, "x")) is None
    assert signed(one, "x.y") is None


def test_each_change_has_a_form() -> None:
    changes = {o.name for o in operations().values() if o.method != READING and o.paths and o.is_for_people}

    assert offered().keys() | WITH_A_PAGE == changes
    assert set(offered()) >= ON_A_PAGE
    assert {name for name, o in offered().items() if o.record.asks} <= set(QUESTIONS)  # what cannot be undone


NOW = 1_795_797_016_331


def _place(rate: int, *, throttled_at: int | None = None, workers: int = 1) -> PlaceFigures:
    counts = dict.fromkeys(("requests", "throttled", "keys", "ceiling"), 0)
    figures = {"keys_per_second": rate, "throttled_at": throttled_at, "updated_at": NOW, "workers": workers}
    return PlaceFigures(place="p", **figures, **counts)


REFUSED = _place(50, throttled_at=NOW - 5)
FREE = _place(1_000)
IDLE = _place(4_000, throttled_at=1, workers=0)


LIMITS = [
    ([], None, None),
    ([FREE], None, None),
    ([REFUSED], None, RateLimit(50, False, NOW - 5)),
    ([REFUSED, IDLE], None, RateLimit(50, False, NOW - 5)),
    ([REFUSED, FREE], None, None),  # the other place may be deleted from at any rate
    ([REFUSED, FREE], 200, RateLimit(200, True, None)),
    ([REFUSED], 200, RateLimit(50, False, NOW - 5)),
    ([REFUSED], 20, RateLimit(20, True, NOW - 5)),
    ([], 20, RateLimit(20, True, None)),
]


def test_the_lower_of_cap_and_store_is_the_limit() -> None:
    for places, cap, limit in LIMITS:
        assert rate_limits({"disk": places}, {} if cap is None else {"disk": cap}).get("disk") == limit


def _placed(scope: str, matches: int | None, **more: int) -> PlacedHold:
    hold = Hold(id=1, instance="shop", scope=scope, vault="disk", prefix="a/", reason="x")
    return PlacedHold(hold=hold, matches_now=matches, **{"too_late": 0, "blocks_now": matches} | more)


NOTICES = [
    (_placed("prefix", 2), False, "it covers 2 marks now"),
    (_placed("prefix", 0), True, "check the spelling"),
    (_placed("prefix", 0, may_block=3), True, "3 marks above it will be kept only if files are there"),
    (_placed("prefix", None), True, "was not counted"),
    (_placed("mark", 0), True, "check its spelling"),
    (_placed("mark", 0, blocks_now=2), True, "it also blocks 2 marks with more levels of parents"),
    (_placed("instance", 0), False, "shop has no mark that waits now"),
    (_placed("instance", 5, too_late=2), True, "too late for 2 marks"),
]


def test_a_notice_warns_where_a_hold_may_be_another_one() -> None:
    for placed, warns, says in NOTICES:
        text, is_warning = outcome_text("hold add", placed, {})

        assert says in text
        assert is_warning is warns
