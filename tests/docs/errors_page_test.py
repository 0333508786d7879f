#!/usr/bin/env python3
"""docs/errors.md lists the rows of src/core/error_texts.def: same names, kinds and texts, in the same order.

Usage: errors_page_test.py ERROR_TEXTS_DEF ERRORS_MD
"""
import ast
import pathlib
import re
import sys

DEF_ROW = re.compile(r'^PLANCK_ERROR_TEXT\((\w+), (\w+), ("(?:[^"\\]|\\.)*")\)$')
PAGE_ROW = re.compile(r"^\| (\w+) \| (\w+) \| ``(.*?)`` \| (.+) \|$")


def rows_of_def(path: pathlib.Path):
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("//"):
            continue
        match = DEF_ROW.match(line)
        if not match:
            sys.exit(f"{path}:{number}: not a row that this test can read: {line}")
        rows.append((match.group(1), match.group(2), ast.literal_eval(match.group(3))))
    return rows


def rows_of_page(path: pathlib.Path):
    lines = path.read_text(encoding="utf-8").splitlines()
    if lines.count("<!-- error texts -->") != 1 or lines.count("<!-- end -->") != 1:
        sys.exit(f"{path}: the lines '<!-- error texts -->' and '<!-- end -->' must each be there once")
    rows = []
    first = lines.index("<!-- error texts -->") + 1
    for number, line in enumerate(lines[first:lines.index("<!-- end -->")], first + 1):
        if not line.strip() or line.startswith("| Name |") or line.startswith("|---"):
            continue
        match = PAGE_ROW.match(line)
        if not match:
            sys.exit(f"{path}:{number}: not a row of the form | Name | Kind | ``template`` | advice |: {line}")
        rows.append(match.group(1, 2, 3))
    return rows


def main() -> int:
    expected = rows_of_def(pathlib.Path(sys.argv[1]))
    listed = rows_of_page(pathlib.Path(sys.argv[2]))
    wrong = 0
    for i in range(max(len(expected), len(listed))):
        want = expected[i] if i < len(expected) else None
        have = listed[i] if i < len(listed) else None
        if want != have:
            print(f"row {i + 1}: error_texts.def has {want}, the page has {have}")
            wrong += 1
    print(f"{len(expected)} texts, {len(listed)} on the page, {wrong} differ")
    return 1 if wrong or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
