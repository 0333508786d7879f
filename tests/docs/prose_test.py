#!/usr/bin/env python3
"""The pages' form: lines of at most 120 characters, but for tables and what programs print, and links that lead
somewhere.

Usage: prose_test.py PROJECT_FOLDER
"""
import pathlib
import re
import sys

LONGEST = 120
LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages_of(root: pathlib.Path) -> list[pathlib.Path]:
    return [*sorted(root.glob("*.md")), *sorted(root.glob("docs/**/*.md"))]


def lines_of(page: pathlib.Path):
    """(number, line, tag) of every line; the tag is that of the code block around it, None outside."""
    tag = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            tag = line[3:] if tag is None else None
        else:
            yield number, line, tag


def prose_of(page: pathlib.Path) -> str:
    return "\n".join(line for _, line, tag in lines_of(page) if tag is None)


def anchors_of(page: pathlib.Path) -> set[str]:
    """GitHub's names of the headings."""
    headings = re.findall(r"^#+ (.*)$", prose_of(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: pathlib.Path) -> list[str]:
    wrong = []
    for target in LINK.findall(prose_of(page)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors_of(file)):
            wrong.append(target)
    return wrong


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    wrong = []
    for page in pages_of(root):
        name = page.relative_to(root)
        for number, line, tag in lines_of(page):
            printed = tag in ("", "text", "console")
            if len(line) > LONGEST and not printed and not line.lstrip().startswith("|"):
                wrong.append(f"{name}:{number}: {len(line)} characters")
        wrong += [f"{name}: {target} leads nowhere" for target in broken_links(page)]
    print("\n".join([*wrong, f"{len(pages_of(root))} pages, {len(wrong)} faults"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
