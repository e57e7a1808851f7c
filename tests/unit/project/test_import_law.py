"""Contracts of imports can fail, pure modules call no clock, no two classes share a name, one place builds stores."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = {
    path.relative_to(ROOT): path.read_text()
    for tree in ("sexton", "workflows", "activities", "config")
    for path in sorted((ROOT / tree).rglob("*.py"))
}
COMPOSED = re.compile(r"^class (\w+Store|\w+Service|Registry|ProvenVaults)\b", re.MULTILINE)
"""Classes that only one place builds."""
COMPOSING = ("sexton/runtime/engine.py", "sexton/runtime/stores.py", "sexton/interfaces/selftest.py")
"""That place; and selftests, which test an owner's database that may belong to no deployment."""
BUILT_INLINE = {
    "sexton/insight/status.py": "plans.PlanStore(db)",
    "sexton/interfaces/worker/control.py": "WalService(db, settings, controls)",
    "sexton/recycle/rounds/recycler.py": "CallStore(db)",
    "sexton/runtime/spark/locations.py": "ProvenVaults(lookup, deployment)",
}
"""File → a call that it must not have."""
COMPARED = re.compile(r"retention_starts_at\)? ?[<>]|[<>]=? ?[\w.]*retention_starts_at")
COMPARING = {"sexton/marks/policy.py", "sexton/marks/sql/rows.py", "sexton/recycle/pipeline/sql/claim.py"}
"""Where a mark's instant is compared: with a cutoff, in Python and in SQL; its extra retention alone, in the claim."""
CLOCKS = {"now", "utcnow", "today", "open"}
PURE = ("model.py", "policy.py", "port.py", "decide.py", "ledger.py")
PLANTED = {
    "sexton/storage/s3/vault.py": "from sexton.operators.registry.store import Registry",
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


def called(text: str) -> list[str]:
    """Return the last name of each function or class that a module calls."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [ast.unparse(call.func).split(".")[-1] for call in calls]


def test_pure_modules_call_no_clock() -> None:
    named = re.compile(rf"\b(?:{'|'.join(CLOCKS)})\(")
    suspects = {file: text for file, text in SOURCES.items() if file.name in PURE and named.search(text)}

    assert {file: names for file, text in suspects.items() if (names := CLOCKS & set(called(text)))} == {}


def test_one_place_decides_whether_a_mark_is_due() -> None:
    assert {str(file) for file, text in SOURCES.items() if COMPARED.search(text)} == COMPARING


def test_no_two_classes_share_a_name() -> None:
    files: dict[str, list[str]] = {}
    for file, text in SOURCES.items():
        for name in re.findall(r"(?m)^ *class (\w+)(?:\[.*\])?[:(]", text):
            files.setdefault(name, []).append(str(file))

    assert {name: found for name, found in files.items() if len(found) > 1} == {}


def package_of(file: Path) -> str:
    """Return the folder below ``sexton/`` that a file is in; of a file outside, its tree."""
    return file.parts[1] if file.parts[0] == "sexton" else file.parts[0]


def built_elsewhere(inline: dict[str, str]) -> list[str]:
    """Return the calls that build a store, a registry or a service outside of its package and the composition root.

    Args:
        inline: file → a call that is added to it.
    """
    packages = {m[1]: package_of(file) for file, text in SOURCES.items() for m in COMPOSED.finditer(text)}
    any_call = re.compile(rf"\b(?:{'|'.join(packages)})\(")
    calls = []
    for file, source in SOURCES.items():
        text = f"{source}\n{inline.get(str(file), '')}\n"
        if not file.as_posix().startswith(COMPOSING) and any_call.search(text):
            own = package_of(file)
            calls += [f"{file}: {name}" for name in called(text) if packages.get(name, own) != own]
    return calls


def test_only_the_composition_root_builds_stores() -> None:
    names = {file: call.partition("(")[0].split(".")[-1] for file, call in BUILT_INLINE.items()}

    assert built_elsewhere({}) == []
    assert built_elsewhere(BUILT_INLINE) == [f"{file}: {name}" for file, name in names.items()]


@pytest.mark.slow
def test_a_planted_import_breaks_its_contract(tmp_path: Path) -> None:
    for file, text in SOURCES.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(f"{text}\n\n{PLANTED.get(str(file), '')}\n")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    program = Path(sys.executable).with_name("lint-imports")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}

    ran = subprocess.run([program, "--no-cache"], cwd=tmp_path, env=environment, capture_output=True, text=True)

    printed = " ".join(ran.stdout.split())
    verdicts = {contract: re.findall(rf"{re.escape(contract)}.*?(BROKEN|KEPT)", printed) for contract in BROKEN}
    assert verdicts == {contract: ["BROKEN"] for contract in BROKEN}
