"""The settings in force: those of environment, file and defaults, and over them those that the database changes.

A row of the database is judged by the same bounds as a value of a file, each time it is read. One that is unsafe is
ignored and reported: no program that writes to the database can cause an earlier deletion than an operator could.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from config.explain import FOR_ALL, PER_INSTANCE, SettingRow, is_mutable, is_per_instance, kind_of, rows, sentence
from config.sections import KindSection
from config.settings import EngineSettings, Settings
from config.sources import Layer, SettingsError, layers
from sexton.kernel.errors import WrongUsage
from sexton.kernel.live import Live
from sexton.operators.settings import StoredSetting

MAX_AGE_SECONDS = 5.0
"""How long a process uses what it has read."""
log = logging.getLogger(__name__)


class IgnoredRow(NamedTuple):
    """A row of the database that is not in force, and why."""

    row: StoredSetting
    why: str


class SettingRefused(SettingsError, WrongUsage):
    """The database can have no such setting, or not with this value."""


def with_value(settings: Settings, key: str, value: str, instance: str = "", source: str = "as given") -> Settings:
    """Return settings with another value under a key that the database may change.

    Raises:
        SettingsError: the key may not be changed there, or the value is not within its bounds.
    """
    check_mutable(settings, key, source)
    if instance and not is_per_instance(key):
        raise SettingRefused(f"{key} ({source}) is the same for all instances; set it without an instance")
    layer, path = Layer(), key.split(".")
    layer.put(path, value, source)
    try:
        if kind := kind_of(key):
            known = settings.kinds.get(kind)
            after = known.after if known is not None else []
            own_kind = KindSection.model_validate({"retention_seconds": value, "after": after})
            changed: dict[str, Any] = {"kinds": Settings.check_names_of_kinds({**settings.kinds, kind: own_kind})}
        else:
            section: BaseModel = getattr(settings, path[0])
            changed = {path[0]: type(section).model_validate(section.model_dump() | {path[1]: value})}
    except ValidationError as e:
        prefix = tuple(path[:-1])
        problems = [{**problem, "loc": (*prefix, *problem["loc"])} for problem in e.errors()]
        raise SettingRefused(" ".join(sentence(p, [layer], ()) for p in problems)) from None  # type: ignore[arg-type]
    except ValueError as e:
        raise SettingRefused(f"{key} ({source}) is not allowed: {e}") from None
    return settings.model_copy(update=changed)


def check_mutable(settings: Settings, key: str, source: str = "as given") -> None:
    """Raise ``SettingsError`` if the database may not change a key, or there is no such setting."""
    if is_mutable(key):
        return
    if key in {row.key for row in rows(settings, [])}:
        raise SettingRefused(
            f"{key} ({source}) cannot be changed while workers run; set it in the environment or the settings file, "
            "and restart. Those that can are marked in: sexton settings show"
        )
    similar = get_close_matches(key, (*PER_INSTANCE, *FOR_ALL), 1)
    hint = f"did you mean {similar[0]}?" if similar else "see: sexton settings show"
    raise SettingRefused(f"{key} ({source}) is not a setting; {hint}")


def merge(settings: Settings, stored: Sequence[StoredSetting], instance: str) -> tuple[Settings, list[IgnoredRow]]:
    """Return the settings of an instance ('': without any of one), and the rows that are ignored.

    A row of the instance takes precedence over one of all instances, and that one over environment, file and default.
    """
    ignored: list[IgnoredRow] = []
    of_all = [row for row in stored if not row.instance]
    own = [row for row in stored if instance and row.instance == instance]
    for row in (*of_all, *own):
        try:
            settings = with_value(settings, row.key, row.value, row.instance, source(row))
        except SettingsError as e:
            ignored.append(IgnoredRow(row, str(e)))
    return settings, ignored


def source(row: StoredSetting, now: int | None = None) -> str:
    """Return the source of a value that a row sets, for people; ``now``: ms since 1970."""
    scope = f" for {row.instance}" if row.instance else ""
    age = reason = ""
    if now is not None:
        seconds = max(0, (now - row.set_at) // 1000)
        spans = ((86_400, "d"), (3_600, "h"), (60, "min"))
        size, unit = next((span for span in spans if seconds >= span[0]), (1, "s"))
        age, reason = f" {seconds // size} {unit} ago", f": {row.reason}" if row.reason else ""
    return f"database{scope}, set by {row.set_by or 'an unknown user'}{age}{reason}"


def explain_live(live: "LiveSettings", instance: str = "", now: int | None = None) -> list[SettingRow]:
    """Return every setting in force with its source; for one of the database, also the value that it replaces.

    ``now``: ms since 1970, to print how long ago a value was set.
    """
    database, stored = Layer(), live.rows()
    ignored = {entry.row for entry in live.ignored()}
    for scope in dict.fromkeys(("", instance)):
        for row in (row for row in stored if row.instance == scope and row not in ignored):
            database.put(row.key.split("."), row.value, source(row, now))
    before = {row.key: row for row in rows(live.own)}
    shown = rows(live.current(instance), [database, *layers()])
    replaced = {key: f"{row.value} ({row.source})" for key, row in before.items()}
    changed = database.sources
    return [
        r.model_copy(update={"overrides": replaced.get(r.key, "no value") if r.key in changed else ""}) for r in shown
    ]


class LiveSettings:
    """The settings in force, read again when they are older than ``max_age_seconds``.

    If the database does not answer, its error is raised: the values of the file could delete earlier.
    """

    def __init__(
        self,
        settings: Settings,
        stored: Callable[[], Sequence[StoredSetting]],
        max_age_seconds: float = MAX_AGE_SECONDS,
    ) -> None:
        self.own = settings
        """Those of this process: of environment, file and defaults."""
        self.current: Live[Settings] = Live(self._of_instance)
        self._read_rows, self._max_age = stored, max_age_seconds
        self._lock = threading.Lock()
        self._rows: Sequence[StoredSetting] = ()
        self._read_at: float | None = None
        self._merged: dict[str, Settings] = {}
        self._ignored: set[IgnoredRow] = set()

    def rows(self) -> Sequence[StoredSetting]:
        """Return the rows, at most so many seconds old."""
        with self._lock:
            self._refresh()
            return self._rows

    def read_again(self) -> None:
        """Read the rows again at the next use, because a row was changed just now, or is about to be."""
        with self._lock:
            self._read_at = None

    def changed(self, key: str, value: str | None, instance: str = "") -> "Live[Settings]":
        """Return the settings as they would be with another row; ``value``: None, without it.

        Raises:
            SettingsError: the key may not be changed, or the value is not within its bounds.
        """
        stored = [row for row in self.rows() if (row.key, row.instance) != (key, instance)]
        if value is not None:
            with_value(self.own, key, value, instance)
            stored.append(StoredSetting(instance=instance, key=key, value=value, set_at=0))
        return Live(lambda name: merge(self.own, stored, name)[0])

    def ignored(self) -> list[IgnoredRow]:
        """Return the rows that are not in force, and why."""
        self.rows()
        return sorted(self._ignored, key=lambda entry: (entry.row.instance, entry.row.key))

    def engine_settings(self) -> EngineSettings:
        """Return the settings that the engine is built with, and those that it reads again while it runs."""
        return replace(self.own.engine_settings(), live=self.current.map(Settings.engine_settings))

    def shortest_interval(self) -> int:
        """Return the shortest interval in force, in seconds: of all instances, and of all work that the tick starts."""
        instances = {row.instance for row in self.rows()} | {""}
        return min(self.current(name).shortest_interval() for name in instances)

    def _of_instance(self, instance: str) -> Settings:
        with self._lock:
            self._refresh()
            name = instance if any(row.instance == instance for row in self._rows) else ""
            if name not in self._merged:
                self._merged[name], _ = merge(self.own, self._rows, name)
            return self._merged[name]

    def _refresh(self) -> None:
        """Read the rows again if they are too old; the lock is held."""
        now = time.monotonic()
        if self._read_at is not None and now - self._read_at < self._max_age:
            return
        stored = tuple(self._read_rows())
        if stored != self._rows:
            self._rows, self._merged = stored, {}
            names = {row.instance for row in stored} | {""}
            ignored = {entry for name in names for entry in merge(self.own, stored, name)[1]}
            for entry in ignored - self._ignored:  # once
                log.warning(
                    "a setting in the database is ignored: %s; see: sexton settings show", entry.why.rstrip(".")
                )
            self._ignored = ignored
        self._read_at = now
