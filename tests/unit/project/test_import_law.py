"""The import contracts of pyproject.toml can fail, and files, folders and classes are named by the rules."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TREES = ("sexton", "workflows", "activities", "config")
PLANTED = {
    "sexton/storage/s3/vault.py": "from sexton.operators.registry.store import Registry",
    "sexton/recycle/pipeline/decide.py": "from sexton.protection.policy import expiry",
    "sexton/recycle/audit/model.py": "from sexton.recycle.rounds.ledger import Ledger",
    "sexton/marks/policy.py": "import time",
    "sexton/wal/policy.py": "import sqlalchemy",
    "sexton/operators/controls/policy.py": "import boto3",
    "activities/recycle.py": "from sexton.recycle.rounds.sql.store import RoundStore",
}
"""File → an import that it must not have; each breaks another contract."""
BROKEN = (
    "Imports point down one layer stack",
    "Inside recycle",
    "SQLAlchemy lives",
    "boto3 is imported only",
    "Workflows and activities load no adapter",
    "Pure modules",
)
COMPOSED = re.compile(r"^class (\w+Store|\w+Service|Registry|ProvenVaults)\b", re.MULTILINE)
"""Classes that only one place builds."""
COMPOSING = (
    "sexton/runtime/engine.py",
    "sexton/runtime/stores.py",
    "sexton/runtime/stores.py",
    "sexton/interfaces/selftest/",
)
"""That place; and selftests, which test an owner's database that may belong to no deployment."""
BUILT_INLINE = {
    "sexton/insight/status.py": "plans.PlanStore(db)",
    "sexton/interfaces/worker/control.py": "WalService(db, settings, controls)",
    "sexton/recycle/rounds/recycler.py": "CallStore(db)",
    "sexton/runtime/spark/locations.py": "ProvenVaults(lookup, deployment)",
}
"""File → a call that it must not have."""
CLOCKS = {"now", "utcnow", "today", "open"}
PURE = ("model.py", "policy.py", "port.py", "decide.py", "build.py", "limits.py", "ledger.py")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What lint-imports prints about a copy of the tree with the planted imports."""
    copy = tmp_path_factory.mktemp("tree")
    for tree in TREES:
        shutil.copytree(ROOT / tree, copy / tree, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for file, line in PLANTED.items():
        path = copy / file
        path.write_text(f"{path.read_text()}\n\n{line}\n")
    program = Path(sys.executable).with_name("lint-imports")
    environment = os.environ | {"PYTHONPATH": str(copy)}
    ran = subprocess.run([program, "--no-cache"], cwd=copy, env=environment, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return " ".join(ran.stdout.split())


def test_a_planted_import_breaks_its_contract(planted: str) -> None:
    verdicts = {contract: re.findall(rf"{re.escape(contract)}.*?(BROKEN|KEPT)", planted) for contract in BROKEN}

    assert verdicts == {contract: ["BROKEN"] for contract in BROKEN}


@pytest.mark.slow
def test_pure_modules_call_no_clock() -> None:
    calls = []
    for path in sorted(p for tree in TREES for p in (ROOT / tree).rglob("*.py") if p.name in PURE):
        named_calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        clocks = [n for n in named_calls if ast.unparse(n.func).split(".")[-1] in CLOCKS]
        calls += [f"{path.relative_to(ROOT)}:{n.lineno} {ast.unparse(n.func)}" for n in clocks]

    assert calls == []


def test_every_folder_with_code_has_a_docstring() -> None:
    silent = []
    for folder in sorted({p.parent for tree in TREES for p in (ROOT / tree).rglob("*.py")}):
        if folder.name == "versions":
            continue
        init = folder / "__init__.py"
        if not init.is_file() or not ast.get_docstring(ast.parse(init.read_text())):
            silent.append(str(folder.relative_to(ROOT)))

    assert silent == []


def test_no_file_has_a_meaningless_name() -> None:
    nameless = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
    trees = (*TREES, "tests", "examples")

    assert [str(p) for tree in trees for p in (ROOT / tree).rglob("*") if p.stem in nameless] == []


def test_no_two_classes_share_a_name() -> None:
    names: dict[str, list[str]] = {}
    for path in (p for tree in TREES for p in (ROOT / tree).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                names.setdefault(node.name, []).append(str(path.relative_to(ROOT)))

    assert {name: files for name, files in names.items() if len(files) > 1} == {}


def package_of(file: Path) -> str:
    """Return the folder below ``sexton/`` that a file is in; of a file outside, its tree."""
    return file.parts[1] if file.parts[0] == "sexton" else file.parts[0]


def composed_classes(root: Path) -> dict[str, str]:
    """Return each class of ``sexton/`` whose name says that it is composed → the package that it belongs to."""
    files = [(path, path.read_text()) for path in (root / "sexton").rglob("*.py")]
    return {m[1]: package_of(path.relative_to(root)) for path, text in files for m in COMPOSED.finditer(text)}


def class_of(call: str) -> str:
    """Return the last name before the arguments of a call."""
    return call.partition("(")[0].split(".")[-1]


def built_elsewhere(root: Path) -> list[str]:
    """Return the calls that build a store, a registry or a service outside of its package and the composition root."""
    packages = composed_classes(root)
    any_call = re.compile(rf"\b(?:{'|'.join(packages)})\(")
    calls = []
    for path in sorted(p for tree in TREES for p in (root / tree).rglob("*.py")):
        file, text = path.relative_to(root), path.read_text()
        if file.as_posix().startswith(COMPOSING) or not any_call.search(text):
            continue
        names = [class_of(ast.unparse(node.func)) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        calls += [f"{file}: {name}" for name in names if packages.get(name, package_of(file)) != package_of(file)]
    return calls


def test_only_the_composition_root_builds_stores() -> None:
    assert built_elsewhere(ROOT) == []


def test_stores_built_inline_are_found(tmp_path: Path) -> None:
    for tree in TREES:
        shutil.copytree(ROOT / tree, tmp_path / tree, ignore=shutil.ignore_patterns("__pycache__"))
    for file, call in BUILT_INLINE.items():
        path = tmp_path / file
        path.write_text(f"{path.read_text()}\n\nINLINE = {call}\n")

    assert built_elsewhere(tmp_path) == [f"{file}: {class_of(call)}" for file, call in BUILT_INLINE.items()]
