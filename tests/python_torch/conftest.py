"""One thread for torch, so that its own sums are the same in every run; compiled code is forgotten after each test."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    yield
    torch.set_default_device(None)
    torch.compiler.reset()
