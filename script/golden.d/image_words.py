#!/usr/bin/env python3
"""Makes the fixtures of prompts with images: ids as transformers' processors make them.

Usage: image_words.py OUTPUT      needs: pillow tokenizers torch torchvision transformers, and OUTPUT/processors of images.py

OUTPUT/words/tokenizer.json, tokenizer_config.json: of a few hundred pieces, with the words for images of all families
OUTPUT/words/FAMILY.jinja: chat templates, written for these tests from the families' documented formats
OUTPUT/words/prompts.json: a case a row: family, messages (content parts), size [width, height] of each image's pattern(), and
  runs [id, how often] of the prompt's ids
"""
import json
import os
import sys

sys.path.append(sys.path.pop(0))  # beside this file lies a tokenizers.py
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (AutoImageProcessor, Gemma3Processor, InternVLProcessor, PreTrainedTokenizerFast, Qwen2_5_VLProcessor,
                          Qwen2VLVideoProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor)
from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor

from images import MADE_BY, pattern

WORDS = ["<bos>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>",
         "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<image_soft_token>", "<end_of_image>", "<img>", "</img>",
         "<IMG_CONTEXT>", "<video>"]
NAMED = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "start_image_token": "<img>",
         "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}
TEXT = ["What is in this image?\n\nA cat and a dog.\n", "Compare the two pictures, please: which is larger?\nThe first one."]


def make_tokenizer(folder):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(TEXT * 4, trainers.BpeTrainer(
        vocab_size=len(WORDS) + 256 + 48, special_tokens=WORDS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<bos>", eos_token="<|im_end|>").save_pretrained(folder)


def processor_of(family, folder):
    image_token = "<image_soft_token>" if family == "gemma3" else "<|image_pad|>"
    tokenizer = PreTrainedTokenizerFast.from_pretrained(
        os.path.join(folder, "words"), extra_special_tokens={**NAMED, "image_token": image_token})
    with open(os.path.join(folder, "words", family.split("_nested")[0] + ".jinja")) as template:
        text = template.read()
    images = AutoImageProcessor.from_pretrained(os.path.join(folder, "processors", family))
    if family == "gemma3":
        return Gemma3Processor(images, tokenizer, chat_template=text)
    if family == "internvl3":
        return InternVLProcessor(images, tokenizer, InternVLVideoProcessor(), chat_template=text)
    if family == "qwen2_5_vl":
        return Qwen2_5_VLProcessor(images, tokenizer, Qwen2VLVideoProcessor(), chat_template=text)
    return Qwen3VLProcessor(images, tokenizer, Qwen3VLVideoProcessor(), chat_template=text)


def text(words):
    return {"type": "text", "text": words}


IMAGE = {"type": "image"}
DIALOGUES = [
    ([{"role": "user", "content": [IMAGE, text("What is in this image?")]}], [(64, 64)]),
    ([{"role": "user", "content": [text("Compare "), IMAGE, text(" and\n"), IMAGE]}], [(300, 200), (40, 90)]),
    ([{"role": "system", "content": [text("Be brief.")]}, {"role": "user", "content": [IMAGE]},
      {"role": "assistant", "content": [text("A cat.")]}, {"role": "user", "content": [text("And here?\n"), IMAGE, text("!")]}],
     [(64, 48), (500, 300)]),
]


def runs(ids):
    out = []
    for one in ids:
        if out and out[-1][0] == one:
            out[-1][1] += 1
        else:
            out.append([one, 1])
    return out


def main():
    folder = sys.argv[1]
    os.makedirs(os.path.join(folder, "words"), exist_ok=True)
    make_tokenizer(os.path.join(folder, "words"))
    rows = []
    for family in ("qwen2_5_vl", "qwen3_vl_nested", "gemma3", "internvl3"):
        processor = processor_of(family, folder)
        for messages, sizes in DIALOGUES:
            prompt = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
            found = processor(text=[prompt], images=[[Image.fromarray(pattern(*size, 1)) for size in sizes]],
                              add_special_tokens=False)
            rows.append({"family": family, "messages": messages, "sizes": sizes, "runs": runs(found["input_ids"][0])})
            print(family, len(found["input_ids"][0]))
    with open(os.path.join(folder, "words", "prompts.json"), "w") as out:
        out.write('{"made_by": ' + json.dumps(MADE_BY[2:]) + ',\n"prompts": [\n')
        out.write(",\n".join(json.dumps(row) for row in rows) + "\n]}\n")


if __name__ == "__main__":
    main()
