"""Decide whether an instance may be worked on now, and in which vaults. Pure: ``now`` is an argument.

A stop has precedence over everything, the blacklist over the whitelist. A whitelist that is not empty means *only
these*. If there are windows, rounds run only inside one of them.
"""

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sexton.kernel.errors import WrongUsage
from sexton.operators.controls.model import ALL, Control, ControlKind, Halt

ControlsByKind = Mapping[ControlKind, Mapping[str, Control]]

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
_WINDOW = re.compile(r"(?P<days>[a-z,-]+) (?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)(?: (?P<zone>\S+))?")
_LOOK_AHEAD_DAYS = 8


class TimeWindow(NamedTuple):
    """The weekdays (0 is Monday) on which it opens, its start and end in minutes of the day, and its time zone."""

    days: frozenset[int]
    start: int
    end: int
    zone: zoneinfo.ZoneInfo


def parse_window(text: str) -> TimeWindow:
    """Return a window from e.g. ``mon-fri 22:00-06:00 Europe/Berlin`` or ``daily 01:00-05:00`` (UTC).

    An end that is not after the start is on the next day.

    Raises:
        BadInput: the text does not have this form.
    """
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise WrongUsage(f"{text!r} is no window; write DAYS HH:MM-HH:MM [ZONE], as mon-fri 22:00-06:00 Europe/Berlin")
    try:
        zone = zoneinfo.ZoneInfo(match["zone"] or "UTC")
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise WrongUsage(f"window {text!r}: {match['zone']!r} is no time zone, e.g. Europe/Berlin") from e
    start, end = _minutes(text, match["start"]), _minutes(text, match["end"])
    if start in (end, DAY_MINUTES):
        raise WrongUsage(f"window {text!r} is empty: it starts when it ends; for the whole day write 00:00-24:00")
    return TimeWindow(frozenset(_days(text, match["days"])), start, end, zone)


def is_open(windows: Iterable[TimeWindow], now: int) -> bool:
    """Return whether ``now`` (ms since 1970) lies in one of the windows, or there are no windows."""
    windows = list(windows)
    # One that opened yesterday may still be open.
    openings = (opening for window in windows for opening in _openings(window, now, range(-1, 1)))
    return not windows or any(start <= now < end for start, end in openings)


def opens_at(windows: Iterable[TimeWindow], now: int) -> int:
    """Return when the next window opens (ms since 1970), for windows that are closed at ``now``."""
    openings = (opening for window in windows for opening in _openings(window, now, range(_LOOK_AHEAD_DAYS)))
    return min(start for start, _ in openings if start > now)


def halt(controls: Sequence[Control], instance: str, now: int) -> Halt | None:
    """Return why the instance must not be worked on now, or None."""
    return halt_by_instance(controls, now)(instance)


def all_halts(controls: Sequence[Control], instance: str, now: int) -> Iterator[Halt]:
    """Yield all that halts the instance."""
    groups = [[c] for c in controls if c.kind in (ControlKind.STOP, ControlKind.BLACKLIST)]
    # A whitelist, and the windows, halt as a whole: one entry of them alone says nothing.
    groups += [[c for c in controls if c.kind is kind] for kind in (ControlKind.WHITELIST, ControlKind.WINDOW)]
    yield from filter(None, (halt(group, instance, now) for group in groups))


def halt_by_instance(controls: Collection[Control], now: int) -> Callable[[str], Halt | None]:
    """Return a function from an instance to its ``halt``; for many instances."""
    by_kind, stop = _by_kind(controls), stop_by_instance(controls)
    texts, closed = sorted(by_kind[ControlKind.WINDOW]), None
    windows = [parse_window(text) for text in texts]
    if not is_open(windows, now):
        todo = "work resumes by itself when a window opens"
        why, until = f"outside the windows {'; '.join(texts)}", opens_at(windows, now)
        closed = Halt(by=ControlKind.WINDOW, scope=ALL, why=why, todo=todo, until=until)
    return lambda instance: stop(instance) or _list_halt(by_kind, instance) or closed


def stop_by_instance(controls: Iterable[Control]) -> Callable[[str], Halt | None]:
    """Return a function from an instance to its stop, or that of everything: for work without lists and windows."""
    stops = _by_kind(controls)[ControlKind.STOP]
    return lambda name: _stop_of(stops, ALL, "everything", "--all") or _stop_of(stops, name, name, name)


def _by_kind(controls: Iterable[Control]) -> ControlsByKind:
    by_kind: dict[ControlKind, dict[str, Control]] = {kind: {} for kind in ControlKind}
    for control in controls:
        by_kind[control.kind].setdefault(control.name, control)
    return by_kind


