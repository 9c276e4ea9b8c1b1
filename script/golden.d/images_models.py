#!/usr/bin/env python3
"""Makes the fixtures of models that see: tiny random ones with their vision towers, and what transformers computes.

Usage: images_models.py OUTPUT [NAME...]      needs: torch transformers safetensors

OUTPUT/<model>/ holds config.json and model.safetensors (the whole), and images.safetensors:
  tokens [tokens] with two images among them; logits [tokens, vocab]
  patches/<image> [patches, patch_dim], grids/<image> [grids, 3], features/<image> [image tokens, hidden]: what the tower gives
  next [8], next.logits [8, vocab]: greedy tokens after the prompt, as transformers' generate decodes them
  swapped.logits [tokens, vocab]: with the first image's patches, or tiles, in the other order and negated
OUTPUT/qwen2.5-vl-images/large.safetensors: of an image of more than 16,384 patches, made of numbers that any language can
  make, every hundredth feature.
OUTPUT/vision-grid.safetensors: transformers' arithmetic of grids, for tests/unit/models/vision_grid_test.cpp.
A fixture's seed is its name's checksum.
"""
import os
import sys
from importlib.metadata import version

sys.path.append(sys.path.pop(0))  # beside this file lies a tokenizers.py
import torch
from safetensors.torch import save_file
import transformers
from transformers import (Gemma3Config, Gemma3ForConditionalGeneration, InternVLConfig, InternVLForConditionalGeneration,
                          LlavaConfig, LlavaForConditionalGeneration,
                          Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLConfig, Qwen2VLForConditionalGeneration,
                          Qwen3_5Config, Qwen3_5ForConditionalGeneration, Qwen3_5MoeConfig,
                          Qwen3_5MoeForConditionalGeneration, Qwen3VLConfig, Qwen3VLForConditionalGeneration,
                          Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration)
from transformers.vision_utils import (get_vision_interpolation_indices_and_weights, get_vision_position_ids,
                                       get_vision_window_index)

from random_weights import random_model, save_as_published

VOCAB, HIDDEN, IMAGE, NEXT = 160, 32, 150, 8
TEXT = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
            initializer_range=0.125)
MROPE = {"rope_type": "default", "rope_theta": 10000.0}
QWEN = dict(image_token_id=IMAGE, video_token_id=151, vision_start_token_id=152, vision_end_token_id=153,
            tie_word_embeddings=False)
DELTA = dict(layer_types=["linear_attention", "full_attention", "linear_attention"], linear_num_key_heads=2,
             linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16)
CLIP_TOWER = dict(model_type="clip_vision_model", hidden_size=32, intermediate_size=40, num_attention_heads=2, image_size=16,
                  patch_size=4, projection_dim=16)
TOWER = dict(depth=4, hidden_size=32, num_heads=2, in_channels=3, patch_size=4, spatial_merge_size=2, temporal_patch_size=2)

# Blocks of patches that windows of 2 x 2 features cut unevenly: 5 x 3 and 2 x 6 features.
QWEN_GRIDS = [[[1, 10, 6]], [[1, 4, 12]]]

