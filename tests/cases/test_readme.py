"""The table of bug reports names all of them, and each law that it names is a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
IDS = """
001 003 005 007 009 011 012 014 015 016 017 018 019 023 027 028 029 031 032 036 037 040 043 044 047 049 050 051 052 053
054 055 056 060 061 063 064 065 067 070 072 073 075 077 078 080 081 082 084 085 087 090 094 095 096 098 100 101 103 104
105 107 108 112 113 114 117 120 121 122 123 125 126 128 129 130 134 137 138 139 141 142 143 144 146 148 150 151 154 157
158 159 161 162 164 166 167 169 172 173 174 175 177 178 180 182 183 185 187 189 190 192 196 197
"""
LATER = "014 019 078 094 095 100 101 107 108 121 125 146 148 150 151"

ROW = re.compile(r"^\| B(\d{3}) \| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)
HELD_BY = re.compile(r"\[([\w.]+)\]\(([\w./]+)\) `(test_\w+)`")
ROWS = {row[0]: row[3] for row in ROW.findall((HERE / "README.md").read_text(encoding="utf-8"))}


def _tests_of(path: Path) -> dict[str, str]:
    """Each test of a file with the lines above it, back to the test before."""
    text = path.read_text(encoding="utf-8")
    lines, found, start = text.splitlines(), {}, 0
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found[node.name] = "\n".join(lines[start : node.end_lineno])
            start = node.end_lineno or 0
    return found


def test_every_report_has_a_row():
    assert list(ROWS) == IDS.split()
    assert len(ROWS) == 114


def test_what_waits_for_later_is_known_by_name():
    assert [number for number, held_by in ROWS.items() if held_by.startswith("later: ")] == LATER.split()


@pytest.mark.parametrize("number", [number for number in IDS.split() if number not in LATER.split()])
def test_the_law_of_a_report_is_a_test_that_names_it(number):
    found = HELD_BY.fullmatch(ROWS[number])
    assert found, f"the row of B{number} names no test: {ROWS[number]}"
    tests = _tests_of(HERE / found[2])
    assert Path(found[2]).name == found[1]
    assert found[3] in tests, f"{found[1]} has no {found[3]}"
    assert f"B{number}" in (HERE / found[2]).read_text(encoding="utf-8")
    if found[1] == found[2]:
        assert f"# B{number}: " in tests[found[3]]


def test_every_report_that_a_test_names_has_a_row():
    named = {found for path in HERE.glob("test_*.py") for found in re.findall(r"# B(\d{3})", path.read_text("utf-8"))}
    assert named <= set(ROWS)
