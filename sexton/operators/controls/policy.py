"""May an instance be worked on now, and which vaults? Pure: ``now`` is an argument.

A stop wins over everything, the blacklist over the whitelist; a whitelist that is not empty means *only these*; with
windows, rounds run only inside one of them.
"""

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import ALL, Control, ControlKind, Halt

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = re.compile(r"(?P<days>[a-z,-]+) (?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)(?: (?P<zone>\S+))?")
_LOOK_AHEAD_DAYS = 8


class TimeWindow(NamedTuple):
    """Weekdays (0 is Monday) on which it opens, minutes of the day, and the zone they are in."""

    days: frozenset[int]
    start: int
    end: int
    zone: zoneinfo.ZoneInfo


def parse_window(text: str) -> TimeWindow:
    """Return a window from e.g. ``mon-fri 22:00-06:00 Europe/Berlin`` or ``daily 01:00-05:00`` (UTC).

    An end that is not after the start is on the next day.

    Raises:
        BadInput: it is not of that form.
    """
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise BadInput(f"{text!r} is no window; write DAYS HH:MM-HH:MM [ZONE], e.g. mon-fri 22:00-06:00 Europe/Berlin")
    try:
        zone = zoneinfo.ZoneInfo(found["zone"] or "UTC")
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise BadInput(f"window {text!r}: {found['zone']!r} is no time zone, e.g. Europe/Berlin") from e
    start, end = (_minutes(text, found[n]) for n in ("start", "end"))
    if start == end or start == 24 * 60:
        raise BadInput(f"window {text!r} is empty: it starts when it ends; for the whole day write 00:00-24:00")
    return TimeWindow(frozenset(_days(text, found["days"])), start, end, zone)


def is_open(windows: Iterable[TimeWindow], now: int) -> bool:
    """Return whether ``now`` (ms since 1970) lies in one of the windows, or there are none."""
    windows = list(windows)
    return not windows or any(_inside(w, now) for w in windows)


def opens_at(windows: Iterable[TimeWindow], now: int) -> int:
    """Return when the next window opens (ms since 1970), for windows that are closed at ``now``."""
    starts = []
    for w in windows:
        local = _local(w, now)
        for ahead in range(_LOOK_AHEAD_DAYS):
            day = local.date() + dt.timedelta(days=ahead)
            begins = _at(day, w.start, w.zone)
            if day.weekday() in w.days and begins > now:
                starts.append(begins)
                break
    return min(starts)


def halt(controls: Sequence[Control], instance: str, now: int) -> Halt | None:
    """Return why the instance must not be worked on now, or None."""
    return halts(controls, now)(instance)


def halts(controls: Sequence[Control], now: int) -> Callable[[str], Halt | None]:
    """Return what tells of an instance why it must not be worked on now, or None; for many instances."""
    of: dict[ControlKind, dict[str, Control]] = {k: {} for k in ControlKind}
    for control in controls:
        of[control.kind].setdefault(control.name, control)
    windows = [parse_window(text) for text in of[ControlKind.WINDOW]]
    closed = not is_open(windows, now)
    return lambda instance: _halt(of, instance, opens_at(windows, now) if closed else None)


def stopped(controls: Iterable[Control]) -> Halt | None:
    """Return why nothing at all may go now, or None: for what belongs to no instance."""
    of = {c.name: c for c in controls if c.kind is ControlKind.STOP}
    return _stopped(of, ALL, "everything", "--all")


def _stopped(stops: Mapping[str, Control], name: str, what: str, start: str) -> Halt | None:
    if (stop := stops.get(name)) is None:
        return None
    why = f"{what} is stopped by {stop.set_by or 'somebody'}: {stop.reason or 'no reason given'}"
    return Halt(by=ControlKind.STOP, why=why, todo=f"to go on: sexton start {start}", since=stop.since)


def _halt(of: Mapping[ControlKind, Mapping[str, Control]], instance: str, closed_until: int | None) -> Halt | None:
    for name, what, start in ((ALL, "everything", "--all"), (instance, instance, instance)):
        if (stop := _stopped(of[ControlKind.STOP], name, what, start)) is not None:
            return stop
    if (listed := of[ControlKind.BLACKLIST].get(instance)) is not None:
        return Halt(
            by=ControlKind.BLACKLIST,
            why=f"{instance} is on the blacklist{_said(listed)}",
            todo=f"to take it off: sexton lists remove blacklist {instance}",
            since=listed.since,
        )
    if (only := of[ControlKind.WHITELIST]) and instance not in only:
        return Halt(
            by=ControlKind.WHITELIST,
            why=f"only {', '.join(sorted(only))} on the whitelist",
            todo=f"to add it: sexton lists add whitelist {instance}",
            since=max((c.since for c in only.values() if c.since is not None), default=None),
        )
    if closed_until is not None:
        return Halt(
            by=ControlKind.WINDOW,
            why=f"outside the windows {'; '.join(sorted(of[ControlKind.WINDOW]))}",
            todo="it goes on by itself when one opens",
            until=closed_until,
        )
    return None


def vault_whitelist(controls: Iterable[Control]) -> frozenset[str]:
    """Return the names on the vault whitelist; empty means every vault."""
    return frozenset(c.name for c in controls if c.kind is ControlKind.VAULT_WHITELIST)


def vault_allowed(whitelist: Collection[str], instance: str, vault: str) -> bool:
    """Return whether a vault may be touched; a whitelist entry is ``VAULT`` or ``INSTANCE/VAULT``."""
    return not whitelist or vault in whitelist or f"{instance}/{vault}" in whitelist


def _said(control: Control) -> str:
    told = [control.set_by and f"by {control.set_by}", control.reason]
    said = ": ".join(t for t in told if t)
    return f" ({said})" if said else ""


def _minutes(text: str, clock: str) -> int:
    hours, minutes = (int(p) for p in clock.split(":"))
    if minutes > 59 or hours * 60 + minutes > 24 * 60:
        raise BadInput(f"window {text!r}: {clock} is no time of the day")
    return hours * 60 + minutes


def _days(text: str, days: str) -> set[int]:
    if days == "daily":
        return set(range(7))
    found = set()
    for part in days.split(","):
        ends = part.split("-")
        if len(ends) > 2 or any(d not in DAYS for d in ends):
            raise BadInput(
                f"window {text!r}: {part!r} is no day; use {', '.join(DAYS)}, ranges such as mon-fri, or daily"
            )
        first, last = DAYS.index(ends[0]), DAYS.index(ends[-1])
        found |= {d % 7 for d in range(first, last + 1 if last >= first else last + 8)}
    return found


def _local(w: TimeWindow, now: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(now / 1000, w.zone)


def _at(day: dt.date, minutes: int, zone: zoneinfo.ZoneInfo) -> int:
    """Return the instant (ms since 1970) of a minute of a local day; minute 1440 is the next midnight."""
    day, minutes = (day + dt.timedelta(days=1), 0) if minutes == 24 * 60 else (day, minutes)
    return int(dt.datetime.combine(day, dt.time(minutes // 60, minutes % 60), zone).timestamp() * 1000)


def _inside(w: TimeWindow, now: int) -> bool:
    today = _local(w, now).date()
    for day in (today, today - dt.timedelta(days=1)):
        ends = day if w.end > w.start else day + dt.timedelta(days=1)
        if day.weekday() in w.days and _at(day, w.start, w.zone) <= now < _at(ends, w.end, w.zone):
            return True
    return False
