"""Stops, lists and windows halt an instance in a fixed order of precedence."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import ALL, Control, ControlKind
from sexton.operators.controls.policy import (
    all_halts,
    halt,
    is_open,
    opens_at,
    parse_window,
    vault_allowed,
    vault_whitelist,
)


def control(kind: ControlKind, name: str, since: int | None = 1) -> Control:
    return Control(kind=kind, name=name, reason="why", set_by="ada", since=since)


def at(text: str, zone: str = "UTC") -> int:
    return int(dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


PRECEDENCE: list[tuple[list[Control], ControlKind | None]] = [
    ([], None),
    ([control(ControlKind.STOP, ALL), control(ControlKind.WHITELIST, "shop")], ControlKind.STOP),
    ([control(ControlKind.STOP, "shop"), control(ControlKind.BLACKLIST, "shop")], ControlKind.STOP),
    ([control(ControlKind.BLACKLIST, "shop"), control(ControlKind.WHITELIST, "shop")], ControlKind.BLACKLIST),
    ([control(ControlKind.WHITELIST, "other")], ControlKind.WHITELIST),
    ([control(ControlKind.STOP, "other"), control(ControlKind.BLACKLIST, "other")], None),
    ([control(ControlKind.WHITELIST, "shop"), control(ControlKind.WHITELIST, "other")], None),
    ([control(ControlKind.VAULT_WHITELIST, "cold")], None),
]


def test_strongest_control_wins() -> None:
    for controls, by in PRECEDENCE:
        halted = halt(controls, "shop", 0)
        assert (halted and halted.by) == by


def test_halt_names_actor_reason_time_and_way_out() -> None:
    halted = halt([control(ControlKind.STOP, "shop", since=7)], "shop", 0)

    assert halted is not None
    assert str(halted) == "shop is stopped by ada: why; to resume: sexton start shop"
    assert halted.since == 7


def test_every_halt_is_listed_with_its_scope_and_way_out() -> None:
    controls = [
        control(ControlKind.BLACKLIST, "shop"),
        control(ControlKind.STOP, ALL),
        control(ControlKind.STOP, "other"),
        control(ControlKind.VAULT_WHITELIST, "cold"),
        control(ControlKind.WHITELIST, "other"),
        control(ControlKind.WINDOW, "mon 01:00-02:00"),
        control(ControlKind.BLACKLIST, "shop", since=None),  # of the settings
    ]

    halts = list(all_halts(controls, "shop", at("2026-11-18T12:00")))

    assert [(halted.scope, halted.by, halted.todo) for halted in halts] == [
        ("shop", ControlKind.BLACKLIST, "to take it off: sexton lists remove blacklist shop"),
        (ALL, ControlKind.STOP, "to resume: sexton start --all"),
        ("shop", ControlKind.BLACKLIST, "see: sexton lists show"),
        ("shop", ControlKind.WHITELIST, "to add it: sexton lists add whitelist shop"),
        (ALL, ControlKind.WINDOW, "work resumes by itself when a window opens"),
    ]
    assert list(all_halts([], "shop", 0)) == []


WINDOWS = {
    "daily 01:00-05:00": (["18T01:00", "18T04:59"], ["18T05:00", "18T00:59"]),
    "daily 00:00-24:00": (["18T23:59"], []),
    "wed 22:00-06:00": (["18T22:00", "19T05:59"], ["19T22:30", "18T05:00"]),  # 18: a Wednesday
    "mon-fri 09:00-17:00": (["20T12:00"], ["21T12:00"]),
    "fri-mon 09:00-17:00": (["22T12:00"], ["18T12:00"]),
    "sat,sun 00:00-24:00": (["21T00:00"], []),
    "daily 02:00-03:00 Europe/Berlin": (["18T01:30"], ["18T00:30"]),
}
"""Window → instants of November 2026 at which it is open, and others."""


def test_a_window_is_open_from_its_start_to_before_its_end() -> None:
    for window, (opened, closed) in WINDOWS.items():
        instants = [*opened, *closed]
        assert [now for now in instants if is_open([parse_window(window)], at(f"2026-11-{now}"))] == opened
    assert is_open([parse_window("daily 02:00-03:00 Europe/Berlin")], at("2026-07-18T00:30"))
    assert is_open([], 0)
    assert is_open([parse_window("mon 01:00-02:00"), parse_window("wed 01:00-02:00")], at("2026-11-18T01:30"))


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


def test_malformed_window_is_refused() -> None:
    for text in NO_WINDOWS:
        with pytest.raises(BadInput, match="window"):
            parse_window(text)


def test_vault_whitelist_covers_any_or_one_instance() -> None:
    names = ("cold", "shop/hot")
    listed = vault_whitelist([control(ControlKind.VAULT_WHITELIST, name) for name in names])

    assert vault_allowed(frozenset(), "shop", "any")
    vaults = (("a", "cold"), ("shop", "hot"), ("a", "hot"))
    assert [vault_allowed(listed, *vault) for vault in vaults] == [True, True, False]
