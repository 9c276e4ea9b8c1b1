"""More digits than transformers computes in."""
import contextlib

import torch


@contextlib.contextmanager
def in_float64():
    """Computes in float64 what transformers computes in float32 whatever the dtype of the model."""
    narrow, method = torch.float32, torch.Tensor.float
    torch.float32, torch.float, torch.Tensor.float = torch.float64, torch.float64, torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = narrow, narrow, method
