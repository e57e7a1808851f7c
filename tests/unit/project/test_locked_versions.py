"""An installation gets what `requirements.lock` pins by hash, and the packages of the top below ``sexton``."""

import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from build_hooks.notices import notices
from build_hooks.reroot import MOVED, PACKAGE, UnclearImport, rerooted

ROOT = Path(__file__).parents[3]
EXTRAS = {"api", "client", "console", "embedded", "kafka", "otel", "spark"}


def lock() -> dict[str, tuple[str, list[str]]]:
    """Return each package's version and hashes in requirements.lock."""
    entries = (ROOT / "requirements.lock").read_text().replace("\\\n", " ").splitlines()
    found = {}
    for entry in entries:
        requirement, *hashes = entry.split()
        name, _, version = requirement.partition("==")
        found[canonicalize_name(name)] = (version, hashes)
    return found


def needed(name: str, extras: set[str]) -> set[tuple[str, frozenset[str]]]:
    """Return what a package needs here, each with the extras that are asked of it."""
    wanted = [Requirement(text) for text in requires(name) or ()]
    return {
        (canonicalize_name(r.name), frozenset(r.extras))
        for r in wanted
        if r.marker is None or any(r.marker.evaluate({"extra": extra}) for extra in {"", *extras})
    }


def test_lock_pins_the_tested_version_of_all_that_is_needed() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    tested = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    entries = lock()
    seen, left = set[tuple[str, frozenset[str]]](), needed("sexton", EXTRAS)
    while left:
        seen.add(package := left.pop())
        left |= needed(package[0], set(package[1])) - seen

    assert all(re.fullmatch(r"--hash=sha256:\w{64}", h) for _, hashes in entries.values() for h in hashes)
    assert all(hashes for _, hashes in entries.values())
    assert {name: version for name, (version, _) in entries.items()} == {name: tested[name] for name in entries}
    assert {name for name, _ in seen} - {"sexton"} == set(entries)  # an extra may include another one


def test_notices_name_the_licence_of_each_package() -> None:
    assert (ROOT / "THIRD-PARTY-NOTICES.md").read_text() == notices(), "run: python -m build_hooks.notices"


def test_imports_are_rewritten_and_nothing_else() -> None:
    sources = {
        "from config.settings import load\n": "from sexton.config.settings import load\n",
        "from workflows import ALL, ids\n": "from sexton.workflows import ALL, ids\n",
        "import activities\n": "from sexton import activities\n",
        "def f():\n    from config import x\n": "def f():\n    from sexton.config import x\n",
        's = "é"; from config import (\n    x,\n)\n': 's = "é"; from sexton.config import (\n    x,\n)\n',
        "from sexton import config\nconfig = config.x\n": "from sexton import config\nconfig = config.x\n",
        "from .config import x\nimport configparser\n": "from .config import x\nimport configparser\n",
    }

    assert {source: rerooted(source) for source in sources} == sources


def test_an_unclear_import_is_refused() -> None:
    for source in ("import config.settings", "import os, config", "import config as c"):
        with pytest.raises(UnclearImport, match="write `from config import settings`"):
            rerooted(source)


def test_no_source_names_a_module_that_the_wheel_moves() -> None:
    top = re.compile(
        rf"""["'](?:{"|".join(MOVED)})\.\w|^ *(?:from|import) (?:worker|tests|build_hooks)\b""", re.MULTILINE
    )
    sources = [file for name in (PACKAGE, *MOVED) for file in (ROOT / name).rglob("*.py")]

    assert [(file, found) for file in sources if (found := top.findall(file.read_text()))] == []
