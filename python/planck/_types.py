"""Types of the public functions' arguments."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

ArrayT = TypeVar("ArrayT")
"""A NumPy array, a PyTorch tensor, or another array that speaks DLPack. Results are of the same library;
for arrays of neither they are NumPy's."""

DType = Any
"""A name ("int8", or the C++ one, "s8") or a dtype object of NumPy, ml_dtypes or PyTorch."""

Scope = Literal["tensor", "channel", "token", "group"]
ScaleForm = Literal["divide", "reciprocal"]
Mode = Literal["symmetric", "asymmetric"]
NonFinite = Literal["saturate", "error"]
Ties = Literal["first", "last"]
