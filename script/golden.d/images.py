#!/usr/bin/env python3
"""Makes the fixtures of images: files of every kind with their pixels, and sizes with what torchvision makes of them.

Usage: images.py OUTPUT      needs: pillow torch torchvision transformers

OUTPUT/decode/NAME.{jpg,png,webp} with NAME.ppm, the pixels as transformers' load_image gives them
OUTPUT/resize.txt: a line a case: width height seed filter new_width new_height hash, of pattern() below
"""
import io
import os
import struct
import sys
import zlib
from importlib.metadata import version

sys.path.pop(0)  # beside this file lies a tokenizers.py
import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as F
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


if __name__ == "__main__":
    make_decode(os.path.join(sys.argv[1], "decode"))
    make_resize(os.path.join(sys.argv[1], "resize.txt"))
