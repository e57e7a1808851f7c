"""Other collectors, which run beside Sexton in an environment of their own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PYTHON = Path(sys.prefix) / "peers" / "bin" / "python"
"""Has the other collectors; ``make soak`` installs it."""


def run_peer(program: str, folder: Path) -> dict[str, Any]:
    """Run one of the programs beside this file over a folder; return what it prints."""
    command = [str(PYTHON), str(Path(__file__).with_name(f"{program}.py")), str(folder)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    answer: dict[str, Any] = json.loads(printed)
    return answer
