"""The judge: what it says of each way in which a program can fail, and that no program breaks it."""

import ast
import builtins
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv_lab.judge
from qkv_lab.judge import judge, run
from qkv_lab.judge.values import TOLERANCE, difference

FILES = {
    "tests.py": """
import numpy as np
def cases(rng):
    for n in (2, 3):
        yield "double", f"{n} rows", (rng.normal(size=(n, 4)),)
    yield "double", "no rows at all", (np.zeros((0, 4)),)
    yield "sizes", "a pair", (3, 5)
    yield "mask", "three", (3,)
""",
    "solution.py": """
import numpy as np
def double(x):
    if not len(x):
        raise ValueError("no rows")
    return 2 * x
def sizes(n, m):
    return {"sum": n + m, "shape": (n, m)}
def mask(n):
    return np.arange(3) < n - 1
""",
    "mutants/trebled.py": '''"""trebled

Twice is not
three times."""
def double(x):
    if not len(x):
        raise ValueError("no rows")
    return 3 * x
''',
    "mutants/silent.py": '"""no error\n\nRaise."""\ndef double(x): return 2 * x\n',
}
RIGHT = FILES["solution.py"]
SIZES = "\ndef sizes(n, m): return {'sum': n + m, 'shape': [n, m]}"
MASK = "\ndef mask(n): return [j < n - 1 for j in range(3)]"


def of(source: str, function: str = "double", seed: int = 1) -> dict[str, Any]:
    """What the judge says of one function."""
    report = judge(source, FILES, seed)
    assert report["error"] is None, report["error"]
    return next(each for each in report["functions"] if each["name"] == function)


def problem(source: str, function: str = "double") -> str:
    failed = of(source, function)["failed"]
    assert failed, f"{source} passes"
    return str(failed["problem"])


def test_a_right_program_passes() -> None:
    report = judge(RIGHT, FILES, 1)
    assert report["ok"] and report["error"] is None and report["output"] == ""
    assert [(each["name"], each["cases"]) for each in report["functions"]] == [("double", 3), ("sizes", 1), ("mask", 1)]


def test_lists_pass_for_arrays_and_for_pairs() -> None:
    lists = "def double(x):\n    if len(x) == 0: raise ValueError\n    return [[2 * a for a in row] for row in x]"
    assert judge(lists + SIZES + MASK, FILES, 1)["ok"]


def test_whole_numbers_pass_for_real_ones() -> None:
    assert not difference(2.0, 2)
    assert not difference(np.array([1.0, 2.0]), [1, 2])


def test_a_verdict_is_json() -> None:
    report = judge("def double(x): return x / 0\n", FILES, 1)
    assert json.loads(json.dumps(report)) == report


def test_a_seed_gives_the_same_verdict_and_another_seed_other_inputs() -> None:
    wrong = "def double(x): return x"
    assert judge(wrong, FILES, 5) == judge(wrong, FILES, 5)
    assert of(wrong, seed=5)["failed"]["call"] != of(wrong, seed=6)["failed"]["call"]


def test_it_shows_the_call_what_was_expected_and_what_came() -> None:
    failed = of("def double(x): return x")["failed"]
    assert failed["label"] == "2 rows"
    assert failed["call"].startswith("double(x)\nx = [[")
    assert "shape (2, 4)" in failed["call"] and "shape (2, 4)" in failed["expected"]
    assert failed["expected"] != failed["got"]


