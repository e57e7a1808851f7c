"""Build the wheel: put the packages at the top of the repository below ``sexton/``, and rewrite their imports.

So an installation adds only ``sexton`` to site-packages, and an application may have a ``config`` of its own.
"""

import ast
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "sexton"
MOVED = ("activities", "config", "workflows")


class UnclearImport(Exception):
    """An import whose names would mean something else below ``sexton``."""


class RerootHook(BuildHookInterface[Any]):
    """Have the wheel contain the written tree, and nothing else; an editable installation uses the repository."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the tree, and add it to the wheel."""
        if version == "editable":
            return
        self._scratch = tempfile.TemporaryDirectory()
        write_tree(Path(self.root), Path(self._scratch.name))
        build_data["force_include"][self._scratch.name] = PACKAGE

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact_path: str) -> None:
        """Remove the tree."""
        if version != "editable":
            self._scratch.cleanup()


def write_tree(repository: Path, package: Path) -> None:
    """Write the packages of the repository as the one package of an installation."""
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(repository / PACKAGE, package, dirs_exist_ok=True, ignore=no_caches)
    for name in MOVED:
        shutil.copytree(repository / name, package / name, ignore=no_caches)
    (package / "docs").mkdir()
    for page in (repository / "docs").glob("*.md"):  # messages name them
        shutil.copy(page, package / "docs")
    for file in package.rglob("*.py"):
        try:
            file.write_text(rerooted(file.read_text()))
        except UnclearImport as e:
            raise UnclearImport(f"{file.relative_to(package)} line {e}") from None


def rerooted(source: str) -> str:
    """Return the source of a module with imports of the moved packages from below ``sexton``; lines stay the same.

    Raises:
        UnclearImport: ``import config.settings``, which binds ``config``; write ``from config import settings``.
    """
    lines = [line.encode() for line in source.splitlines(keepends=True)]  # ast counts bytes
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level and is_moved(node.module or ""):
            replace(lines, node.lineno, node.col_offset, b"from ", f"from {PACKAGE}.".encode())
        elif isinstance(node, ast.Import) and any(is_moved(alias.name) for alias in node.names):
            if len(node.names) > 1 or node.names[0].asname or node.names[0].name not in MOVED:
                raise UnclearImport(f"{node.lineno}: write `from config import settings` or `import config` alone")
            replace(lines, node.lineno, node.col_offset, b"import ", f"from {PACKAGE} import ".encode())
    return b"".join(lines).decode()


def is_moved(module: str) -> bool:
    """Return whether a module is in a package that is moved."""
    return module.split(".")[0] in MOVED


def replace(lines: list[bytes], number: int, start: int, old: bytes, new: bytes) -> None:
    """Replace what begins at a place of a line."""
    line = lines[number - 1]
    assert line.startswith(old, start)
    lines[number - 1] = line[:start] + new + line[start + len(old) :]
