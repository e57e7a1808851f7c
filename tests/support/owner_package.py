"""The owner of docs/owner-plugin.md, built from that page and installed as a package of its own."""

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
    code = dict(re.findall(r"```(python|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    (source / "folder_lake.py").write_text(code["python"])
    (source / "pyproject.toml").write_text(code["toml"])
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    [wheel] = wheels.glob("*.whl")
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    return site
