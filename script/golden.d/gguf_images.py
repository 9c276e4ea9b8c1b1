#!/usr/bin/env python3
"""Has llama.cpp's converter write the tiny models that see, as people have them: a language model's GGUF and an mmproj file.

Usage: gguf_images.py TESTS_DATA LLAMA.CPP      needs: safetensors torch transformers and LLAMA.CPP's own gguf

TESTS_DATA/golden/mmproj/NAME.gguf: the towers of TESTS_DATA/golden/NAME (images_models.py), all numbers as fp32. Beside two of
  them NAME.safetensors has what transformers computes where the file cannot say what the directory does:
    gemma3-images: the projection, which the converter rounds to half precision
    internvl-images-rms: a last norm, which the converter has no name for (no published model of the kind has it)
TESTS_DATA/media/gguf/NAME/{NAME-F32,mmproj-F32}.gguf: the checkpoints of TESTS_DATA/media/models (image_answers.py), whose answers
  theirs are. Of gemma3 answers.json has the answers of the model that a GGUF can say: its queries' scale and its layers' windows
  are those of published models there, and the projection is rounded.
What is added to what the converter writes: Qwen2.5-VL's window and the limits on sizes of Qwen's images, for which llama.cpp has
keys that the converter leaves out, as published models have the same everywhere.
"""
import json
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.pop(0)  # this folder's tokenizers.py is not the package
sys.path[:0] = [str(Path(sys.argv[2]) / "gguf-py"), sys.argv[2]]
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import gguf  # noqa: E402
import torch  # noqa: E402
from conversion import get_model_class  # noqa: E402
from conversion.base import ModelBase, ModelType, TextModel, get_model_architecture  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoConfig, AutoModelForImageTextToText  # noqa: E402

import image_answers  # noqa: E402
import images_models  # noqa: E402

F32 = gguf.LlamaFileType.ALL_F32
PROCESSOR = {"image_mean": [0.5, 0.25, 0.125], "image_std": [0.5, 0.25, 0.125]}


def as_published(name, tensors):
    """The tensors' names, which transformers 5 changed."""
    if "gemma3" in name:
        return {n.replace("vision_tower.", "vision_tower.vision_model."): t for n, t in tensors.items()}
    if "internvl" in name:
        return {n.replace("vision_tower.", "model.vision_tower.").replace("multi_modal_projector.", "model.multi_modal_projector."): t
                for n, t in tensors.items()}
    return tensors


def folder_of(source, name, scratch, config):
    """A copy of the checkpoint that the converter takes."""
    folder = Path(scratch) / name
    shutil.copytree(source, folder)
    if "internvl" in name:
        config["vision_config"]["architectures"] = ["InternVisionModel"]
        config["text_config"]["architectures"] = ["Qwen3ForCausalLM" if config["text_config"]["model_type"] == "qwen3" else "Qwen2ForCausalLM"]
        config |= {"min_dynamic_patch": 1, "max_dynamic_patch": 4}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if not (folder / "preprocessor_config.json").exists():
        (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | {"image_seq_length": config.get("mm_tokens_per_image", 0)}))
    save_file(as_published(name, load_file(folder / "model.safetensors")), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def convert(folder, out, kind, type_):
    """One file; `out` gets it."""
    hparams = ModelBase.load_hparams(folder, False)
    if kind == ModelType.MMPROJ and "internvl" in folder.name:
        hparams = json.loads((folder / "config.json").read_text())  # AutoConfig drops what is not its own
    architecture = get_model_architecture(hparams, kind)
    out.parent.mkdir(parents=True, exist_ok=True)
    class_ = get_model_class(architecture, mmproj=kind == ModelType.MMPROJ)
    if hasattr(class_, "no_mtp"):
        class_.no_mtp = True  # the tiny ones predict one token
    made = class_(folder, type_, out, hparams=hparams, eager=True)
    if kind == ModelType.MMPROJ:  # a projector's third layer has a name only where the tower has more blocks
        made.tensor_map = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, 24)
    window = hparams.get("vision_config", {}).get("window_size")
    if kind == ModelType.MMPROJ and window:
        made.gguf_writer.add_uint32("clip.vision.window_size", window)
    processor = json.loads((folder / "preprocessor_config.json").read_text())
    sizes = processor.get("size", {})
    limits = [processor.get("min_pixels", sizes.get("shortest_edge")), processor.get("max_pixels", sizes.get("longest_edge"))]
    for key, pixels in zip(("image_min_pixels", "image_max_pixels"), limits):
        if kind == ModelType.MMPROJ and pixels:
            made.gguf_writer.add_uint32("clip.vision." + key, pixels)
    made.write()
    os.chmod(out, 0o644)


