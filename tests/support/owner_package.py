"""The owners of docs/owner-plugin.md, built from that page and installed as a package of their own."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.eventually import PATIENCE_SECONDS
from tests.support.installation import ROOT

PAGE = ROOT / "docs" / "owner-plugin.md"


def install(directory: Path) -> Path:
    """Build the page's package, install it, and return the folder to put on the Python path."""
    source, wheels, site = directory / "source", directory / "wheels", directory / "site"
    source.mkdir()
    page = PAGE.read_text()
    for module in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        (source / module.removeprefix('"""').partition(":")[0]).write_text(module)
    [project] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    both = project.replace('"folder_lake.py"', '"folder_lake.py", "shared_lake.py"')
    declared = 'folder = "folder_lake:PLUGIN"'
    (source / "pyproject.toml").write_text(both.replace(declared, f'{declared}\nshared = "shared_lake:PLUGIN"'))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    [wheel] = wheels.glob("*.whl")
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    return site
