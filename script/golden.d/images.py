#!/usr/bin/env python3
"""Makes the fixtures of images: files of every kind with their pixels, and sizes with what torchvision makes of them.

Usage: images.py OUTPUT      needs: pillow torch torchvision transformers

OUTPUT/decode/NAME.{jpg,png,webp} with NAME.ppm, the pixels as transformers' load_image gives them
OUTPUT/resize.txt: a line a case: width height seed filter new_width new_height hash, of pattern() below
OUTPUT/shrink.txt: a line a case: width height seed max_pixels new_width new_height, and the bytes of all pixels in hex, as ms-swift's --max_pixels makes an
  image smaller (torchvision's Resize of a Pillow image, to the sides that the page of its parameters tells)
OUTPUT/processors/FAMILY: the files that a checkpoint brings, with the values that are published
OUTPUT/processors.txt: a line a case: FAMILY width height seed, and what transformers' processor makes of pattern(): the
  first picture's grid (t h w), how many there are, tokens, XXH3 (64 bits) of the patches; or "refused"
"""
import io
import json
import math
import os
import struct
import sys
import zlib
from importlib.metadata import version

sys.path.pop(0)  # beside this file lies a tokenizers.py
import numpy as np
import torch
import xxhash
from PIL import Image
from torchvision.transforms import Resize
from torchvision.transforms.v2 import functional as F
from transformers import AutoImageProcessor
from transformers.image_utils import load_image

WIDTH, HEIGHT = 29, 19
MADE_BY = "# script/golden.d/images.py with " + " ".join(
    f"{name} {version(name)}" for name in ("pillow", "torch", "torchvision", "transformers"))


