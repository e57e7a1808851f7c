"""Stops, lists and windows halt an instance in a fixed order of precedence."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import ALL, Control, ControlKind
from sexton.operators.controls.policy import halt, is_open, opens_at, parse_window, vault_allowed, vault_whitelist


def control(kind: ControlKind, name: str, since: int | None = 1) -> Control:
    return Control(kind=kind, name=name, reason="why", set_by="ada", since=since)


def at(text: str, zone: str = "UTC") -> int:
    return int(dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def test_no_control_halts_nothing() -> None:
    assert halt([], "shop", 0) is None


@pytest.mark.parametrize(
    ("controls", "by"),
    [
        ([control(ControlKind.STOP, ALL), control(ControlKind.WHITELIST, "shop")], ControlKind.STOP),
        ([control(ControlKind.STOP, "shop"), control(ControlKind.BLACKLIST, "shop")], ControlKind.STOP),
        ([control(ControlKind.BLACKLIST, "shop"), control(ControlKind.WHITELIST, "shop")], ControlKind.BLACKLIST),
        ([control(ControlKind.WHITELIST, "other")], ControlKind.WHITELIST),
        ([control(ControlKind.STOP, "other"), control(ControlKind.BLACKLIST, "other")], None),
        ([control(ControlKind.WHITELIST, "shop"), control(ControlKind.WHITELIST, "other")], None),
        ([control(ControlKind.VAULT_WHITELIST, "cold")], None),
    ],
)
def test_strongest_control_wins(controls: list[Control], by: ControlKind | None) -> None:
    halted = halt(controls, "shop", 0)

    assert (halted and halted.by) == by


def test_halt_names_actor_reason_time_and_way_out() -> None:
    halted = halt([control(ControlKind.STOP, "shop", since=7)], "shop", 0)

    assert halted is not None
    assert str(halted) == "shop is stopped by ada: why; to resume: sexton start shop"
    assert halted.since == 7


@pytest.mark.parametrize(
    ("window", "now", "inside"),
    [
        ("daily 01:00-05:00", "2026-11-18T01:00", True),
        ("daily 01:00-05:00", "2026-11-18T04:59", True),
        ("daily 01:00-05:00", "2026-11-18T05:00", False),
        ("daily 01:00-05:00", "2026-11-18T00:59", False),
        ("daily 00:00-24:00", "2026-11-18T23:59", True),
        ("wed 22:00-06:00", "2026-11-18T22:00", True),  # a Wednesday
        ("wed 22:00-06:00", "2026-11-19T05:59", True),
        ("wed 22:00-06:00", "2026-11-19T22:30", False),
        ("wed 22:00-06:00", "2026-11-18T05:00", False),
        ("mon-fri 09:00-17:00", "2026-11-20T12:00", True),
        ("mon-fri 09:00-17:00", "2026-11-21T12:00", False),
        ("fri-mon 09:00-17:00", "2026-11-22T12:00", True),
        ("fri-mon 09:00-17:00", "2026-11-18T12:00", False),
        ("sat,sun 00:00-24:00", "2026-11-21T00:00", True),
        ("daily 02:00-03:00 Europe/Berlin", "2026-11-18T01:30", True),
        ("daily 02:00-03:00 Europe/Berlin", "2026-07-18T00:30", True),
    ],
)
def test_a_window_is_open_from_its_start_to_before_its_end(window: str, now: str, inside: bool) -> None:
    assert is_open([parse_window(window)], at(now)) is inside


def test_one_open_window_of_several_is_enough() -> None:
    both = [parse_window("mon 01:00-02:00"), parse_window("wed 01:00-02:00")]

    assert is_open([], 0)
    assert is_open(both, at("2026-11-18T01:30"))


def test_closed_window_returns_its_opening_time() -> None:
    windows = [parse_window("mon 01:00-02:00"), parse_window("fri 22:00-23:00 Europe/Berlin")]
    halted = halt([control(ControlKind.WINDOW, "mon 01:00-02:00")], "shop", at("2026-11-18T12:00"))

    assert opens_at(windows, at("2026-11-18T12:00")) == at("2026-11-20T21:00")
    assert halted is not None
    assert halted.until == at("2026-11-23T01:00")


NO_WINDOWS = (
    *("", "daily", "daily 1:00-5:00", "daily 01:00-01:00", "xyz 01:00-02:00", "mon-tue-wed 01:00-02:00"),
    *("daily 25:00-26:00", "daily 01:60-02:00", "daily 01:00-02:00 Europe/Nowhere", "daily 01:00-02:00 ../etc/passwd"),
    *("mon 01:00-02:00 Europe/Berlin extra", "mon 24:30-02:00"),
)


@pytest.mark.parametrize("text", NO_WINDOWS)
def test_malformed_window_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="window"):
        parse_window(text)


def test_vault_whitelist_covers_any_or_one_instance() -> None:
    listed = vault_whitelist(
        [control(ControlKind.VAULT_WHITELIST, "cold"), control(ControlKind.VAULT_WHITELIST, "shop/hot")]
    )

    assert vault_allowed(frozenset(), "shop", "any")
    assert [vault_allowed(listed, i, v) for i, v in (("a", "cold"), ("shop", "hot"), ("a", "hot"))] == [
        True,
        True,
        False,
    ]