SENTENCES = {
    "def double(x): pass": "It returned None: is there a return?",
    "def double(x): return 'two'": "It returned a text, where an array of shape (2, 4) is expected.",
    "def double(x): return {1: x}": "It returned a dict, where an array of shape (2, 4) is expected.",
    "def double(x): return (2 * row for row in x)": "It returned a generator, where",
    "def double(x): return [[1], [2, 3]]": "are its rows equally long?",
    "def double(x): return (2 * x).T": "Its shape is (4, 2), and should be (2, 4). That is the right one turned over",
    "def double(x): return x[0]": "Its shape is (4,), and should be (2, 4).",
    "def double(x): return x > 0": "It should hold numbers, and holds True and False.",
    "def double(x): return 2j * x": "It holds complex numbers.",
    "def double(x): return x * float('nan')": "It holds NaN (not a number), first at [0, 0]",
    "def double(x): return 4 * x": "8 of 8 numbers are wrong, the first at [0, 0]:",
    "def double(x):\n    y = 2 * x\n    y[1, 2] = 9\n    return y": "1 of 8 numbers are wrong, the first at [1, 2]: 9,",
    "def double(x):\n    x *= 2\n    return x": "It changed its argument x, which belongs to the caller.",
    "def double(x):\n    return 2 * y": "It raised NameError in line 2: name 'y' is not defined.",
    "def double(x):\n    return inner(x)\ndef inner(x):\n    return x[9]": "It raised IndexError in line 4:",
    "def double(x): raise ZeroDivisionError": "It raised ZeroDivisionError in line 1: without a message.",
    "def double(x):\n    return double(x)": "It calls itself again and again, in line 2, without an end.",
    "def double(x): exit()": "It ended the program. Return the result instead of calling exit.",
    "import sys\ndef double(x): sys.exit(1)": "It ended the program.",
    "def double(): return 1": "It can't be called with the arguments of the task, double(x):",
    "double = 3": "There is no function double yet. Write def double(x): …",
    "def Double(x): return 2 * x": "There is no function double yet.",
    "def double(x): return input('x?')": "nobody can type an input here",
}


@pytest.mark.parametrize("source", SENTENCES)
def test_each_failure_has_a_sentence(source: str) -> None:
    assert SENTENCES[source] in problem(source)


def test_errors_that_are_asked_for() -> None:
    start = "def double(x):\n    if len(x): return 2 * x\n    "
    assert problem(start + "return x") == "These inputs don't fit, so raise ValueError. It returned instead."
    assert "It raised TypeError instead." in problem(start + "raise TypeError('no')")
    assert of(start + "class Mine(ValueError): pass\n    raise Mine")["ok"]


def test_a_count_is_whole_and_a_mask_is_true_and_false() -> None:
    assert "It should be whole" in problem("def sizes(n, m): return {'sum': n / 1 + m, 'shape': (n, m)}", "sizes")
    assert "It should hold True and False" in problem("def mask(n): return [1, 1, 0]", "mask")
    assert not difference(np.array([1, 2]), np.array([1.0, 2.0])), "an array is not counted"


def test_what_is_wrong_inside_a_dict_or_a_tuple_says_where() -> None:
    assert problem("def sizes(n, m): return {'sum': n + m, 'shape': (m, n)}", "sizes").startswith(
        "At 'shape': It is (5, 3)"
    )
    assert "Its keys are" in problem("def sizes(n, m): return {'sum': n + m}", "sizes")
    assert "where a dict is expected" in problem("def sizes(n, m): return n + m", "sizes")
    pair = (np.eye(2), np.ones(3))
    assert difference(pair, (np.eye(2), np.zeros(3))).startswith("Result 2 of 2: 3 of 3 numbers")
    assert difference(pair, (np.eye(2),)) == "It returned 1 results, and should return 2."
    assert "where 2 results are expected" in difference(pair, np.eye(2))


def test_the_tolerance_is_absolute_and_relative() -> None:
    assert not difference(1.0, 1 + TOLERANCE) and difference(1.0, 1 + 3 * TOLERANCE)
    assert not difference(1e6, 1e6 + 0.5) and difference(1e6, 1e6 + 2)
    assert not difference(-np.inf, -np.inf) and difference(-np.inf, np.inf)


# ---- the program itself -------------------------------------------------------------------------------------


def test_a_syntax_error_points_at_its_line() -> None:
    report = judge("x = 1\ndef double(x)\n    return x\n", FILES, 1)
    assert not report["ok"] and report["error"]["type"] == "SyntaxError" and report["error"]["line"] == 2
    assert [each["ok"] for each in report["functions"]] == [False] * 3
    assert "def double(x)" in report["error"]["traceback"]


def test_a_traceback_shows_the_learners_lines_alone() -> None:
    error = run("import json\ndef inner():\n    json.loads('{')\n\ninner()\n")["error"]
    assert error["line"] == 3 and error["type"] == "JSONDecodeError"
    assert error["traceback"].startswith(
        "line 5\n    inner()\nline 3, in inner\n    json.loads('{')\nJSONDecodeError: "
    )
    assert "json/" not in error["traceback"] and "qkv_lab" not in error["traceback"]


