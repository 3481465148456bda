"""What the browser's Python runs first: the two ways in, from text to JSON."""

import json
import sys

sys.path.append("/grader")  # where the worker wrote the judge

from judge import judge
from judge.running import attempt, execute, told

sys.stdout.reconfigure(line_buffering=True)


def run(code: str) -> str:
    """Runs a program and shows what it prints while it prints it; gives what went wrong, or null."""
    _, error = attempt(lambda: execute(code), sys.stdout)
    sys.stdout.flush()
    return json.dumps(error and told(error, code))


def check(code: str, files: str, seed: int) -> str:
    """The judge's report."""
    return json.dumps(judge(code, json.loads(files), seed))