def round_projection(model):
    projection = model.model.multi_modal_projector.mm_input_projection_weight.data
    projection.copy_(projection.half().float())


def gemma3_answers(media, source, out):
    config = AutoConfig.from_pretrained(source)
    config.text_config.query_pre_attn_scalar = config.text_config.head_dim
    config.text_config.layer_types = ["sliding_attention"] * config.text_config.num_hidden_layers  # of six the last sees all
    model = AutoModelForImageTextToText.from_pretrained(source, config=config, dtype=torch.float32, attn_implementation="eager")
    round_projection(model.eval())
    rows = list(image_answers.answers(media, "gemma3", model, source))
    image_answers.write_json(out, {"made_by": image_answers.MADE_BY[2:], "answers": rows})


def features(name, source, out):
    """What transformers makes of the fixture's patches, as the file says the tower."""
    model = AutoModelForImageTextToText.from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()
    numbers = load_file(source / "images.safetensors")
    if name == "gemma3-images":
        round_projection(model)
    else:
        model.config.vision_config.use_mean_pooling = True
        model.model.vision_tower.layernorm = torch.nn.Identity()
    images = images_models.Images(name, model)
    patch = images.patches[0].shape[1] // 3
    patch = int(patch ** 0.5)
    size = images.pixels[0].shape[-1]
    for i, patches in enumerate(numbers[f"patches/{j}"] for j in range(2)):  # back to pixels
        side = size // patch
        tiles = patches.reshape(-1, side, side, 3, patch, patch).permute(0, 3, 1, 4, 2, 5)
        images.pixels[i] = tiles.reshape(-1, 3, size, size).contiguous()
        assert torch.equal(images_models.unfolded(images.pixels[i], patch), patches)
    tokens = numbers["tokens"].long()
    found = {}
    with torch.no_grad():
        for i, one in enumerate(images.features(model)):
            found[f"features/{i}"] = one.clone().contiguous()
        found["logits"] = model(input_ids=tokens[None], **images.arguments(), **images_models.types_of(tokens, name)).logits[0].contiguous()
    save_file(found, out, metadata={"made_by": "script/golden.d/gguf_images.py"})
    os.chmod(out, 0o644)


def main():
    logging.disable(logging.WARNING)
    TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"  # known by a hash of what it does, which a tiny one hasn't
    data = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        for name in images_models.MODELS:
            if "llava" in name:  # no tower of it is read from such a file
                continue
            source = data / "golden" / name
            config = json.loads((source / "config.json").read_text())
            folder = folder_of(source, name, scratch, config)
            if name == "internvl-images-rms":
                tensors = {n: t for n, t in load_file(folder / "model.safetensors").items() if ".vision_tower.layernorm." not in n}
                save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
            convert(folder, data / "golden/mmproj" / (name + ".gguf"), ModelType.MMPROJ, F32)
            if name in ("gemma3-images", "internvl-images-rms"):
                features(name, source, data / "golden/mmproj" / (name + ".safetensors"))
        for source in sorted((data / "media/models").iterdir()):
            name = source.name
            if name == "llava":
                continue
            folder = folder_of(source, name, scratch, json.loads((source / "config.json").read_text()))
            out = data / "media/gguf" / name
            convert(folder, out / "mmproj-F32.gguf", ModelType.MMPROJ, F32)
            if name == "qwen3_5":  # its tokenizer's class adds words that the tiny vocabulary has no rows for
                continue
            convert(folder, out / f"{name}-F32.gguf", ModelType.TEXT, F32)
        gemma3_answers(str(data / "media"), data / "media/models/gemma3", str(data / "media/gguf/gemma3/answers.json"))


if __name__ == "__main__":
    main()
