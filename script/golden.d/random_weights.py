"""Tiny models that see, with weights of which none is idle."""
import zlib

import torch


def random_model(name, make):
    """What `make` builds, from the seed that the name's checksum is."""
    torch.manual_seed(zlib.crc32(name.encode()))
    model = make()
    model.set_attn_implementation("eager")
    model = model.float().eval()
    with torch.no_grad():  # what starts at zero or one, or so small that nobody would miss it
        for kind, parameter in model.named_parameters():
            if parameter.dim() == 1 and "lambda" not in kind:
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif "language_model" not in kind and "lm_head" not in kind:
                parameter.copy_(torch.randn_like(parameter) * 0.15)
    return model
