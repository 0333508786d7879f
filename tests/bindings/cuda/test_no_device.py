"""planck::cuda where there is no GPU: a tensor that says that it lies on one is an error with CUDA's code, not a crash."""

import shutil

import numpy as np
import planck
import pytest
from torch_stand_in import Tensor


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine may have a GPU")
def test_calls_say_that_there_is_no_device():
    with pytest.raises(RuntimeError, match=r"looking for a device.*(35|100)"):
        planck.cumsum(Tensor(np.ones(3, np.float32)))


def test_the_cpu_still_works():
    assert (planck.cumsum(np.ones(3, np.float32)) == [1, 2, 3]).all()
