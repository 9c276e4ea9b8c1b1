#!/usr/bin/env python3
"""Makes whole checkpoints of tiny models that see, and what transformers answers with them to questions about image files.

Usage: image_answers.py OUTPUT [NAME...]      needs: pillow tokenizers torch torchvision transformers, and OUTPUT/decode, OUTPUT/words

OUTPUT/models/NAME holds every file that a checkpoint brings, and answers.json: a question a row, with the names of its images in
  OUTPUT/decode, the answer's ids as greedy decoding finds them, and their log-probabilities.
"""
import json
import os
import shutil
import sys

sys.path.append(sys.path.pop(0))  # beside this file lies a tokenizers.py
import torch
from transformers import (AutoImageProcessor, Gemma3Config, Gemma3ForConditionalGeneration, Gemma3Processor, InternVLConfig,
                          InternVLForConditionalGeneration, InternVLProcessor, LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor,
                          PreTrainedTokenizerFast, Qwen2_5_VLConfig,
                          Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor, Qwen2VLVideoProcessor, Qwen3_5Config,
                          Qwen3_5ForConditionalGeneration, Qwen3VLConfig, Qwen3VLForConditionalGeneration,
                          Qwen3VLProcessor, Qwen3VLVideoProcessor)
from transformers.image_utils import load_image
from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor

from image_words import NAMED
from images import BYTES, CLIP, HALF, MADE_BY, write_json
from random_weights import random_model

TEXT = dict(vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=2,
            initializer_range=0.3)
MROPE = {"rope_type": "default", "rope_theta": 10000.0}
QWEN = dict(image_token_id=5, video_token_id=6, vision_start_token_id=3, vision_end_token_id=4, tie_word_embeddings=False)
TOWER = dict(depth=2, hidden_size=16, num_heads=2, in_channels=3, patch_size=4, spatial_merge_size=2, temporal_patch_size=2)
BLOCKS = dict(patch_size=4, temporal_patch_size=2, merge_size=2, image_processor_type="Qwen2VLImageProcessor")

# name: (model, its preprocessor_config.json, its processor_config.json)
MODELS = {
    "qwen2_5_vl": (lambda: Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(
        text_config=dict(TEXT, model_type="qwen2_5_vl_text", rope_parameters=dict(MROPE, mrope_section=[1, 1, 2])),
        vision_config=dict(TOWER, intermediate_size=40, window_size=16, fullatt_block_indexes=[1], out_hidden_size=32), **QWEN)),
        dict(BLOCKS, min_pixels=256, max_pixels=640, **CLIP), None),
    "qwen3_vl": (lambda: Qwen3VLForConditionalGeneration(Qwen3VLConfig(
        text_config=dict(TEXT, model_type="qwen3_vl_text", head_dim=16, rope_parameters=dict(
            MROPE, mrope_section=[3, 2, 3], mrope_interleaved=True)),
        vision_config=dict(TOWER, intermediate_size=40, num_position_embeddings=49, deepstack_visual_indexes=[0, 1],
                           out_hidden_size=32), **QWEN)),
        dict(BLOCKS, size={"shortest_edge": 512, "longest_edge": 1024}, **HALF), None),
    "gemma3": (lambda: Gemma3ForConditionalGeneration(Gemma3Config(
        text_config=dict(TEXT, model_type="gemma3_text", head_dim=16, query_pre_attn_scalar=12, sliding_window=23,
                         layer_types=["sliding_attention", "full_attention"],
                         rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                                          "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}),
        vision_config=dict(model_type="siglip_vision_model", hidden_size=32, intermediate_size=40, num_hidden_layers=2,
                           num_attention_heads=2, image_size=32, patch_size=4, vision_use_head=False, layer_norm_eps=1e-5),
        mm_tokens_per_image=16, image_token_index=10, boi_token_index=9, eoi_token_index=11)),
        dict(image_processor_type="Gemma3ImageProcessor", size={"height": 32, "width": 32}, resample=2, **HALF, **BYTES),
        dict(image_seq_length=16)),
    "internvl3": (lambda: InternVLForConditionalGeneration(InternVLConfig(
        text_config=dict(TEXT, model_type="qwen2", rope_parameters=MROPE),
        vision_config=dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, image_size=[24, 24],
                           patch_size=[4, 4], layer_norm_eps=1e-5, attention_bias=True, layer_scale_init_value=0.5),
        image_token_id=14, image_seq_length=9, downsample_ratio=0.5, tie_word_embeddings=False)),
        dict(image_processor_type="GotOcr2ImageProcessorFast", size={"height": 24, "width": 24}, resample=3, min_patches=1,
             max_patches=4, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225], **BYTES),
        dict(image_seq_length=9)),
    # Its processor follows from the model's type.
    "qwen3_5": (lambda: Qwen3_5ForConditionalGeneration(Qwen3_5Config(
        text_config=dict(TEXT, model_type="qwen3_5_text", head_dim=16, layer_types=["linear_attention", "full_attention"],
                         linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
                         rope_parameters=dict(MROPE, partial_rotary_factor=0.5, mrope_section=[2, 1, 1],
                                              mrope_interleaved=True)),
        vision_config=dict(TOWER, intermediate_size=40, num_position_embeddings=49, out_hidden_size=32), **QWEN)),
        dict({k: v for k, v in BLOCKS.items() if k != "image_processor_type"},
             size={"shortest_edge": 512, "longest_edge": 1024}, **HALF), None),
    # Its word for an image is one that the others' tokenizer lacks.
    "llava": (lambda: LlavaForConditionalGeneration(LlavaConfig(
        text_config=dict(TEXT, vocab_size=328, model_type="llama", rope_parameters=MROPE),
        vision_config=dict(model_type="clip_vision_model", hidden_size=32, intermediate_size=40, num_hidden_layers=3,
                           num_attention_heads=2, image_size=24, patch_size=4, projection_dim=16),
        image_token_index=320, tie_word_embeddings=False)),
        dict(image_processor_type="CLIPImageProcessor", size={"shortest_edge": 24}, crop_size={"height": 24, "width": 24},
             do_center_crop=True, resample=3, **CLIP, **BYTES),
        dict(patch_size=4, vision_feature_select_strategy="default", num_additional_image_tokens=1)),
}
TEMPLATES = {"qwen3_5": "qwen3_vl"}  # of others
LLAVA = """{% for message in messages %}{{ message.role | upper ~ ': ' }}{% if message.content is string %}{{ message.content ~ ' ' }}\
{% else %}{% for part in message.content %}{{ '<image>\\n' if part.type == 'image' else '' }}{% endfor %}\
{% for part in message.content %}{{ part.text ~ ' ' if part.type == 'text' else '' }}{% endfor %}{% endif %}{% endfor %}\
{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"""
QUESTIONS = [("<image>What is in this image?", ["rgb-420.jpg"]),
             ("Compare <image> and\n<image>", ["exif-6.jpg", "lossless.webp"]),
             ("And here?<image>", ["la.png"]), ("Tell me of cats and dogs.", [])]


