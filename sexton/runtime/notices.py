"""Post what needs an operator to a webhook: each problem of ``sexton status`` when it appears, and when it is gone.

One worker at a time compares and posts. A problem is a row before it is posted, and its outcome is stored afterwards:
if the worker ends in between, another one repeats the request. No workflow does it: Temporal may be what is away.
"""

import asyncio
import json
import logging
import time
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sqlalchemy import Row, and_, delete, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import OperationalError

from sexton.database.engine import AWAY, first_line, is_locked, now_once
from sexton.kernel.errors import missing_extra
from sexton.kernel.printable import printable
from sexton.kernel.signatures import SIGNATURE_HEADER, sign_request
from sexton.kernel.trust import PlainHttp
from sexton.marks.kept import Blocker, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sexton.runtime.deployment import Deployment

log = logging.getLogger(__name__)
EVERY_SECONDS = 30.0
"""How often a worker compares. The first time is so long after its start: by then it has reported that it runs."""
MOST_SECONDS = 10.0
"""How long one comparison posts; the next one continues. A worker that ends waits for it."""
ATTEMPT_SECONDS = 5.0
"""How long a request may take: to connect, to be sent, and to be answered. The body of the answer is not read."""
FLAP_MS = 3_600_000
"""A problem is posted as gone so long after it was posted, at the earliest. One that comes and goes is therefore posted
once within this time, and the webhook never believes that it is gone while it is there."""
FAILING_MS = 600_000
"""A request that failed within this time is being repeated."""
MOST_TEXT = 1_000
"""Characters of each text of a notice."""