MODELS = {
    # Windows in three layers of four.
    "qwen2.5-vl-images": lambda: Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(
        text_config=dict(TEXT, model_type="qwen2_5_vl_text", use_sliding_window=True, sliding_window=23,
                         max_window_layers=2, rope_parameters=dict(MROPE, mrope_section=[1, 1, 2])),
        vision_config=dict(TOWER, intermediate_size=40, window_size=16, fullatt_block_indexes=[2], out_hidden_size=HIDDEN),
        **QWEN)),
    "qwen2-vl-images": lambda: Qwen2VLForConditionalGeneration(Qwen2VLConfig(
        text_config=dict(TEXT, model_type="qwen2_vl_text", rope_parameters=dict(MROPE, mrope_section=[2, 1, 1])),
        vision_config=dict({k: v for k, v in TOWER.items() if k != "hidden_size"}, embed_dim=32, hidden_size=HIDDEN,
                           mlp_ratio=2), **QWEN)),
    # Positions learned for 7 x 7 patches; features of two depths, not in the layers' order.
    "qwen3-vl-images": lambda: Qwen3VLForConditionalGeneration(Qwen3VLConfig(
        text_config=dict(TEXT, model_type="qwen3_vl_text", head_dim=16, rope_parameters=dict(
            MROPE, mrope_section=[3, 2, 3], mrope_interleaved=True)),
        vision_config=dict(TOWER, intermediate_size=40, num_position_embeddings=49, deepstack_visual_indexes=[2, 1],
                           out_hidden_size=HIDDEN), **QWEN)),
    # Images of 16 tokens, longer than the window of two layers of three; 2 x 2 patches are averaged.
    "gemma3-images": lambda: Gemma3ForConditionalGeneration(Gemma3Config(
        text_config=dict(TEXT, model_type="gemma3_text", head_dim=16, query_pre_attn_scalar=12, sliding_window=11,
                         layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                         rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                                          "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}),
        vision_config=dict(model_type="siglip_vision_model", hidden_size=32, intermediate_size=40, num_hidden_layers=3,
                           num_attention_heads=2, image_size=32, patch_size=4, vision_use_head=False, layer_norm_eps=1e-5),
        mm_tokens_per_image=16, image_token_index=IMAGE, boi_token_index=151, eoi_token_index=152)),
    # Tiles of 6 x 6 patches, nine tokens each.
    "internvl-images": lambda: InternVLForConditionalGeneration(InternVLConfig(
        text_config=dict(TEXT, model_type="qwen2", rope_parameters=MROPE),
        vision_config=dict(hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=2, image_size=[24, 24],
                           patch_size=[4, 4], layer_norm_eps=1e-5, attention_bias=True, layer_scale_init_value=0.5),
        image_token_id=IMAGE, image_seq_length=9, downsample_ratio=0.5, tie_word_embeddings=False)),
    # As the largest of them: root mean squares, norms of queries and keys, a last norm, no biases.
    "internvl-images-rms": lambda: InternVLForConditionalGeneration(InternVLConfig(
        text_config=dict(TEXT, model_type="qwen3", head_dim=16, rope_parameters=MROPE),
        vision_config=dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, image_size=[24, 24],
                           patch_size=[4, 4], norm_type="rms_norm", use_qk_norm=True, use_mean_pooling=False),
        image_token_id=IMAGE, image_seq_length=9, downsample_ratio=0.5, tie_word_embeddings=False)),
    # The same tower over experts.
    "qwen3-vl-moe-images": lambda: Qwen3VLMoeForConditionalGeneration(Qwen3VLMoeConfig(
        text_config=dict({k: v for k, v in TEXT.items() if k != "intermediate_size"}, model_type="qwen3_vl_moe_text",
                         head_dim=16, intermediate_size=48, moe_intermediate_size=24, num_experts=5, num_experts_per_tok=2,
                         norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], rope_parameters=dict(
                             MROPE, mrope_section=[4, 2, 2], mrope_interleaved=True)),
        vision_config=dict(TOWER, intermediate_size=40, num_position_embeddings=25, deepstack_visual_indexes=[0, 3],
                           out_hidden_size=HIDDEN), **QWEN)),
    # And without features for layers, over a language model that keeps states; of a head a half turns.
    "qwen3.5-images": lambda: Qwen3_5ForConditionalGeneration(Qwen3_5Config(
        text_config=dict(TEXT, model_type="qwen3_5_text", head_dim=16, **DELTA, rope_parameters=dict(
            MROPE, partial_rotary_factor=0.5, mrope_section=[2, 1, 1], mrope_interleaved=True)),
        vision_config=dict(TOWER, intermediate_size=40, num_position_embeddings=36, out_hidden_size=HIDDEN), **QWEN)),
    "qwen3.5-moe-images": lambda: Qwen3_5MoeForConditionalGeneration(Qwen3_5MoeConfig(
        text_config=dict({k: v for k, v in TEXT.items() if k != "intermediate_size"}, model_type="qwen3_5_moe_text",
                         head_dim=32, **DELTA, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
                         shared_expert_intermediate_size=40, rope_parameters=dict(
                             MROPE, partial_rotary_factor=0.25, mrope_section=[2, 1, 1], mrope_interleaved=True)),
        vision_config=dict(TOWER, intermediate_size=40, num_position_embeddings=49, out_hidden_size=HIDDEN), **QWEN)),
    # CLIP's tower up to its last layer but one, without the token of the class.
    "llava-images": lambda: LlavaForConditionalGeneration(LlavaConfig(
        text_config=dict(TEXT, model_type="llama", rope_parameters=MROPE),
        vision_config=dict(CLIP_TOWER, hidden_act="quick_gelu", num_hidden_layers=3), image_token_index=IMAGE,
        tie_word_embeddings=False)),
    # All of it, with that token; another activation, no biases behind it.
    "llava-images-full": lambda: LlavaForConditionalGeneration(LlavaConfig(
        text_config=dict(TEXT, model_type="qwen2", rope_parameters=MROPE),
        vision_config=dict(CLIP_TOWER, hidden_act="gelu", num_hidden_layers=2, layer_norm_eps=1e-3),
        vision_feature_layer=-1, vision_feature_select_strategy="full", multimodal_projector_bias=False,
        image_token_index=IMAGE, tie_word_embeddings=False)),
}
# Tiles of each image.
TILES = {"gemma3-images": [1, 1], "internvl-images": [3, 1], "internvl-images-rms": [1, 2], "llava-images": [1, 1],
         "llava-images-full": [1, 1]}
