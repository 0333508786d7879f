"""The program `planck`, which lies in the package: the command of that name runs it, and `planck.checkpoint` calls it."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from planck._spelling import _in_python

_PROGRAM = Path(__file__).parent / "bin" / "planck"
_MISSING = (
    "this planck was built without the program `planck`, which needs CLI11, nlohmann-json and RE2 "
    "(on Debian the packages libcli11-dev, nlohmann-json3-dev and libre2-dev): install them and build the package again"
)
# Exit codes of the program, as docs/cli.md lists them.
_CANNOT_READ_OR_WRITE = 1
_USAGE, _BROKEN_FILE, _REFUSED = 2, 3, 4
_DIFFERS = 5  # of compare, which says in what
_WARNING = "planck: warning: "
_TEXTS = {"problem", "reason"}  # of a tensor; everything else in a result is a name or a number


def _program() -> str:
    """Where the program is. Raises NotImplementedError in a package that was built without it."""
    if not _PROGRAM.exists():
        raise NotImplementedError(_MISSING)
    return str(_PROGRAM)


def _run(command: str, arguments: Sequence[str]) -> dict[str, Any]:
    """What a command of the program says with --json."""
    done = subprocess.run(
        [_program(), command, "--json", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode not in (0, _DIFFERS):
        message = done.stderr.strip().removeprefix("planck: ") or f"planck {command} ended with code {done.returncode}"
        message = _in_python(message)
        if done.returncode == _CANNOT_READ_OR_WRITE:
            raise OSError(message)
        raise (ValueError if done.returncode in (_USAGE, _BROKEN_FILE, _REFUSED) else RuntimeError)(message)
    for line in done.stderr.splitlines():
        if line.startswith(_WARNING):
            warnings.warn(_in_python(line.removeprefix(_WARNING)), stacklevel=3)
    result = json.loads(done.stdout)
    tensors = result["tensors"]
    for tensor in tensors if isinstance(tensors, list) else []:  # dequantize only counts them
        for name in _TEXTS & tensor.keys():
            tensor[name] = _in_python(tensor[name])
    return result


def _main() -> NoReturn:
    """The command `planck`: becomes the program."""
    try:
        program = _program()
    except NotImplementedError as error:
        sys.exit(f"planck: {error}")
    os.execv(program, ["planck", *sys.argv[1:]])
