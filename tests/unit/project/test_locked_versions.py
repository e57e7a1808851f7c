"""An installation gets what `requirements.lock` pins by hash, and the packages of the top below ``sexton``."""

import re
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from build_hooks.notices import notices
from build_hooks.reroot import MOVED, PACKAGE, UnclearImport, rerooted
from tests.support.installation import all_needed

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


def test_lock_pins_the_tested_version_of_all_that_is_needed() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    tested = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    entries = lock()

    assert all(re.fullmatch(r"--hash=sha256:\w{64}", h) for _, hashes in entries.values() for h in hashes)
    assert all(hashes for _, hashes in entries.values())
    assert {name: version for name, (version, _) in entries.items()} == {name: tested[name] for name in entries}
    assert all_needed(EXTRAS) == set(entries)


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
