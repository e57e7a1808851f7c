"""Every knob of Sexton: strict, with unit, default and floor. What is unknown or unsafe stops the process.

`load()` reads environment over `.sexton/env` over one TOML file over these defaults; `explain()` says which one won.
"""

import difflib
import re
from typing import Annotated, Any, NamedTuple

from annotated_types import Ge, Le
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from config.sources import Layer, SettingsError, home, layers, load_home_env, masked
from sexton.control.model import Control, Kind
from sexton.control.policy import parse_window
from sexton.errors import BadInput
from sexton.recycle.model import Policy
from sexton.recycle.policy import policy

__all__ = [
    "ENGINE_KINDS",
    "Explained",
    "Settings",
    "SettingsError",
    "explain",
    "home",
    "load",
    "load_home_env",
    "masked",
]

ENGINE_KINDS = ("prepared", "compacted", "dropped", "orphan")
RETENTION_CEILING = 3650 * 86_400
"""Ten years, in seconds: what is larger is a typing error."""

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def _database(url: str) -> str:
    for plain in ("postgresql://", "postgres://"):
        if url.startswith(plain):
            url = "postgresql+psycopg://" + url.removeprefix(plain)
    if not re.match(r"sqlite:///.|postgresql\+psycopg://.", url):
        raise ValueError("use sqlite:///PATH or postgresql://USER@HOST/NAME")
    return url


def _deployment(text: str) -> str:
    if text and not re.fullmatch(r"[a-z0-9][a-z0-9-]{2,62}", text):
        raise ValueError("use 3 to 63 of a-z, 0-9 and '-', the first no '-'; `sexton init` prints a new one")
    return text


def _web(url: str) -> str:
    if url and not re.fullmatch(r"https?://[^/\s]+\S*", url):
        raise ValueError("use http://HOST:PORT or https://HOST, or leave it empty")
    return url


def _parts(separator: str) -> BeforeValidator:
    """Let a variable of the environment carry a list."""
    return BeforeValidator(lambda v: [p.strip() for p in v.split(separator) if p.strip()] if isinstance(v, str) else v)


def _windows(texts: list[str]) -> list[str]:
    for text in texts:
        try:
            parse_window(text)
        except BadInput as e:
            raise ValueError(str(e)) from e
    return texts


Web = Annotated[str, AfterValidator(_web)]
Names = Annotated[list[str], _parts(",")]
Windows = Annotated[list[str], _parts(";"), AfterValidator(_windows)]


def _seconds(floor: int) -> Any:
    return Field(ge=floor, le=RETENTION_CEILING, json_schema_extra={"unit": "seconds"})


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Temporal(_Section):
    """The Temporal service that runs the workflows."""

    address: Annotated[str, Field(pattern=r"^[^\s/]+:[0-9]{1,5}$", json_schema_extra={"unit": "host:port"})] = (
        "127.0.0.1:7233"
    )
    namespace: Annotated[str, Field(min_length=1)] = "default"
    ui_url: Web = ""


class S3(_Section):
    """Where vaults of kind s3 live unless their own row says otherwise. Keys come from the usual AWS chain."""

    endpoint_url: Web = ""


class Recycle(_Section):
    """When rounds run, how long garbage stays, and how hard a round works."""

    recycle_interval_seconds: Annotated[int, Field(ge=10, le=2_678_400, json_schema_extra={"unit": "seconds"})] = 3_600
    recycle_concurrency: Annotated[int, Field(ge=1, le=1_000, json_schema_extra={"unit": "rounds"})] = 16
    recycle_whitelist: Names = []
    recycle_blacklist: Names = []
    recycler_storage_vault_white_list: Names = []
    recycle_windows: Windows = []
    retention_seconds: Annotated[int, _seconds(600)] = 259_200
    compacted_rowset_retention_seconds: Annotated[int, _seconds(600)] = 1_800
    dropped_partition_retention_seconds: Annotated[int, _seconds(3_600)] = 10_800
    upload_grace_seconds: Annotated[int, _seconds(600)] = 3_600
    instance_recycler_worker_pool_size: Annotated[int, Field(ge=1, le=64, json_schema_extra={"unit": "requests"})] = 8


class Metrics(_Section):
    """Where a worker answers `GET /metrics`."""

    listen: Annotated[str, Field(pattern=r"^$|^[^\s/]+:[0-9]{1,5}$", json_schema_extra={"unit": "host:port"})] = ""
    enable_recycler_stats_metrics: bool = True


class OwnKind(_Section):
    """A kind that an owner brings, beside the engine's four; ``after`` names kinds that must go before it."""

    retention_seconds: Annotated[int, _seconds(600)]
    after: Names = []