class Notices:
    """Compares the problems with the rows of ``notice``, and posts what the webhook does not know."""

    def __init__(self, service: "Deployment", attempt_seconds: float = ATTEMPT_SECONDS) -> None:
        self._service, self._settings, self._attempt_seconds = service, service.settings.notices, attempt_seconds
        self._db, self._t = service.db, service.db.t.notice
        self._fails = False

    async def post_regularly(self) -> None:
        """Post until cancelled; no failure ends it, or reaches a round."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            try:
                await asyncio.to_thread(self.run)
            except AWAY as e:
                log.warning("notices are not posted now, because the database did not answer: %s", first_line(e))
            except Exception:
                log.exception("notices are not posted now")

    def run(self) -> None:
        """Store what is wrong now, and post what is new or gone; do nothing while another worker does this."""
        try:
            with self._db.write() as turn:
                # No advisory lock, because each role of the database could take that. Rows can be written under this.
                turn.exec_driver_sql(f"LOCK TABLE {self._t.fullname} IN SHARE UPDATE EXCLUSIVE MODE NOWAIT")
                self.store(self._service.problems())
                until = time.monotonic() + MOST_SECONDS
                # Read under the lock: where its connection is lost, another worker may post, and this one ends.
                while (row := turn.execute(self._due()).first()) is not None and time.monotonic() < until:
                    if not self._post(row):
                        break  # the next time another one is tried first
        except OperationalError as e:
            if not is_locked(e):
                raise

    def store(self, problems: "Sequence[Blocker]") -> None:
        """Store the problems of now, the worst first, and that all others are gone."""
        t, worst = self._t, {(p.instance, p.key or p.held_by): p for p in reversed(problems)}
        rows = [
            {"instance": i, "key": key, "severity": int(p.severity), "problem": p.model_dump(mode="json")}
            for (i, key), p in worst.items()
        ]
        with self._db.write() as c:
            now = self._db.now(c)
            c.execute(delete(t).where(t.c.gone_at.is_not(None), t.c.posted_at.is_(None)))
            if rows:
                row = upsert(t).values(first_seen_at=now, seen_at=now)
                seen = {name: row.excluded[name] for name in ("severity", "problem", "seen_at")} | {"gone_at": None}
                c.execute(row.on_conflict_do_update(index_elements=list(t.primary_key), set_=seen), rows)
            c.execute(update(t).where(t.c.seen_at != now, t.c.gone_at.is_(None)).values(gone_at=now))

    def failure(self) -> str:
        """Return why the webhook accepts no notice, or not each; empty: it does, or there was none."""
        failed = and_(self._t.c.error != "", self._t.c.tried_at > now_once(-FAILING_MS))
        with self._db.read() as c:
            newest = select(self._t.c.error).where(failed).order_by(self._t.c.tried_at.desc()).limit(1)
            return c.execute(newest).scalar() or ""

    def _due(self) -> Any:
        t = self._t
        is_new = and_(t.c.gone_at.is_(None), t.c.posted_at.is_(None))
        is_over = and_(t.c.gone_at.is_not(None), t.c.posted_at <= now_once(-FLAP_MS))
        order = t.c.tried_at.nulls_first(), t.c.severity, t.c.first_seen_at, t.c.instance, t.c.key
        return select(t).where(or_(is_new, is_over)).order_by(*order).limit(1)

    def _post(self, row: Row[Any]) -> bool:
        """Post one row, store the outcome, and return whether it was accepted."""
        t, is_gone = self._t, row.gone_at is not None
        try:
            error = asyncio.run(self._ask(self.body(row)))
        except ModuleNotFoundError as e:
            error = missing_extra(e)
        with self._db.write() as c:
            now = self._db.now(c)
            accepted = {} if error else {"posted_at": None if is_gone else now}
            outcome = update(t).where(t.c.instance == row.instance, t.c.key == row.key)
            c.execute(outcome.values(tried_at=now, error=error, **accepted))
        if error and not self._fails:
            log.warning("a notice was not accepted, and is repeated: %s", error)
        self._fails = bool(error)
        return not error

    def body(self, row: Row[Any]) -> bytes:
        """Return the JSON of a notice. In ``text`` the characters that Slack interprets are escaped."""
        problem, is_gone = Blocker(severity=Severity(row.severity), **row.problem), row.gone_at is not None
        deployment = self._service.settings.deployment
        text = f"{deployment} {'no longer needs' if is_gone else 'needs'} an operator: {problem}"[:MOST_TEXT]
        if problem.way_out and not is_gone:
            text += f". Way out: {problem.way_out[:MOST_TEXT]}"
        fields = problem.model_dump(mode="json", by_alias=True)
        notice = {
            "text": escape(printable(text), quote=False),
            "event": "gone" if is_gone else "appeared",
            "deployment": deployment,
            "severity": problem.severity.name.lower(),
            **{name: value[:MOST_TEXT] if isinstance(value, str) else value for name, value in fields.items()},
            "since_at": problem.since or row.first_seen_at,
        }
        return json.dumps(notice).encode()

    async def _ask(self, body: bytes) -> str:
        """Send one request; return why it was not accepted, without its URL, which is a secret. Empty: it was."""
        import httpx

        seconds, host = self._attempt_seconds, urlsplit(self._settings.url).hostname
        trust = self._service.settings.trust()
        try:
            trust.check(self._settings.url)
            url, headers = httpx.URL(self._settings.url), {"Content-Type": "application/json"}
            if secret := self._settings.secret:
                headers[SIGNATURE_HEADER] = sign_request(secret, url.raw_path.decode(), body, time.time())
            verify = trust.verify() if url.scheme == "https" else False
            async with (
                asyncio.timeout(seconds),
                httpx.AsyncClient(verify=verify, trust_env=False, timeout=None) as client,
                client.stream("POST", url, content=body, headers=headers) as answer,
            ):
                return "" if answer.is_success else f"{host} answers {answer.status_code}"
        except PlainHttp as e:
            return str(e)
        except TimeoutError:
            return f"{host} does not answer within {seconds:g} s"
        except (httpx.ConnectError, OSError) as e:
            return f"{host} does not answer: {e}"
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            return f"{host} does not answer: {type(e).__name__}"  # its text may show the request