def processor_of(name, folder):
    image_token = "<image_soft_token>" if name == "gemma3" else "<|image_pad|>"
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, extra_special_tokens={**NAMED, "image_token": image_token})
    images = AutoImageProcessor.from_pretrained(folder)
    with open(os.path.join(folder, "chat_template.jinja")) as template:
        text = template.read()
    if name == "llava":
        return LlavaProcessor(images, PreTrainedTokenizerFast.from_pretrained(folder), chat_template=text, **MODELS[name][2])
    length = {"image_seq_length": MODELS[name][2]["image_seq_length"]} if MODELS[name][2] else {}
    if name == "gemma3":
        return Gemma3Processor(images, tokenizer, chat_template=text, **length)
    if name == "internvl3":
        return InternVLProcessor(images, tokenizer, InternVLVideoProcessor(), chat_template=text, **length)
    if name == "qwen2_5_vl":
        return Qwen2_5_VLProcessor(images, tokenizer, Qwen2VLVideoProcessor(), chat_template=text)
    return Qwen3VLProcessor(images, tokenizer, Qwen3VLVideoProcessor(), chat_template=text)


def parts(question):
    out = []
    for i, text in enumerate(question.split("<image>")):
        out += ([{"type": "image"}] if i else []) + ([{"type": "text", "text": text}] if text else [])
    return [{"role": "user", "content": out}]


def answers(output, name, model, folder):
    processor = processor_of(name, folder)
    for question, files in QUESTIONS:
        prompt = processor.apply_chat_template(parts(question), add_generation_prompt=True, tokenize=False)
        images = [load_image(os.path.join(output, "decode", file)) for file in files]
        inputs = processor(text=[prompt], images=[images] if images else None, add_special_tokens=False, return_tensors="pt")
        with torch.no_grad():
            found = model.generate(**inputs, max_new_tokens=8, do_sample=False, eos_token_id=2, pad_token_id=2,
                                   return_dict_in_generate=True, output_logits=True)
        ids = found.sequences[0, inputs["input_ids"].shape[1]:]
        logprobs = [torch.log_softmax(logits[0].double(), 0)[one].item() for logits, one in zip(found.logits, ids)]
        yield {"query": question, "images": files, "ids": ids.tolist(), "logprobs": logprobs}


def main():
    output = sys.argv[1]
    torch.use_deterministic_algorithms(True)
    for name in sys.argv[2:] or MODELS:
        folder = os.path.join(output, "models", name)
        model = random_model(name, MODELS[name][0])
        model.save_pretrained(folder)
        os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
        os.remove(os.path.join(folder, "generation_config.json"))
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(output, "words", file), folder)
        if name == "llava":
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
            tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
            tokenizer.save_pretrained(folder)
            with open(os.path.join(folder, "chat_template.jinja"), "w") as template:
                template.write(LLAVA)
        else:
            shutil.copy(os.path.join(output, "words", TEMPLATES.get(name, name) + ".jinja"),
                        os.path.join(folder, "chat_template.jinja"))
        write_json(os.path.join(folder, "preprocessor_config.json"), MODELS[name][1])
        write_json(os.path.join(folder, "processor_config.json"), MODELS[name][2])
        rows = list(answers(output, name, model, folder))
        write_json(os.path.join(folder, "answers.json"), {"made_by": MADE_BY[2:], "answers": rows})
        print(name, [row["ids"] for row in rows])


if __name__ == "__main__":
    main()
