"""Threads, the choice of kernels, and where the C++ library lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from planck import _core


def set_num_threads(threads: int) -> None:
    """How many threads a call may use. Results do not depend on it.

    >>> before = planck.get_num_threads()
    >>> planck.set_num_threads(1)
    >>> planck.get_num_threads()
    1
    >>> planck.set_num_threads(before)
    """
    _core.set_num_threads(threads)


def get_num_threads() -> int:
    """How many threads a call uses at most: what `set_num_threads` said, and no more than there are.

    >>> planck.get_num_threads() >= 1
    True
    """
    return _core.get_num_threads()


def plan_info(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Which kernel a call would run, as text. Checks the arguments as the call would; the function of the library
    that is called computes nothing.

    >>> planck.plan_info(planck.cumsum, np.zeros((4, 8), np.float32), axis=0).split()[:2]
    ['Scan.Cumsum', 'f32']
    """
    return _core.explain(function, *args, **kwargs)


def get_include() -> str:
    """The folder with the C++ headers that the package brings.

    >>> from pathlib import Path
    >>> (Path(planck.get_include()) / "planck" / "planck.hpp").exists()
    True
    """
    return str(Path(__file__).parent / "include")


def get_cmake_dir() -> str:
    """The folder with the CMake configuration of the C++ library that the package brings, for ``-Dplanck_DIR=``.

    >>> from pathlib import Path
    >>> (Path(planck.get_cmake_dir()) / "planck-config.cmake").exists()
    True
    """
    return str(Path(__file__).parent / "lib" / "cmake" / "planck")
