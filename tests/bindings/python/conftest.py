"""Every test starts with the same threads, and leaves none of its own settings behind."""

import planck
import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def threads():
    before = planck.get_num_threads()
    yield
    planck.set_num_threads(before)
