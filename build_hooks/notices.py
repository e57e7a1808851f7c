"""Write THIRD-PARTY-NOTICES.md: the licence of each package in requirements.lock, as its installed metadata name it.

``python -m build_hooks.notices`` writes the file; ``make lock`` does so after it has written the versions.
"""

import re
from importlib.metadata import PackageMetadata, metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "THIRD-PARTY-NOTICES.md"
HEAD = """# Third-party notices

Sexton's wheel contains htmx (0BSD) and uPlot (MIT), which the console's pages load; their licences are in
`sexton/interfaces/console/static/LICENSES.txt`. It contains no other code of others. An installation with every extra
also gets these packages, each under its own licence. `make lock` writes this page from their metadata.

| package | version | licence |
|---|---|---|
"""
_LONGEST_NAME = 80


def licence(package: PackageMetadata) -> str:
    """Return the SPDX expression, else the classifiers, else the licence's name; raise ``ValueError`` without any."""
    trove = [c.split(" :: ")[-1] for c in package.get_all("Classifier", []) if c.startswith("License ::")]
    name = ", ".join(package.get_all("License-Expression", []) or trove or package.get_all("License", []))
    if not name or len(name) > _LONGEST_NAME:
        raise ValueError(f"the metadata of {package['Name']} name no licence in one line")
    return name


def notices() -> str:
    """Return the page about the packages of requirements.lock, which must be installed."""
    locked = re.findall(r"(?m)^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text())
    lines = [f"| {name} | {version} | {licence(metadata(name))} |\n" for name, version in locked]
    return HEAD + "".join(lines)


if __name__ == "__main__":
    FILE.write_text(notices())