class Settings(BaseSettings):
    """What one process runs with. ``Settings()`` reads every source; keyword arguments win over all of them."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    deployment: Annotated[str, AfterValidator(_deployment)] = ""
    database_url: Annotated[str, AfterValidator(_database)] = "sqlite:///.sexton/sexton.db"
    temporal: Temporal = Temporal()
    s3: S3 = S3()
    recycle: Recycle = Recycle()
    metrics: Metrics = Metrics()
    kinds: dict[str, OwnKind] = Field(default_factory=dict)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *_: PydanticBaseSettingsSource,
        **__: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Our own layers instead of the library's: those ignore an unknown SEXTON_ variable, ours refuse it."""
        return (init_settings, *(InitSettingsSource(settings_cls, layer.values) for layer in layers()))

    @model_validator(mode="after")
    def _order(self) -> "Settings":
        known = {*ENGINE_KINDS, *self.kinds}
        for name, kind in self.kinds.items():
            if unknown := set(kind.after) - known:
                raise ValueError(f"kinds.{name}.after names {', '.join(sorted(unknown))}, which is no kind")
        try:
            self.policy()
        except BadInput as e:
            raise ValueError(str(e)) from e
        return self

    @field_validator("kinds")
    @classmethod
    def _names(cls, kinds: dict[str, OwnKind]) -> dict[str, OwnKind]:
        for name in kinds:
            if name in ENGINE_KINDS:
                raise ValueError(f"{name!r} is an engine kind; set its retention under [recycle]")
            if not _KIND.fullmatch(name):
                raise ValueError(f"{name!r} is no kind name; use a-z, then up to 31 of a-z, 0-9, '_' and '-'")
        return kinds

    def require_deployment(self) -> str:
        """The deployment id, which every vault's marker must carry; ``SettingsError`` where none is set."""
        if not self.deployment:
            raise SettingsError(
                f"no deployment id: SEXTON_DEPLOYMENT is not set, and {home().absolute() / 'env'} (of sexton up) does "
                "not give one; go to the right directory, set it, or begin anew with: sexton init"
            )
        return self.deployment

    def retentions(self) -> dict[str, int]:
        """Seconds from the mark to its being due, for each engine kind and each kind of the owners."""
        r = self.recycle
        engine = (
            r.retention_seconds,
            r.compacted_rowset_retention_seconds,
            r.dropped_partition_retention_seconds,
            r.retention_seconds,
        )
        own = {name: kind.retention_seconds for name, kind in self.kinds.items()}
        return dict(zip(ENGINE_KINDS, engine, strict=True)) | own

    def policy(self) -> Policy:
        """What is due when; a plan carries it, so that it is judged by the settings of its day."""
        after = {name: kind.after for name, kind in self.kinds.items()}
        return policy(self.retentions(), self.recycle.upload_grace_seconds, after)

    def controls(self) -> tuple[Control, ...]:
        """The lists and windows that the settings add to those in the database."""
        r = self.recycle
        named = {
            Kind.WHITELIST: r.recycle_whitelist,
            Kind.BLACKLIST: r.recycle_blacklist,
            Kind.VAULT_WHITELIST: r.recycler_storage_vault_white_list,
            Kind.WINDOW: r.recycle_windows,
        }
        return tuple(Control(kind=k, name=n, set_by="the settings") for k, names in named.items() for n in names)


class Explained(NamedTuple):
    """One setting as `sexton settings show` prints it; passwords are masked."""

    key: str
    value: str
    source: str
    unit: str
    bound: str


def load() -> Settings:
    """Read every source. Raises ``SettingsError`` with one sentence per problem."""
    try:
        return Settings()
    except ValidationError as e:
        raise SettingsError(" ".join(_sentence(problem) for problem in e.errors())) from None


def explain() -> list[Explained]:
    """Every setting with its value, the place it came from, its unit, and its bounds and default."""
    settings = load()
    found = layers()
    rows: list[Explained] = []

    def walk(model: BaseModel, path: str) -> None:
        for name, field in type(model).model_fields.items():
            key, value = f"{path}{name}", getattr(model, name)
            if isinstance(value, BaseModel):
                walk(value, f"{key}.")
            elif isinstance(value, dict):
                for kind, own in value.items():
                    walk(own, f"{key}.{kind}.")
            else:
                unit = field.json_schema_extra.get("unit", "") if isinstance(field.json_schema_extra, dict) else ""
                rows.append(Explained(key, masked(str(value)), _source(key, found), str(unit), _bound(field)))

    walk(settings, "")
    return rows


def _source(key: str, found: list[Layer]) -> str:
    """The strongest place that sets the key, or for a section any key in it."""
    for layer in found:
        for name, source in layer.sources.items():
            if name == key or name.startswith(f"{key}."):
                return source
    return "default"


def _bound(field: FieldInfo) -> str:
    low = [f"floor {m.ge}" for m in field.metadata if isinstance(m, Ge)]
    high = [f"ceiling {m.le}" for m in field.metadata if isinstance(m, Le)]
    default = [] if field.is_required() else [f"default {field.default}" if field.default != "" else "default empty"]
    return ", ".join(low + high + default)


def _sentence(problem: ErrorDetails) -> str:
    """One problem of pydantic as a sentence; the value of an unknown key is never shown, it may be a secret."""
    path = [str(part) for part in problem["loc"]]
    key = ".".join(path)
    where = _source(key, layers())
    if problem["type"] == "extra_forbidden":
        known = {name for model in (Settings, Temporal, S3, Recycle, Metrics, OwnKind) for name in model.model_fields}
        near = difflib.get_close_matches(path[-1], known, 1)
        hint = f"did you mean {near[0]!r}?" if near else "remove it; `sexton settings show` lists the keys."
        return f"{key} ({where}) is no setting; {hint}"
    if problem["type"] == "missing":
        return f"{key} is missing; set it in the same place."
    bounds = problem.get("ctx", {})
    if problem["type"] == "greater_than_equal":
        what = f"is below its floor of {bounds['ge']}; set {bounds['ge']} or more."
    elif problem["type"] == "less_than_equal":
        what = f"is above its ceiling of {bounds['le']}; set {bounds['le']} or less."
    else:
        what = f"is refused: {problem['msg'].removeprefix('Value error, ')}."
    shown = "" if isinstance(problem["input"], dict) else f" = {masked(str(problem['input']))}"
    return f"{key}{shown} ({where}) {what}"
