#!/usr/bin/env python3
"""Small picture files of every kind, and what they look like and become when they are resized, by Pillow and torchvision.

usage: golden_pixels.py FOLDER

FOLDER is tests/golden/vision; golden_pictures.py has written FOLDER/pictures. Writes FOLDER/files/*, FOLDER/decoded.json (of every
file its upright size and its bytes of RGB, as transformers' convert_to_rgb gives them after Pillow's exif_transpose) and
FOLDER/resized.json with FOLDER/resized.u8, the bytes of all in order. Needs pillow, torch, torchvision and transformers 5.24.
"""
import io
import json
import os
import struct
import sys
import zlib

import numpy
import torch
from PIL import Image, ImageOps
from torchvision.transforms.v2 import functional
from transformers.image_transforms import convert_to_rgb

W, H = 13, 9
RESIZED = [("97x53", 31, 47), ("150x151", 33, 17), ("64x64", 40, 29), ("307x19", 12, 40), ("40x211", 40, 25), ("40x211", 9, 211)]


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, bits, colour, rows, *more, interlace=0):
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(more) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def plain_rows(pixels):  # (h, w, channels), 8 or 16 bits
    return b"".join(b"\0" + row.astype(row.dtype.newbyteorder(">")).tobytes() for row in pixels)


def interlaced_rows(pixels):
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    return b"".join(plain_rows(pixels[y::dy, x::dx]) for x, y, dx, dy in passes if pixels[y::dy, x::dx].size)


def saved(image, kind, **how):
    out = io.BytesIO()
    image.save(out, kind, **how)
    return out.getvalue()


def oriented(n):
    exif = Image.Exif()
    exif[0x0112] = n
    return exif.tobytes()


def files():
    """Name: bytes, and the picture as 8 bits of RGB where Pillow does not say."""
    noise = numpy.random.default_rng(5)
    rgba = noise.integers(0, 256, (H, W, 4)).astype(numpy.uint8)
    rgba[:3, :5, 3], rgba[5:, 8:, 3] = 0, 255
    deep = noise.integers(0, 65536, (H, W, 4)).astype(numpy.uint16)
    y, x = numpy.mgrid[0:H, 0:W]
    smooth = numpy.stack([x * 19, y * 28, (x + y) * 12], -1).astype(numpy.uint8)
    colours, alone = Image.fromarray(rgba), Image.fromarray(smooth)
    few = Image.fromarray(smooth).quantize(7)
    yield "rgb.png", saved(alone, "PNG"), None
    yield "rgba.png", saved(colours, "PNG"), None
    yield "grey.png", saved(alone.convert("L"), "PNG"), None
    yield "grey_alpha.png", saved(colours.convert("LA"), "PNG"), None
    yield "bits.png", saved(alone.convert("1"), "PNG"), None
    yield "palette.png", saved(few, "PNG"), None
    yield "palette_clear.png", saved(few, "PNG", transparency=2), None
    yield "colour_clear.png", saved(alone, "PNG", transparency=(0, 0, 0)), None
    yield "interlaced.png", png(W, H, 8, 6, interlaced_rows(rgba), interlace=1), None
    yield "rgb16.png", png(W, H, 16, 2, plain_rows(deep[..., :3])), deep[..., :3] >> 8
    # Pillow 13 makes everything brighter than 255 of 65535 white.
    yield "grey16.png", png(W, H, 16, 0, plain_rows(deep[..., :1])), numpy.repeat(deep[..., :1] >> 8, 3, -1)
    yield "turned.png", saved(alone, "PNG", exif=oriented(6)), None
    for n in range(1, 9):
        yield f"turned{n}.jpg", saved(alone, "JPEG", quality=90, exif=oriented(n)), None
    yield "grey.jpg", saved(alone.convert("L"), "JPEG"), None
    yield "full.jpg", saved(alone, "JPEG", subsampling=0, quality=95), None
    yield "progressive.jpg", saved(alone, "JPEG", progressive=True), None
    yield "inks.jpg", saved(alone.convert("CMYK"), "JPEG", quality=95), None
    yield "lossy.webp", saved(alone, "WEBP", quality=80), None
    yield "lossless.webp", saved(alone, "WEBP", lossless=True), None
    yield "alpha.webp", saved(colours, "WEBP", lossless=True, exact=True), None
    yield "turned.webp", saved(alone, "WEBP", lossless=True, exif=oriented(8)), None


def refused():
    still = numpy.zeros((H, W, 3), numpy.uint8)
    frames = [Image.fromarray(still), Image.fromarray(still + 200)]
    yield "moves.webp", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=100)
    yield "large.png", png(30000, 30000, 8, 2, bytes(1000))
    yield "long.png", png(1 << 20, 1, 1, 0, bytes(1 + (1 << 17)))
    yield "moves.gif", saved(frames[0], "GIF")


def decoded(place):
    found = {}
    for name, data, pixels in files():
        with open(f"{place}/files/{name}", "wb") as file:
            file.write(data)
        if pixels is None:
            pixels = convert_to_rgb(ImageOps.exif_transpose(Image.open(io.BytesIO(data))), return_numpy=True)
        found[name] = dict(width=pixels.shape[1], height=pixels.shape[0], rgb=pixels.astype(numpy.uint8).tobytes().hex())
    for name, data in refused():
        with open(f"{place}/files/{name}", "wb") as file:
            file.write(data)
    return found


def resized(place):
    listed, data = [], b""
    for name, width, height in RESIZED:
        image = Image.open(f"{place}/pictures/{name}.png")
        for bicubic in (False, True):
            how = Image.Resampling.BICUBIC if bicubic else Image.Resampling.BILINEAR
            modes = functional.InterpolationMode
            pixels = torch.from_numpy(numpy.array(image)).permute(2, 0, 1).contiguous()
            by = {"pillow": numpy.array(image.resize((width, height), how)),
                  "torchvision": functional.resize(pixels, [height, width], interpolation=modes.BICUBIC if bicubic else modes.BILINEAR,
                                                   antialias=True).permute(1, 2, 0).contiguous().numpy()}
            for library, result in by.items():
                listed.append(dict(file=name + ".png", width=width, height=height, bicubic=bicubic, library=library))
                data += result.tobytes()
    return listed, data


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    place = sys.argv[1]
    os.makedirs(place + "/files", exist_ok=True)
    with open(place + "/decoded.json", "w", encoding="utf-8") as file:
        json.dump(decoded(place), file, indent=1)
        file.write("\n")
    listed, data = resized(place)
    with open(place + "/resized.json", "w", encoding="utf-8") as file:
        json.dump(listed, file, indent=1)
        file.write("\n")
    with open(place + "/resized.u8", "wb") as file:
        file.write(data)


if __name__ == "__main__":
    main()
