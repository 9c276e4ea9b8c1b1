"""Tiny models that see, with weights of which none is idle."""
import os
import zlib

import torch
from safetensors.torch import load_file, save_file


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


def save_as_published(whole, folder):
    """With rows and columns of experts changed, which transformers 5.23 reads and fails to write."""
    whole.save_pretrained(folder, save_original_format=False)
    path = os.path.join(folder, "model.safetensors")
    tensors = load_file(path)
    for key, value in tensors.items():
        if ".mlp.experts." in key:
            tensors[key] = value.transpose(1, 2).contiguous()
    save_file(tensors, path, metadata={"format": "pt"})
    os.chmod(path, 0o644)
    again = type(whole).from_pretrained(folder).state_dict()
    assert all(torch.equal(value, again[key]) for key, value in whole.state_dict().items())
