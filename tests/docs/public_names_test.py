#!/usr/bin/env python3
"""Everything public can be found by its name in include/: no name is put together by a macro.

The plans are those that src defines and the pages speak of, the C functions those that src/c_api defines. Macros are
few and listed here, and none of them takes arguments.

Usage: public_names_test.py PROJECT_FOLDER
"""
import pathlib
import re
import sys

MACROS = {
    "PLANCK_API", "PLANCK_C_API",  # what is exported
    "PLANCK_VERSION_MAJOR", "PLANCK_VERSION_MINOR", "PLANCK_VERSION_PATCH",
    "PLANCK_UNKNOWN_CAPACITY", "PLANCK_SCAN_CARRY_WORDS",  # numbers for C
    "PLANCK_PLANCK_H", "PLANCK_PLANCK_TYPES_H",  # guards
}
C_FUNCTIONS = ("planck_{}_run", "planck_{}_can_implement", "planck_{}_workspace_size")
C_TYPES = ("planck_{}_descriptor", "planck_{}_args")


def text_of(root: pathlib.Path, *patterns: str) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for p in patterns for file in sorted(root.glob(p)))


def expected_names(root: pathlib.Path) -> set[str]:
    source = text_of(root, "src/**/*.cpp")
    names = set()
    for op in re.findall(r"^Result<PlanChoice> (\w+)Op::select\(", source, re.M):
        names |= {op + "Descriptor", op + "Args", op + "Op", op + "Plan"}
    for op in re.findall(r"^PLANCK_DEFINE_C_OP\((\w+), \w+\)", source, re.M):
        names |= {form.format(op) for form in C_FUNCTIONS + C_TYPES}
    pages = text_of(root, "README.md", "docs/**/*.md")
    return names | set(re.findall(r"(?<![…\w])[A-Z][a-z]\w+Plan\b", pages)) | set(re.findall(r"\bplanck_\w+(?=\()", pages))


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    headers = text_of(root, "include/planck/*.h", "include/planck/*.hpp")
    expected = expected_names(root)
    wrong = [f"{name} is not in include/" for name in sorted(expected) if not re.search(rf"\b{name}\b", headers)]
    for name, arguments in re.findall(r"^\s*#\s*define\s+(\w+)(\(?)", headers, re.M):
        if name not in MACROS or arguments:
            wrong.append(f"the macro {name} is public")
    print("\n".join([*wrong, f"{len(expected)} names, {len(wrong)} wrong"]))
    return 1 if wrong or len(expected) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
