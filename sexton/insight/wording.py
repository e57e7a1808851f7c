"""Word numbers, sizes and instants for people, the same in the terminal and in the console."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sexton.kernel.printable import printable
from sexton.operators.holds.model import Hold
from sexton.recycle.model import RoundReport

if TYPE_CHECKING:
    from pydantic import BaseModel

    from sexton.check.model import CheckCounts, Finding
    from sexton.insight.views import KindCounts, KindStatus, RoundCounts
    from sexton.replication.binlog.model import LogRetention

UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
"""Seconds of a unit, as the command line writes it."""


def quantity(count: int, noun: str, plural: str = "") -> str:
    """Return ``1 mark`` or ``2 marks``; ``plural``: the plural of a noun that takes more than an s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or f'{noun}s'}"


def marked(kinds: "Sequence[KindStatus]") -> str:
    """Return how many marks of kinds wait, and whether that is known exactly: ``about 1,200,000``."""
    inexact = next((f"{how} " for how in ("at least", "about") if any(k.waiting_is == how for k in kinds)), "")
    return f"{inexact}{sum(kind.waiting for kind in kinds):,}"


def shown_names(of: "type[BaseModel]") -> dict[str, str]:
    """Return the fields of a value, each with the name that people see; the end of a name is the unit."""
    shown = {name: field for name, field in of.model_fields.items() if not field.exclude}
    return {name: field.title or field.alias or name for name, field in shown.items()}


def first_line(text: str) -> str:
    """Return the first line of an error. A driver's error goes on with its statement, which `round show` prints."""
    first, *more = text.strip().splitlines() or [""]
    return printable(f"{first} …" if more else first)


def human_bytes(count: int) -> str:
    """Return a number of bytes with its unit: ``1.5 MiB``."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("unreachable")


def freed(size: int, unknown: int) -> str:
    """Return how many bytes were freed; ``unknown``: objects in addition whose size is unknown."""
    if not unknown:
        return human_bytes(size)
    return f"{human_bytes(size)} + {unknown:,} unknown" if size else "unknown"


def time_left(seconds: float | None) -> str:
    """Return about how long something takes from now on, to be put after a text; empty where that is unknown."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f", about {seconds:.0f} s left"
    return f", about {seconds / 60:.0f} min left" if seconds < 5_400 else f", about {seconds / 3600:.1f} h left"


MOST_KINDS = 12
"""Kinds of a round that have a line of their own; more would not fit on a screen."""


def expected_text(counts: "RoundCounts | KindCounts") -> str:
    """Return how many objects are expected, and whether the number is an estimate or only a guess."""
    if counts.is_guess:
        return f"{counts.expected:,} (a guess: none was ever listed)"
    return f"{'about ' if counts.estimated else ''}{counts.expected:,}"


def gone_text(counts: "RoundCounts") -> str:
    """Return how many objects of a round are gone, of how many, and how long the rest takes at the rate so far."""
    return f"{counts.objects:,} of {expected_text(counts)} objects gone{time_left(counts.seconds_left)}"


def kind_text(kind: "KindCounts") -> str:
    """Return how far one kind of a round is."""
    listed = f", {kind.listed:,} listed" if kind.listed > kind.objects else ""
    marks = f"{kind.removed:,} of {kind.due:,} marks"
    return f"{kind.kind}: {marks}, {kind.objects:,} of {expected_text(kind)} objects{listed}"


def report_text(report: RoundReport) -> str:
    """Return the numbers of a round that has ended."""
    if report.observed:
        return f"observed only, {report.due:,} due"
    return f"{report.due:,} due, {report.claimed:,} claimed, {report.deleted:,} deleted"


def check_text(counts: "CheckCounts") -> str:
    """Return what a check has listed and read, of how much, and how long the rest takes at the rate so far."""
    listed, read = (
        f"{count:,} of about {expected:,}" if count < expected else f"{count:,}"
        for count, expected in ((counts.listed, counts.expected_objects), (counts.records, counts.expected_records))
    )
    return f"objects listed: {listed}, records read: {read}{time_left(counts.seconds_left)}"


def utc(instant: int | None) -> str:
    """Return an instant (ms since 1970) with its zone; ``-`` for None."""
    return "-" if instant is None else f"{utc_column(instant, 'seconds')} UTC"


def utc_column(instant: int | None, precision: str = "minutes") -> str:
    """Return an instant (ms since 1970) for a column whose heading names UTC; ``-`` for None."""
    import datetime as dt

    if instant is None:
        return "-"
    return dt.datetime.fromtimestamp(instant / 1000, dt.UTC).replace(tzinfo=None).isoformat(" ", precision)


def monthly_cost(size: int, per_gib: float, currency: str) -> str:
    """Return what it costs to keep some bytes for a month."""
    cost = size / 2**30 * per_gib
    return f"less than 0.01 {currency}" if 0 < cost < 0.01 else f"{cost:,.2f} {currency}"


UNCOUNTED = "how many marks it covers was not counted, which failed or takes too long; check its spelling"


def blocks_deep(marks: int) -> str:
    """Return which marks a hold on a mark blocks although they do not match it."""
    return (
        f"{quantity(marks, 'mark')} with more levels of parents than are read, which may be its descendants: a hold on "
        "any mark blocks those"
    )


def covers_nothing(hold: Hold, above: int = 0) -> str:
    """Return what to know of a hold that no mark matches now; ``above``: marks whose prefix covers that of the hold."""
    if hold.scope == "prefix":
        if above:
            return (
                f"no mark of {hold.instance} names a key or a prefix there, and {quantity(above, 'mark')} above it "
                "will be kept only if files are there: check the spelling"
            )
        return (
            f"no mark of {hold.instance} names a key or a prefix there: check the spelling, without the vault's own "
            "prefix; it still blocks marks whose files only their owner names"
        )
    if hold.scope == "instance":
        return f"{hold.instance} has no mark that waits now; the hold covers those that are made until it ends"
    return (
        f"no mark of {hold.instance} matches, or names it as an ancestor: check its spelling; it may still "
        "cover descendants that only the owner's records know"
    )


def excluded_vaults(report: RoundReport) -> str:
    """Return each vault in which a round met a fault, with the fault."""
    return "; ".join(f"{vault} {fault}" for vault in sorted(report.vaults) if (fault := report.vault_fault(vault)))


UNANSWERED = "only what fits the limit of 24 hours or is due by the agreed retention"
"""What rounds delete of a plan that no operator answers."""


def kept_counts(marks_by_reason: Mapping[Any, int]) -> str:
    """Return how many marks are kept and why, for people."""
    return ", ".join(f"{marks} by {printable(str(why))}" for why, marks in sorted(marks_by_reason.items())) or "nothing"


def duration(seconds: int | None) -> str:
    """Return a TTL in the form that the command line accepts: ``7d``; None: ``forever``."""
    if seconds is None:
        return "forever"
    return next((f"{seconds // n}{unit}" for n, unit in UNITS if seconds and seconds % n == 0), f"{seconds} s")


def retention(config: "LogRetention") -> str:
    """Return the rule by which records of a log are deleted."""
    rules = ["records are kept forever"]
    if config.ttl_seconds is not None:
        rules = [f"records are kept for {duration(config.ttl_seconds)}"]
    if config.max_history_nums is not None:
        rules.append(f"no more than {config.max_history_nums:,} of them")
    if config.max_bytes is not None:
        rules.append(f"no more than {human_bytes(config.max_bytes)}")
    return ", ".join(rules)


def finding_place(f: "Finding") -> str:
    """Return the object or the record that a finding is about."""
    return f"{f.vault}/{f.key}" if f.vault else f.key
