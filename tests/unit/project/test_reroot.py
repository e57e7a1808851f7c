"""The wheel has the packages of the repository's top below ``sexton``, and imports them from there."""

import ast
from pathlib import Path

import pytest

from build_hooks.reroot import MOVED, PACKAGE, UnclearImport, rerooted, write_tree

ROOT = Path(__file__).parents[3]


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


def test_no_text_names_a_module_that_the_wheel_moves() -> None:
    named = []
    for file in (file for name in (PACKAGE, *MOVED) for file in (ROOT / name).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and text.startswith(tuple(f"{name}." for name in MOVED)):
                named.append(f"{file.relative_to(ROOT)}:{node.lineno} {text}")

    assert named == []