OF_TILE = {"gemma3-images": 16, "llava-images": 16, "llava-images-full": 17}


def unfolded(pixels, patch):
    """Patches of tiles [tiles, channels, height, width], row by row, each as a convolution's weight is flattened."""
    tiles, channels, height, width = pixels.shape
    cut = pixels.reshape(tiles, channels, height // patch, patch, width // patch, patch)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(tiles * (height // patch) * (width // patch), -1)


class Images:
    """The images of a prompt, as the processor gives them to the model, and as tern takes them."""

    def __init__(self, name, model):
        vision = model.config.vision_config
        self.tiles = name in TILES
        if self.tiles:
            size = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
            patch = vision.patch_size if isinstance(vision.patch_size, int) else vision.patch_size[0]
            self.pixels = [torch.randn(tiles, 3, size, size) for tiles in TILES[name]]
            self.patches = [unfolded(pixels, patch) for pixels in self.pixels]
            self.grids = [[[1, size // patch, size // patch]] * tiles for tiles in TILES[name]]
            of_tile = OF_TILE.get(name, 9)
            self.tokens = [of_tile * tiles for tiles in TILES[name]]
        else:
            self.grids = QWEN_GRIDS
            self.patches = [torch.randn(h * w, 96) for [[_, h, w]] in self.grids]
            self.pixels = self.patches
            self.tokens = [h * w // 4 for [[_, h, w]] in self.grids]

    def arguments(self):
        out = {"pixel_values": torch.cat(self.pixels)}
        if not self.tiles:
            out["image_grid_thw"] = torch.tensor([grid for [grid] in self.grids])
        return out

    def features(self, model):
        alone = []
        for pixels, [grid] in zip(self.pixels, self.grids) if not self.tiles else zip(self.pixels, [[None]] * len(self.pixels)):
            more = {} if grid is None else {"image_grid_thw": torch.tensor([grid])}
            if self.tiles and "intern" in model.config.model_type:
                more = {"vision_feature_layer": -1, "vision_feature_select_strategy": "default"}
            out = model.get_image_features(pixels, return_dict=True, **more).pooler_output
            out = torch.cat(out) if isinstance(out, (tuple, list)) else out
            alone.append(out.reshape(-1, HIDDEN))
        return alone


def types_of(tokens, name):
    image = (tokens == IMAGE).int()
    if name.startswith("gemma3"):
        return {"token_type_ids": image[None]}
    return {"mm_token_type_ids": image[None]} if name.startswith("qwen") else {}


def make(output, name):
    folder = os.path.join(output, name)
    model = random_model(name, MODELS[name])
    if name == "qwen3-vl-moe-images":
        save_as_published(model, folder)
    else:
        model.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    images = Images(name, model)
    text = lambda count: torch.randint(3, 140, (count,))
    tokens = torch.cat([text(7), torch.full((images.tokens[0],), IMAGE), text(5), torch.full((images.tokens[1],), IMAGE), text(11)])
    out = {"tokens": tokens.int()}
    with torch.no_grad():
        out["logits"] = model(input_ids=tokens[None], **images.arguments(), **types_of(tokens, name)).logits[0]
        for i, features in enumerate(images.features(model)):
            out[f"features/{i}"] = features
        decoded = model.generate(input_ids=tokens[None], attention_mask=torch.ones_like(tokens[None]), max_new_tokens=NEXT + 1,
                                 do_sample=False, eos_token_id=None, return_dict_in_generate=True, output_logits=True,
                                 **images.arguments(), **types_of(tokens, name))
        out["next"] = decoded.sequences[0, len(tokens):-1].int()
        out["next.logits"] = torch.cat(decoded.logits)[1:]
        for i in range(2):
            out[f"patches/{i}"], out[f"grids/{i}"] = images.patches[i], torch.tensor(images.grids[i]).int()
        images.pixels = [images.pixels[0].flip(0).neg(), images.pixels[1]]
        out["swapped.logits"] = model(input_ids=tokens[None], **images.arguments(), **types_of(tokens, name)).logits[0]
    made = {"made_by": "script/golden.d/images_models.py", **{each: version(each) for each in ("torch", "transformers", "safetensors")}}
    path = os.path.join(folder, "images.safetensors")
    save_file({n: t.clone().contiguous() for n, t in out.items()}, path, metadata=made)
    os.chmod(path, 0o644)
    if name == "qwen2.5-vl-images":
        make_large(folder, model)
    print(f"{name}: {len(tokens)} tokens, logits to {out['logits'].abs().max():.2f}, features to "
          f"{out['features/0'].abs().max():.2f}, other pixels move logits by {(out['swapped.logits'] - out['logits']).abs().max():.2f}")


LARGE = (114, 150)


def make_large(folder, model):
    height, width = LARGE
    patch, feature = torch.arange(height * width)[:, None], torch.arange(96)[None]
    patches = ((patch * 7919 + feature * 104729) % 2001).float() / 500 - 2
    model.set_attn_implementation("sdpa")
    with torch.no_grad():
        features = model.get_image_features(patches, image_grid_thw=torch.tensor([[1, height, width]]), return_dict=True).pooler_output
    features = torch.cat(features) if isinstance(features, (tuple, list)) else features
    save_file({"grid": torch.tensor([1, height, width]).int(), "features": features[::100].clone().contiguous()},
              os.path.join(folder, "large.safetensors"), metadata={
                  "made_by": "script/golden.d/images_models.py", "transformers": version("transformers")})
    os.chmod(os.path.join(folder, "large.safetensors"), 0o644)


def make_grids(output):
    out = {}
    for i, (h, w, merge, side) in enumerate([(10, 6, 2, 2), (4, 12, 2, 3), (2, 2, 2, 4), (14, 10, 2, 7), (9, 6, 3, 2), (5, 7, 1, 3)]):
        grid = torch.tensor([[1, h, w]])
        order, bounds = get_vision_window_index(grid, merge, window_size=side * merge * 4, patch_size=4)
        rows, weights = get_vision_interpolation_indices_and_weights(grid, 5 + i, "bilinear", True, merge)
        out |= {f"{i}/grid": torch.tensor([h, w, merge, side, 5 + i]), f"{i}/places": get_vision_position_ids(grid, merge),
                f"{i}/order": order, f"{i}/bounds": bounds // (merge * merge), f"{i}/rows": rows, f"{i}/weights": weights}
    out = {n: (t.float() if t.is_floating_point() else t.int()).contiguous() for n, t in out.items()}
    save_file(out, os.path.join(output, "vision-grid.safetensors"), metadata={
        "made_by": "script/golden.d/images_models.py", "transformers": version("transformers")})
    os.chmod(os.path.join(output, "vision-grid.safetensors"), 0o644)


def main():
    output = sys.argv[1]
    transformers.utils.logging.disable_progress_bar()
    torch.use_deterministic_algorithms(True)
    make_grids(output)
    for name in MODELS:
        if len(sys.argv) < 3 or name in sys.argv[2:]:
            make(output, name)


if __name__ == "__main__":
    main()
