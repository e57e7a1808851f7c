"""Render pages and their live parts from templates; everything that comes from outside is escaped."""

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from sexton.insight import wording
from sexton.kernel.printable import printable
from sexton.recycle.model import FAILED, PARTIAL
from sexton.recycle.rounds.model import RoundRow

HERE = Path(__file__).parent
STATIC = HERE / "static"
LIVE = "live"
"""The block of a page that a browser asks for again every two seconds, and the id of its element."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache, private",
}
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def span(seconds: float) -> str:
    """Return a length of time, rounded down, with one unit or two: ``3 h``, ``1 h 30 min``."""
    left, parts = int(seconds), list[str]()
    for size, unit in _UNITS:
        if left >= size and len(parts) < 2:
            parts.append(f"{left // size} {unit}")
            left %= size
        elif parts:
            break
    return " ".join(parts) or "0 s"


def relative(instant: int | None, now: int) -> Markup:
    """Return an instant (ms since 1970) as people say it, with its UTC in a tooltip; a dash for None."""
    if instant is None:
        return Markup("&ndash;")
    at = dt.datetime.fromtimestamp(instant / 1000, dt.UTC)
    seconds = (now - instant) / 1000
    if abs(seconds) < 60:
        text = "just now" if seconds >= 0 else "within a minute"
    else:
        text = f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(), wording.utc(instant), text)


class Bar(NamedTuple):
    """What one round adds to a chart. ``height``: its value as a share of the largest one."""

    round: int
    value: int
    height: float


def charts(rounds: Sequence[RoundRow]) -> Mapping[str, Sequence[Bar]]:
    """Return name → bars of the rounds that have ended, the oldest first; ``rounds``: the newest first. Pure."""
    reports = [row.report for row in reversed(rounds) if row.report is not None]
    values_by_name = {
        "freed bytes": [report.bytes_freed + report.bytes_estimated for report in reports],
        "objects deleted": [report.deleted for report in reports],
        "marks due": [report.due for report in reports],
        "failed rounds": [int(report.state in (FAILED, PARTIAL)) for report in reports],
    }
    return {
        name: [Bar(r.round, n, n / max(1, *values)) for r, n in zip(reports, values, strict=True)]
        for name, values in values_by_name.items()
    }


def asset(name: str) -> str:
    """Return the address of a static file. It changes with its content, so browsers may keep the file."""
    return f"/console/static/{name}?v={_DIGESTS[name]}"


_DIGESTS = {
    path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in STATIC.iterdir() if path.suffix != ".txt"
}
_environment = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=lambda value: value if isinstance(value, Markup) else printable(str(value)),
)
_environment.filters.update(
    number="{:,.0f}".format, bytes=wording.human_bytes, utc=wording.utc, first_line=wording.first_line, span=span
)
_environment.globals.update(
    asset=asset,
    quantity=wording.quantity,
    check_text=wording.check_text,
    expected_text=wording.expected_text,
    gone_text=wording.gone_text,
    kept_counts=wording.kept_counts,
    excluded_vaults=wording.excluded_vaults,
    freed=wording.freed,
    marked=wording.marked,
    monthly_cost=wording.monthly_cost,
    urlencode=urlencode,
)


def page(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    """Return a page, or only its live part if that was asked for."""
    loaded = _environment.get_template(template)
    if request.headers.get("hx-target") == LIVE and LIVE in loaded.blocks:
        html = "".join(loaded.blocks[LIVE](loaded.new_context(dict(values))))
    else:
        html = loaded.render(values)
    body = html.encode()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = HEADERS | {"ETag": etag, "Vary": "Cookie, HX-Target"}
    if status == 200 and request.method == "GET" and request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(body, status, headers, "text/html; charset=utf-8")
