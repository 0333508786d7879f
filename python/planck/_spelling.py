"""What the program says, in the words of those who called a function.

The program speaks of its options: `it exists (--force replaces it)`. Here they become the arguments of
`planck.checkpoint`, `force=True`, by one rule for all of them: the functions' own signatures tell which are flags and
which values there are.
"""

import functools
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

_FUNCTIONS = "compare", "dequantize", "inspect", "quantize"
_COMMAND = re.compile(rf"\bplanck ({'|'.join(_FUNCTIONS)})\b")
# CLI11 writes an option with all its names: -o,--output. What follows may be a value, or the sentence goes on.
_OPTION = r"(?<![\w/.=-])(?:-[a-z],)?--(?P<name>[a-z]+(?:-[a-z]+)*)"
_VALUE = r"(?: (?P<value>\"[^\"]*\"|-?[0-9][-+.0-9e]*(?![\w.])|[a-z][-a-z0-9]*))?"
# Names of files and tensors stand in quotation marks, or in brackets where the standard library names a file.
_NAMES = r"\"[^\"]*\"|\[[^\]]*\]"
_WORDS = re.compile(rf"{_NAMES}|{_OPTION}{_VALUE}")


@functools.cache
def _arguments() -> dict[str, Any]:
    """The arguments of all functions and their types."""
    from planck import checkpoint

    found: dict[str, Any] = {}
    for function in _FUNCTIONS:
        found.update(get_type_hints(getattr(checkpoint, function)))
    return found


def _argument(words: re.Match[str]) -> str:
    if words["name"] is None:
        return words[0]
    name, value = words["name"].replace("-", "_"), words["value"]
    kind = _arguments().get(name)
    rest = "" if value is None else f" {value}"
    if kind is bool:
        return f"{name}=True{rest}"
    if value is None or (value[0].isalpha() and not (get_origin(kind) is Literal and value in get_args(kind))):
        return f"{name}{rest}"
    return f'{name}="{value}"' if value[0].isalpha() else f"{name}={value}"


def _in_python(message: str) -> str:
    """The message with arguments in place of options, functions in place of commands, and without hints at --help."""
    lines = [line for line in message.splitlines() if "--help" not in line]
    return _COMMAND.sub(r"planck.checkpoint.\1", _WORDS.sub(_argument, "\n".join(lines)))
