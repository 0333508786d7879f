"""The installed package where nothing else is: imported from where it was installed, every example runs, no PyTorch."""

import doctest
import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path

import numpy as np
import planck

assert Path(planck.__file__).is_relative_to(sys.prefix), f"{planck.__file__} is not the installed package"
assert importlib.util.find_spec("torch") is None, "this environment has PyTorch"
names = [f"planck.{module.name}" for module in pkgutil.iter_modules(planck.__path__) if module.name != "torch"]
attempted = 0
for name in ["planck", *names]:
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs={"np": np, "planck": planck}, raise_on_error=True)
    attempted += result.attempted
assert attempted > 30, f"only {attempted} examples"
print(f"{attempted} examples ran with Python {sys.version.split()[0]} and NumPy {np.__version__}")
