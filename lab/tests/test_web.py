"""The TypeScript of the pages, by its own tests: the maths against the golden values, typed answers, progress."""

import shutil
import subprocess
from pathlib import Path

from browsing import missing

WEB = Path(__file__).parents[1] / "web"


def test_the_tests_of_the_typescript_pass():
    npx = shutil.which("npx")
    if npx is None or not (WEB / "node_modules" / "vitest").exists():
        missing("what tests the TypeScript is not installed: make site")
    command = [str(npx), "--no-install", "vitest", "run"]
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "passed" in done.stdout