def _stop_of(stops: Mapping[str, Control], name: str, subject: str, start_argument: str) -> Halt | None:
    stop = stops.get(name)
    if stop is None:
        return None
    reason = f"{subject} is stopped by {stop.set_by or 'unknown'}: {stop.reason or 'no reason given'}"
    if stop.set_at is not None and (stop.set_at, stop.reason) != (stop.since, stop.first_reason):  # stopped again
        first = f"first stopped by {stop.first_set_by or 'unknown'}: {stop.first_reason or 'no reason given'}"
        reason += f" (on {_utc(stop.set_at)}; {first}, on {_utc(stop.since or 0)})"
    todo = f"to resume: sexton start {start_argument}"
    return Halt(by=ControlKind.STOP, scope=name, why=reason, todo=todo, since=stop.since)


def _list_halt(by_kind: ControlsByKind, instance: str) -> Halt | None:
    blacklisting = by_kind[ControlKind.BLACKLIST].get(instance)
    if blacklisting is not None:
        known = ": ".join(filter(None, (blacklisting.set_by and f"by {blacklisting.set_by}", blacklisting.reason)))
        way_out = f"to take it off: sexton lists remove blacklist {instance}"
        return Halt(
            by=ControlKind.BLACKLIST,
            scope=instance,
            why=f"{instance} is on the blacklist" + (f" ({known})" if known else ""),
            todo="see: sexton lists show" if blacklisting.since is None else way_out,  # None: the settings have it
            since=blacklisting.since,
        )
    whitelist = by_kind[ControlKind.WHITELIST]
    if whitelist and instance not in whitelist:
        return Halt(
            by=ControlKind.WHITELIST,
            scope=instance,
            why=f"{instance} is not on the whitelist, which is not empty",
            todo=f"to add it: sexton lists add whitelist {instance}",
            since=max((control.since for control in whitelist.values() if control.since is not None), default=None),
        )
    return None


def vault_whitelist(controls: Iterable[Control]) -> frozenset[str]:
    """Return the names on the vault whitelist; empty means every vault."""
    return frozenset(control.name for control in controls if control.kind is ControlKind.VAULT_WHITELIST)


def vault_allowed(whitelist: Collection[str], instance: str, vault: str) -> bool:
    """Return whether a vault may be touched; a whitelist entry is ``VAULT`` or ``INSTANCE/VAULT``."""
    return not whitelist or vault in whitelist or f"{instance}/{vault}" in whitelist


def _utc(at: int) -> str:
    return f"{dt.datetime.fromtimestamp(at / 1000, dt.UTC):%Y-%m-%d %H:%M} UTC"


def _minutes(text: str, clock: str) -> int:
    hours, minutes = (int(part) for part in clock.split(":"))
    if minutes > 59 or hours * 60 + minutes > DAY_MINUTES:
        raise WrongUsage(f"window {text!r}: {clock} is no time of the day")
    return hours * 60 + minutes


def _days(text: str, days: str) -> set[int]:
    if days == "daily":
        return set(range(7))
    weekdays: set[int] = set()
    for part in days.split(","):
        ends = part.split("-")
        if len(ends) > 2 or any(day not in DAYS for day in ends):
            raise WrongUsage(
                f"window {text!r}: {part!r} is no day; use {', '.join(DAYS)}, ranges such as mon-fri, or daily"
            )
        first, last = DAYS.index(ends[0]), DAYS.index(ends[-1])
        if last < first:  # such as fri-mon
            last += 7
        weekdays.update(day % 7 for day in range(first, last + 1))
    return weekdays


def _instant(day: dt.date, minutes: int, zone: zoneinfo.ZoneInfo) -> int:
    """Return the instant (ms since 1970) of a minute of a local day; minute 1440 is the next midnight."""
    if minutes == DAY_MINUTES:
        day, minutes = day + dt.timedelta(days=1), 0
    return int(dt.datetime.combine(day, dt.time(minutes // 60, minutes % 60), zone).timestamp() * 1000)


def _openings(window: TimeWindow, now: int, days_ahead: range) -> Iterator[tuple[int, int]]:
    """Yield when a window opens and closes (ms since 1970), on days counted from the local day of ``now``."""
    today = dt.datetime.fromtimestamp(now / 1000, window.zone).date()
    for opening_day in (today + dt.timedelta(days=days) for days in days_ahead):
        if opening_day.weekday() in window.days:
            closing_day = opening_day if window.end > window.start else opening_day + dt.timedelta(days=1)
            yield _instant(opening_day, window.start, window.zone), _instant(closing_day, window.end, window.zone)
