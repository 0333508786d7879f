"""One thread for torch, so that its own sums are the same in every run; compiled code is forgotten after each test.

Nor is it taken from an earlier run: inductor's cache on disk does not notice that a registered operation has changed.
"""

import atexit
import os
import shutil
import tempfile

import pytest

os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="planck-inductor-")
atexit.register(shutil.rmtree, os.environ["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)

import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    yield
    torch.set_default_device(None)
    torch.compiler.reset()