def pattern(width, height, seed):
    """[height, width, 3] bytes that any language can make: noise, with blocks of black and white in it."""
    y, x, c = np.meshgrid(*(np.arange(n, dtype=np.uint32) for n in (height, width, 3)), indexing="ij")
    noise = (x * x * 3 + y * y * 5 + x * y * 7 + c * 97 + np.uint32(seed) * 31) & 255
    block = (x // 5 + y // 7 + np.uint32(seed)) % 4
    return np.where(block == 0, 0, np.where(block == 1, 255, noise)).astype(np.uint8)


def smooth(width=WIDTH, height=HEIGHT):
    y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    return np.stack([x * 255 // (width - 1), y * 255 // (height - 1), (x * 7 + y * 11) & 255], axis=-1).astype(np.uint8)


def fnv(data):
    hashed = 0xCBF29CE484222325
    for byte in data:
        hashed = (hashed ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{hashed:016x}"


# PNG's rarer kinds, which Pillow does not write.
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def scanlines(samples, depth):
    """samples [height, width, channels]"""
    out = b""
    for row in samples.reshape(samples.shape[0], -1):
        if depth == 16:
            packed = row.astype(">u2").tobytes()
        else:
            bits = "".join(f"{int(v):0{depth}b}" for v in row)
            packed = bytes(int(bits[i:i + 8].ljust(8, "0"), 2) for i in range(0, len(bits), 8))
        out += b"\0" + packed
    return out


ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def png(samples, depth, colour, before=b"", interlaced=False):
    height, width = samples.shape[:2]
    passes = [samples[y::dy, x::dx] for x, y, dx, dy in ADAM7] if interlaced else [samples]
    data = b"".join(scanlines(one, depth) for one in passes if one.size)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", zlib.compress(data, 9)) +
            chunk(b"IEND", b""))


def exif(orientation, kind=3, endian=">"):
    value = struct.pack(endian + "H", orientation) + b"\0\0" if kind == 3 else struct.pack(endian + "I", orientation)
    return ((b"MM\0*" if endian == ">" else b"II*\0") + struct.pack(endian + "IHHHI", 8, 1, 0x0112, kind, 1) + value +
            b"\0" * 4)


XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def decode_files():
    rgb = Image.fromarray(smooth())
    alpha = smooth()[..., 2]
    rgba = Image.fromarray(np.dstack([smooth(), alpha]))
    la = Image.fromarray(np.dstack([smooth()[..., 0], alpha]))
    noise = pattern(WIDTH, HEIGHT, 1)
    yield "rgb-420.jpg", saved(rgb, "JPEG", quality=85)
    yield "rgb-422.jpg", saved(rgb, "JPEG", quality=85, subsampling=1)
    yield "rgb-444.jpg", saved(Image.fromarray(noise), "JPEG", quality=95, subsampling=0)
    yield "progressive.jpg", saved(rgb, "JPEG", quality=85, progressive=True)
    yield "restarts.jpg", saved(rgb, "JPEG", quality=85, restart_marker_blocks=1)
    yield "grey.jpg", saved(rgb.convert("L"), "JPEG", quality=85)
    yield "cmyk.jpg", saved(rgb.convert("CMYK").point(lambda v: 255 - v // 2), "JPEG", quality=95)
    yield "cmyk-444.jpg", saved(Image.fromarray(np.dstack([noise, noise[::-1, :, 0]]), "CMYK"), "JPEG", quality=98, subsampling=0)
    small = Image.fromarray(smooth(12, 7))
    for orientation in range(1, 9):
        endian, kind = (">", 3) if orientation % 2 else ("<", 4)
        yield f"exif-{orientation}.jpg", saved(small, "JPEG", quality=90, exif=b"Exif\0\0" + exif(orientation, kind, endian))
    yield "exif-none.jpg", saved(small, "JPEG", quality=90, exif=b"Exif\0\0" + exif(9))
    yield "xmp.jpg", saved(small, "JPEG", quality=90, xmp=XMP)
    yield "rgb.png", saved(rgb, "PNG")
    yield "rgba.png", saved(rgba, "PNG")
    yield "la.png", saved(la, "PNG")
    yield "grey.png", saved(rgb.convert("L"), "PNG")
    yield "bits.png", saved(rgb.convert("1"), "PNG")
    yield "grey-2.png", png(noise[..., :1] >> 6, 2, 0)
    yield "grey-4.png", png(noise[..., :1] >> 4, 4, 0)
    wide = noise[..., :1].astype(np.uint16)
    yield "grey-16.png", png(np.where(noise[..., :1] < 128, wide, wide * 257), 16, 0)
    yield "la-16.png", png(np.dstack([wide * 250 + 7, wide * 101]), 16, 4)
    yield "rgb-16.png", png(noise.astype(np.uint16) * 250 + 13, 16, 2)
    yield "rgba-16.png", png(np.dstack([noise.astype(np.uint16) * 250 + 13, wide * 200]), 16, 6)
    colours = np.arange(48, dtype=np.uint8) * 5
    yield "palette.png", png(noise[..., :1] & 15, 8, 3, chunk(b"PLTE", colours.tobytes()))
    yield "palette-1.png", png(noise[..., :1] & 1, 1, 3, chunk(b"PLTE", colours[:6].tobytes()))
    yield "palette-4.png", png(noise[..., :1] & 15, 4, 3, chunk(b"PLTE", colours.tobytes()) + chunk(b"tRNS", b"\0\x80"))
    yield "palette-beyond.png", png(noise[..., :1], 8, 3, chunk(b"PLTE", colours.tobytes()))
    yield "transparent.png", png(noise, 8, 2, chunk(b"tRNS", b"\0\xff" * 3))
    yield "gamma.png", png(noise, 8, 2, chunk(b"gAMA", struct.pack(">I", 100000)))
    yield "interlaced.png", png(noise, 8, 2, interlaced=True)
    yield "interlaced-palette.png", png(noise[..., :1] & 3, 2, 3, chunk(b"PLTE", colours[:12].tobytes()), True)
    yield "exif.png", png(smooth(12, 7), 8, 2, chunk(b"eXIf", exif(8)))
    yield "xmp.png", png(smooth(12, 7), 8, 2, chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP))
    yield "lossy.webp", saved(rgb, "WEBP", quality=80)
    yield "lossless.webp", saved(Image.fromarray(noise), "WEBP", lossless=True)
    yield "alpha.webp", saved(rgba, "WEBP", lossless=True, exact=True)
    yield "alpha-lossy.webp", saved(rgba, "WEBP", quality=80)
    yield "exif.webp", saved(small, "WEBP", lossless=True, exif=b"Exif\0\0" + exif(3))
    yield "xmp.webp", saved(small, "WEBP", lossless=True, xmp=XMP)
    frames = [rgba, Image.fromarray(np.dstack([noise, alpha]))]
    yield "animated.webp", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)


def make_decode(folder):
    os.makedirs(folder, exist_ok=True)
    for name, data in decode_files():
        path = os.path.join(folder, name)
        with open(path, "wb") as out:
            out.write(data)
        image = load_image(path)
        with open(path + ".ppm", "wb") as out:
            out.write(b"P6\n%d %d\n255\n" % image.size + image.tobytes())
        print(name, len(data), image.size)


# PyTorch itself fails at a picture of one pixel, which to it has no order of dimensions.
SIZES = [(2, 2, 28, 28), (1, 2, 1, 3), (2, 3, 7, 5), (37, 23, 56, 28), (37, 23, 37, 46), (37, 23, 74, 23), (64, 64, 28, 28),
         (64, 64, 32, 32), (100, 7, 28, 28), (7, 100, 28, 84), (200, 150, 196, 140), (200, 150, 201, 151), (150, 200, 3, 2),
         (333, 111, 112, 448), (500, 3, 448, 64), (3, 500, 64, 448), (257, 129, 1, 2), (640, 480, 224, 224)]


def make_resize(path):
    with open(path, "w") as out:
        print(MADE_BY, file=out)
        for seed, (width, height, new_width, new_height) in enumerate(SIZES):
            image = torch.from_numpy(pattern(width, height, seed)).permute(2, 0, 1).contiguous()
            for name in ("bilinear", "bicubic"):
                found = F.resize(image, [new_height, new_width], F.InterpolationMode(name), antialias=True)
                print(width, height, seed, name, new_width, new_height, fnv(found.permute(1, 2, 0).contiguous().numpy().tobytes()),
                      file=out)


# Of more pixels than the limit, as many, and fewer; so long that hardly a pixel is left of one side.
SHRUNK = [(64, 48, 1000), (40, 30, 1200), (40, 30, 1199), (33, 77, 500), (1000, 10, 400), (9, 900, 101), (5, 3, 14),
          (2000, 1500, 800), (101, 101, 1), (20, 10, 0)]


def make_shrink(path):
    with open(path, "w") as out:
        print(MADE_BY, file=out)
        for seed, (width, height, most) in enumerate(SHRUNK):
            image = Image.fromarray(pattern(width, height, seed))
            if 0 < most < width * height:
                rows = math.sqrt(most / (width / height))
                image = Resize((int(rows), int(rows * (width / height))))(image)
            print(width, height, seed, most, *image.size, np.asarray(image).tobytes().hex(), file=out)


CLIP = dict(image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711])
HALF = dict(image_mean=[0.5, 0.5, 0.5], image_std=[0.5, 0.5, 0.5])
BYTES = dict(do_normalize=True, do_rescale=True, do_resize=True, rescale_factor=0.00392156862745098)
QWEN3 = dict(size={"longest_edge": 16777216, "shortest_edge": 65536}, patch_size=16, temporal_patch_size=2, merge_size=2,
             **HALF, processor_class="Qwen3VLProcessor", image_processor_type="Qwen2VLImageProcessorFast")
# family: (preprocessor_config.json, in config.json the tower's patch_size or the model's type, processor_config.json)
FAMILIES = {
    "qwen2_5_vl": (dict(min_pixels=3136, max_pixels=12845056, patch_size=14, temporal_patch_size=2, merge_size=2, **CLIP,
                        image_processor_type="Qwen2VLImageProcessor", processor_class="Qwen2_5_VLProcessor"), None, None),
    "qwen3_vl": (QWEN3, None, None),
    # As transformers 5 saves it, in a range that small pictures cross.
    "qwen3_vl_nested": (None, None, dict(processor_class="Qwen3VLProcessor", image_processor=QWEN3 | dict(
        size={"longest_edge": 20480, "shortest_edge": 4096}, do_resize=True, resample=3, data_format="channels_first"))),
    "gemma3": (dict(do_convert_rgb=None, do_pan_and_scan=None, image_processor_type="Gemma3ImageProcessor", image_seq_length=256,
                    pan_and_scan_max_num_crops=None, pan_and_scan_min_crop_size=None, pan_and_scan_min_ratio_to_activate=None,
                    processor_class="Gemma3Processor", resample=2, size={"height": 896, "width": 896}, **HALF, **BYTES),
               14, dict(image_seq_length=256, processor_class="Gemma3Processor")),
    "internvl3": (dict(crop_size=None, crop_to_patches=False, data_format="channels_first", default_to_square=True, device=None,
                       do_center_crop=None, do_convert_rgb=True, image_mean=[0.485, 0.456, 0.406],
                       image_std=[0.229, 0.224, 0.225], image_processor_type="GotOcr2ImageProcessorFast",
                       input_data_format=None, max_patches=12, min_patches=1, processor_class="InternVLProcessor", resample=3,
                       return_tensors=None, size={"height": 448, "width": 448}, **BYTES),
                  [14, 14], dict(image_seq_length=256, processor_class="InternVLProcessor")),
    # What the processors' classes say where the files say nothing.
    "qwen_defaults": (dict(image_processor_type="Qwen2VLImageProcessor"), None, None),
    "gemma3_defaults": (dict(image_processor_type="Gemma3ImageProcessor"), 14, None),
    "internvl3_defaults": (dict(image_processor_type="GotOcr2ImageProcessor", size={"height": 56, "width": 56}), 14, None),
    "llava1_5": (dict(crop_size={"height": 336, "width": 336}, do_center_crop=True, do_convert_rgb=True, resample=3,
                      size={"shortest_edge": 336}, image_processor_type="CLIPImageProcessor", processor_class="LlavaProcessor", **CLIP,
                      **BYTES), 14, dict(processor_class="LlavaProcessor", patch_size=14, vision_feature_select_strategy="default",
                                         num_additional_image_tokens=1)),
    "clip_defaults": (dict(image_processor_type="CLIPImageProcessor"), 14, None),
    "clip_short": (dict(image_processor_type="CLIPImageProcessor", size=60, crop_size=42), 14, None),
    # Forms that published files have: limits named twice, and in words of their own; a name that no release has any more, or
    # none beside the model's type; steps left out; one number for three, or for two.
    "qwen2_vl_published": (dict(min_pixels=3136, max_pixels=12845056, size={"max_pixels": 12845056, "min_pixels": 3136},
                                patch_size=14, temporal_patch_size=2, merge_size=2, **CLIP,
                                image_processor_type="Qwen2VLImageProcessorFast", auto_map={}), None, None),
    "qwen3_5": ({k: v for k, v in QWEN3.items() if k != "image_processor_type"}, "qwen3_5", None),
    "qwen_old_name": (dict(feature_extractor_type="Qwen2VLFeatureExtractor", min_pixels=4096, size={"longest_edge": 40960}),
                      None, None),
    "qwen_as_it_is": (dict(image_processor_type="Qwen2VLImageProcessor", do_resize=False), None, None),
    "qwen_scaled": (dict(image_processor_type="Qwen2VLImageProcessor", do_normalize=False), None, None),
    "qwen_bytes": (dict(image_processor_type="Qwen2VLImageProcessor", do_rescale=False, image_mean=[120.0, 110.5, 130.0],
                        image_std=[50.0, 60.0, 70.0]), None, None),
    "qwen_raw": (dict(image_processor_type="Qwen2VLImageProcessor", do_rescale=False, do_normalize=False), None, None),
    "gemma3_short": (dict(image_processor_type="Gemma3ImageProcessor", size=[56, 84], image_mean=0.25, image_std=0.5), 14, None),
    "gemma3_as_it_is": (dict(image_processor_type="Gemma3ImageProcessor", size=112, do_resize=False), 14, None),
}
PICTURES = {
    "llava1_5": [(2, 1), (336, 336), (640, 480), (300, 901), (1000, 335), (901, 300)],
    "clip_defaults": [(225, 300)],
    "clip_short": [(100, 61), (61, 100)],
    "qwen2_vl_published": [(70, 42), (2, 1)],
    "qwen3_5": [(240, 272), (3, 2)],
    "qwen_old_name": [(300, 200), (30, 20)],
    "qwen_as_it_is": [(56, 28), (1120, 84), (57, 56)],
    "qwen_scaled": [(60, 60)],
    "qwen_bytes": [(60, 60)],
    "qwen_raw": [(60, 60)],
    "gemma3_short": [(60, 60)],
    "gemma3_as_it_is": [(112, 112)],
    "qwen_defaults": [(90, 60), (1400, 900)],
    "gemma3_defaults": [(90, 60)],
    "internvl3_defaults": [(90, 60)],
    "qwen2_5_vl": [(2, 1), (28, 28), (56, 56), (57, 55), (70, 42), (98, 14), (3, 500), (600, 3), (601, 3), (640, 480), (1023, 767),
                    (2100, 1600), (5000, 3700)],
    "qwen3_vl": [(1, 2), (256, 256), (240, 272), (48, 1500), (1000, 5), (1001, 5), (511, 700)],
    "qwen3_vl_nested": [(64, 64), (16, 16), (80, 112), (48, 80), (144, 143), (500, 300), (2000, 11), (11, 2000), (2201, 11)],
    "gemma3": [(2, 1), (896, 896), (896, 300), (1200, 900), (30, 2000)],
    "internvl3": [(2, 1), (448, 448), (447, 449), (800, 800), (897, 448), (300, 900), (1000, 750), (1300, 60), (1600, 400)],
}


def write_json(path, value):
    if value is not None:
        with open(path, "w") as out:
            print(json.dumps(value, indent=2), file=out)


def cut(pictures, side):
    """[pictures, 3, height, width] to patches [n, 3 * side * side], row by row: what the tower's convolution sees."""
    n, c, height, width = pictures.shape
    cells = pictures.reshape(n, c, height // side, side, width // side, side)
    return cells.permute(0, 2, 4, 1, 3, 5).reshape(-1, c * side * side)


def processed(family, processor, image):
    """(the first grid, how many, tokens, patches)"""
    if family.startswith("qwen"):
        found = processor(images=[image], return_tensors="pt")
        grid = found["image_grid_thw"][0].tolist()
        return grid, 1, found["image_grid_thw"][0].prod().item() // processor.merge_size ** 2, found["pixel_values"].float()
    if family.startswith(("llava", "clip")):
        pixels = processor(images=[image], return_tensors="pt")["pixel_values"]
        return [1, pixels.shape[2] // 14, pixels.shape[3] // 14], 1, pixels.shape[2] * pixels.shape[3] // 196, cut(pixels, 14)
    # Those of the processors' classes, which outdo the files.
    kwargs = {"crop_to_patches": True} if family.startswith("internvl3") else {"do_convert_rgb": True, "do_pan_and_scan": False}
    pixels = processor(images=[image], return_tensors="pt", **kwargs)["pixel_values"]
    return [1, pixels.shape[2] // 14, pixels.shape[3] // 14], len(pixels), 256 * len(pixels), cut(pixels, 14)


def make_processors(folder):
    with open(folder + ".txt", "w") as out:
        print(MADE_BY, file=out)
        for family, (image_config, patch_size, config) in FAMILIES.items():
            files = os.path.join(folder, family)
            os.makedirs(files, exist_ok=True)
            write_json(os.path.join(files, "preprocessor_config.json"), image_config)
            write_json(os.path.join(files, "processor_config.json"), config)
            write_json(os.path.join(files, "config.json"), {"model_type": patch_size} if isinstance(patch_size, str) else
                       patch_size and {"vision_config": {"patch_size": patch_size}})
            processor = AutoImageProcessor.from_pretrained(files)
            assert processor.backend == "torchvision"
            for seed, (width, height) in enumerate(PICTURES[family]):
                try:
                    grid, pictures, tokens, patches = processed(family, processor, Image.fromarray(pattern(width, height, seed)))
                    said = f"{' '.join(map(str, grid))} {pictures} {tokens} {xxhash.xxh3_64(patches.contiguous().numpy()).hexdigest()}"
                except (ValueError, RuntimeError) as error:
                    said = "refused"
                    print(family, width, height, error)
                print(family, width, height, seed, said, file=out)


if __name__ == "__main__":
    make_processors(os.path.join(sys.argv[1], "processors"))
    make_decode(os.path.join(sys.argv[1], "decode"))
    make_resize(os.path.join(sys.argv[1], "resize.txt"))
    make_shrink(os.path.join(sys.argv[1], "shrink.txt"))
