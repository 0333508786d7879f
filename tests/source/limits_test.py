#!/usr/bin/env python3
"""scripts/limits must be able to fail: planted files and functions that are too long, and shapes that must not mislead it."""

import importlib.machinery
import importlib.util
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("limits", str(ROOT / "scripts" / "limits"))
limits = importlib.util.module_from_spec(importlib.util.spec_from_loader("limits", loader))
sys.modules["limits"] = limits  # dataclasses ask for it
loader.exec_module(limits)


def body(lines: int) -> str:
    """With its braces, so many lines."""
    return "{\n" + "  work();\n" * (lines - 2) + "}\n"


def planted(files: dict[str, str], exceptions: dict[str, str] | None = None) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_text(text)
        return limits.problems(Path(folder), exceptions or {})


# What is at the limit, and what is long without being a function.
SOUND = {
    "src/a.cpp": "int f() " + body(60),
    "src/b.hpp": "namespace n {\nstruct S {\n" + "  int f() { return 1; }\n" * 80 + "};\n}  // namespace n\n",
    "src/c.cpp": "const int table[] = {\n" + "  1,\n" * 80 + "};\n",
    "src/d.cpp": "enum class E {\n" + "  a,\n" * 80 + "};\nint f() " + body(5),
    "src/e.cpp": "// comment\n" * 400,
    "src/f.inl": "".join(f"#define M{i}(x) \\\n  if (x) {{\n" for i in range(40)) + "int f() " + body(5),
    "src/g-inl.h": 'const char* s = R"(\n' + "int f() {\n" * 80 + ')";\nint f() ' + body(60),
    "src/h.cu": "template <int N>\nrequires(N > 0)\n__global__ void f(int x = g({1}), char c = '{') " + body(60),
    "src/i.cpp": "#if A\nint f(int x) {\n#else\nint f() {\n#endif\n" + "  work();\n" * 50 + "}\nint g() " + body(50),
    "python/planck/a.py": "def f():\n" + "    pass\n" * 59,
    "tests/a.cpp": "int f() " + body(70) * 10,  # not the product
}
MISTAKES = {
    "a long file": ("src/x.hpp", "\n" * 401, "401 lines"),
    "a long file of Python": ("python/planck/x.py", "\n" * 401, "401 lines"),
    "a function": ("src/x.cpp", "int f() " + body(61), "x.cpp:1: f has 61 lines"),
    "a member": ("include/p/x.hpp", "struct S {\n  int f() const noexcept " + body(61) + "};\n", "f has 61 lines"),
    "a constructor": ("src/x.cpp", "S::S(int n) : n_{n}, m_(n) " + body(61), "S::S has 61 lines"),
    "an operator": ("src/x.cpp", "auto operator()(int n) -> int " + body(61), "operator() has 61 lines"),
    "a kernel": (
        "src/x.cuh",
        "template <class T>\n__global__ void __launch_bounds__(256) k(T* t) " + body(61),
        "k has 61",
    ),
    "one with a lambda": ("src/x.cpp", "int f() {\n  const auto g = [] " + body(60) + "}\n", "f has 62 lines"),
    "after a digit separator": ("src/x-inl.h", "constexpr int k = 1'000;\nint f() " + body(61), "f has 61 lines"),
    "after a string": ("apps/x.cpp", 'const char* s = "\\"{";\nint f() ' + body(61), "f has 61 lines"),
    "with a default argument": ("src/x.cpp", "int f(O o = {}, int n = g(h())) " + body(61), "f has 61 lines"),
    "behind a macro": ("src/x.cpp", "M(a)\n\nHWY_ATTR int f() " + body(61), "x.cpp:3: f has 61 lines"),
    "in a branch": (
        "src/x.cpp",
        "#if A\nint f() {\n#else\nint f(int) {\n#endif\n" + "\n" * 60 + "}\n",
        "f has 65 lines",
    ),
    "a function of Python": ("python/planck/x.py", "class C:\n  def f(self):\n" + "    pass\n" * 60, "f has 61 lines"),
    "braces that do not match": ("src/x.cpp", "int f() { return 1; }\n}\n", "do not match"),
    "a brace that is left open": ("src/x.cpp", "namespace n {\nint f() {\nint g() " + body(61), "do not match"),
}


def main() -> None:
    assert planted(SOUND) == [], planted(SOUND)
    for what, (file, text, words) in MISTAKES.items():
        found = planted({**SOUND, file: text})
        assert len(found) == 1 and words in found[0], f"{what}: {found}"
        name = file if "lines" in words and words[0].isdigit() else None
        if name is not None:
            assert planted({**SOUND, file: text}, {name: "a reason"}) == [], what
    long = {"src/x.cpp": "int f() " + body(61)}
    assert planted(long, {"src/x.cpp: f": "a reason"}) == []
    assert "nothing needs" in planted(SOUND, {"src/x.cpp: f": "a reason"})[0]
    print(f"{len(MISTAKES) + 1} planted mistakes were found")


if __name__ == "__main__":
    main()