def test_a_traceback_without_an_end_is_cut() -> None:
    error = run("def deeper(): deeper()\ndeeper()")["error"]
    assert error["type"] == "RecursionError" and "more like these" in error["traceback"]
    assert len(error["traceback"].splitlines()) < 25


def test_prints_are_caught() -> None:
    assert run("print('a')\nimport sys\nprint('b', file=sys.stderr)")["output"] == "a\nb\n"
    assert "hello" in judge("def double(x):\n    print('hello')\n    return x", FILES, 1)["output"]


def test_a_huge_output_is_cut() -> None:
    output = run("for _ in range(100): print('x' * 10_000)")["output"]
    assert len(output) < 10_100 and output.endswith("… and more, which is left out\n")


HOSTILE = [
    "__builtins__.clear()",
    "import builtins\nvars(builtins).clear()",
    "import builtins\ndel builtins.len, builtins.isinstance\nraise ValueError",
    "import builtins\nbuiltins.print = None",
    "import sys\nsys.stdout.close()\nprint('still here')",
    "import sys\nsys.exit()",
    "raise SystemExit('bye')",
    "import sys\nsys.setrecursionlimit(50)\ndef f(): f()\nf()",
    "class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E",
    "class E(Exception):\n    def __bool__(self): raise RuntimeError\ndef double(x): raise E",
    "import numpy as np\nnp.seterr(all='raise')\nnp.set_printoptions(precision=1)",
    "import warnings\nwarnings.warn('loud')",
    "a = []\na.append(a)\ndef double(x): return a",
    "def double(x): return 10 ** 400",
    "import sys\nsys.stdout.write(b'bytes')",
    "\0",
    "(" * 300 + ")" * 300,
]


@pytest.mark.parametrize("source", HOSTILE)
def test_no_program_breaks_the_judge(source: str) -> None:
    before, depth, streams = dict(vars(builtins)), sys.getrecursionlimit(), (sys.stdout, sys.stderr)
    numpy = np.geterr(), np.get_printoptions()
    report = judge(source, FILES, 1)
    assert not report["ok"]
    assert (np.geterr(), np.get_printoptions()) == numpy
    assert vars(builtins) == before and sys.getrecursionlimit() == depth and (sys.stdout, sys.stderr) == streams
    assert judge(RIGHT, FILES, 1)["ok"], "and the next program is judged as ever"


def test_a_stop_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        judge("raise KeyboardInterrupt", FILES, 1)
    with pytest.raises(KeyboardInterrupt):
        judge("def double(x): raise KeyboardInterrupt", FILES, 1)


def test_programs_do_not_see_each_other() -> None:
    assert run("left = 1")["error"] is None
    assert run("print(left)")["error"]["type"] == "NameError"


def test_a_result_that_changes_later_is_judged_as_it_was_returned() -> None:
    start = "seen = []\ndef double(x):\n    if not len(x): raise ValueError\n"
    shared = start + "    seen[:] = (2 * x).tolist()\n    return seen"
    assert of(shared)["ok"]


# ---- slips --------------------------------------------------------------------------------------------------


def test_a_program_that_does_as_a_mutant_does_is_told_its_name_and_why() -> None:
    own_way = "def double(x):\n    if len(x) < 1: raise ValueError\n    return [[a + a + a for a in row] for row in x]"
    assert of(own_way)["slip"] == {"name": "trebled", "why": "Twice is not three times."}
    assert of("def double(x): return x + x")["slip"]["name"] == "no error"


def test_a_program_with_a_mistake_of_its_own_is_told_no_slip() -> None:
    assert of("def double(x): return 5 * x")["slip"] is None
    assert of("def double(x): return 3 * x")["slip"] is None, "it trebles, but doesn't raise as the mutant does"


def test_a_function_that_never_returns_is_told_no_slip() -> None:
    files = {**FILES, "mutants/breaks.py": '"""breaks\n\nIt does."""\ndef double(x): raise TypeError\n'}
    double = judge("def double(x): return len(3)", files, 1)["functions"][0]
    assert not double["ok"] and double["slip"] is None


def test_the_judge_needs_the_standard_library_and_numpy_only() -> None:
    folder = Path(qkv_lab.judge.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            wrong = [name for name in names if name.split(".")[0] not in {*sys.stdlib_module_names, "numpy"}]
            assert not wrong, f"{path.name} imports {wrong}, which a browser does not have"
