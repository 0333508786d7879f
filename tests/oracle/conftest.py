"""One thread for torch, so that the oracle's own sums are the same in every run."""

import torch

torch.set_num_threads(1)
