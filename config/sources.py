"""Where settings come from: one `Layer` per place, strongest first, each key remembering where it was written.

The order is environment, `.sexton/env` (written by `sexton up`), one TOML file, then the model's defaults.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sexton.kernel.errors import SextonError

PREFIX = "SEXTON_"
CONTROL_NAMES = frozenset({"SEXTON_HOME", "SEXTON_CONFIG", "SEXTON_API_URL", "SEXTON_TOKEN"}) | {
    "SEXTON_NODE_TOKEN",
    "SEXTON_NODE_TOKEN_FILE",
}
"""Names that say where to look, or that ``sexton.client`` and backends read; they are no settings themselves."""

OWN_WORLD = frozenset({"SEXTON_DATABASE_URL", "SEXTON_DEPLOYMENT"})
"""Where the environment sets one of these, `.sexton/env` is not read."""

PACKAGED = Path(__file__).with_name("sexton.toml")

_PASSWORD = re.compile(r"(://[^:/@\s]*:).*@")
_QUERY_SECRET = re.compile(r"([?&](?:password|sslpassword|token)=)[^&\s]*", re.IGNORECASE)


class SettingsError(SextonError):
    """A setting is unknown, unsafe or missing; the sentence names key, value, bound and what to do."""


@dataclass
class Layer:
    """The settings of one place as a nested dict, and for each dotted key the name of the place."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def put(self, path: list[str], value: Any, source: str) -> None:
        """Store one value under its dotted path; a path through a plain value is refused."""
        place = self.values
        for name in path[:-1]:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise SettingsError(
                    f"{source}: {name!r} is given both a value and keys of its own; remove one of them."
                )
        place[path[-1]] = value
        self.sources[".".join(path)] = source


def home() -> Path:
    """The directory of the embedded stack: SEXTON_HOME, else `.sexton` in the current directory."""
    return Path(os.environ.get("SEXTON_HOME") or ".sexton")


def masked(text: str) -> str:
    """The text with passwords of URLs replaced; everything up to the last `@` counts as password."""
    return _QUERY_SECRET.sub(r"\1***", _PASSWORD.sub(r"\1***@", text))


def home_env(directory: Path | None = None) -> dict[str, str]:
    """The KEY=VALUE lines of a home's `env` file, ours by default; empty where there is none.

    They hold together: where the environment names a database or a deployment of its own none of ours applies, or a
    real database could get the demo's id, whose clock may be moved, or the demo's store.
    """
    if directory is None and not OWN_WORLD.isdisjoint(os.environ):
        return {}
    file = (directory or home()) / "env"
    if not file.is_file():
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.startswith((PREFIX, "AWS_")):
            raise SettingsError(f"{file} line {number} is no SEXTON_…= or AWS_…= line; remove it.")
        found[name.strip()] = value.strip()
    return found


def load_home_env() -> None:
    """Take the S3 keys of `.sexton/env` into this process, so that boto3 reaches the embedded store.

    Keys belong to an endpoint: where the environment names its own endpoint its own keys stay, and where the embedded
    endpoint is used its keys replace a developer's (a half-and-half pair would only be refused).
    """
    if "SEXTON_S3__ENDPOINT_URL" in os.environ:
        return
    keys = {name: value for name, value in home_env().items() if name.startswith("AWS_")}
    if "AWS_ACCESS_KEY_ID" in keys:
        os.environ.pop("AWS_SESSION_TOKEN", None)
    os.environ.update(keys)


def layers() -> list[Layer]:
    """Every place that sets something, strongest first."""
    return [_variables(os.environ, "environment {}"), _variables(home_env(), str(home() / "env")), _toml()]


def _variables(names: Mapping[str, str], source: str) -> Layer:
    layer = Layer()
    for name in sorted(names):
        if name.startswith(PREFIX) and name not in CONTROL_NAMES:
            layer.put(name.removeprefix(PREFIX).lower().split("__"), names[name], source.format(name))
    return layer


def _toml() -> Layer:
    named = os.environ.get("SEXTON_CONFIG")
    local = Path("config") / "sexton.toml"
    file, label = (Path(named), named) if named else (local, str(local)) if local.is_file() else (PACKAGED, "packaged")
    try:
        parsed = tomllib.loads(file.read_text())
    except OSError as e:
        raise SettingsError(f"cannot read {file} ({e.strerror}); correct SEXTON_CONFIG or unset it.") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise SettingsError(f"{file} is not TOML: {e}; correct that line.") from e
    layer = Layer()
    for path, value in _leaves(parsed, []):
        layer.put(path, value, f"{label} sexton.toml" if label == "packaged" else label)
    return layer


def _leaves(node: dict[str, Any], path: list[str]) -> Iterator[tuple[list[str], Any]]:
    for name, value in node.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, [*path, name])
        else:
            yield [*path, name], value
