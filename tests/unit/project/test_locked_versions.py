"""An installation gets what `requirements.lock` pins by hash, and the packages of the top below ``sexton``."""

import ast
import json
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from build_hooks.notices import notices
from build_hooks.reroot import MOVED, PACKAGE, UnclearImport, rerooted, write_tree

ROOT = Path(__file__).parents[3]
EXTRAS = {"api", "client", "console", "embedded", "kafka", "otel", "spark"}


def constraints() -> dict[str, str]:
    """Return each package's version in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().split()
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


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


def test_every_package_has_hashes_and_nothing_else() -> None:
    entries = lock()

    assert all(hashes for _, hashes in entries.values())
    assert all(h.startswith("--hash=sha256:") and len(h) == 78 for _, hashes in entries.values() for h in hashes)


def test_lock_has_the_versions_that_are_tested() -> None:
    tested = constraints()

    assert {name: version for name, (version, _) in lock().items()} == {name: tested[name] for name in lock()}


def test_lock_has_all_that_an_installation_needs() -> None:
    seen: set[tuple[str, frozenset[str]]] = set()
    left = needed("sexton", EXTRAS)
    while left:
        package = left.pop()
        seen.add(package)
        left |= needed(package[0], set(package[1])) - seen

    assert {name for name, _ in seen} - {"sexton"} == set(lock())  # an extra may include another one


def test_notices_name_the_licence_of_each_package() -> None:
    assert (ROOT / "THIRD-PARTY-NOTICES.md").read_text() == notices(), "run: python -m build_hooks.notices"


@pytest.mark.slow
def test_sbom_lists_what_the_lock_pins(tmp_path: Path) -> None:
    out = tmp_path / "sbom.json"
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "requirements.lock"]
    subprocess.run([*command, "--pyproject", "pyproject.toml", "-o", str(out)], cwd=ROOT, check=True, timeout=100)
    bom = json.loads(out.read_text())

    assert bom["bomFormat"] == "CycloneDX"
    assert bom["metadata"]["component"]["name"] == "sexton"
    assert {(canonicalize_name(c["name"]), c["version"]) for c in bom["components"]} == {
        (name, version) for name, (version, _) in lock().items()
    }


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


@pytest.mark.slow
def test_written_tree_imports_nothing_from_the_top(tmp_path: Path) -> None:
    write_tree(ROOT, tmp_path)
    files = list(tmp_path.rglob("*.py"))
    imported = set()
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text()))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.add(str(node.module))
    repository = [file for name in (PACKAGE, *MOVED) for file in (ROOT / name).rglob("*.py")]

    assert len(files) == len(repository)
    assert {name for name in imported if name.split(".")[0] in (*MOVED, "worker", "tests", "build_hooks")} == set()


@pytest.mark.slow
def test_no_text_names_a_module_that_the_wheel_moves() -> None:
    named = []
    for file in (file for name in (PACKAGE, *MOVED) for file in (ROOT / name).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and text.startswith(tuple(f"{name}." for name in MOVED)):
                named.append(f"{file.relative_to(ROOT)}:{node.lineno} {text}")

    assert named == []
