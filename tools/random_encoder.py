#!/usr/bin/env python3
"""A picture encoder of random weights, as large as published ones but with fewer blocks: for measuring.

usage: random_encoder.py KIND FILE [BLOCKS [TYPE]]

KIND is siglip (Gemma 3's: 1152 wide, 896 x 896 pixels, patches of 14), qwen (Qwen3-VL 2B's: 1024 wide, patches of 16), smolvlm (SmolVLM2
500M's: 768 wide, squares of 512, patches of 16) or gemma4u (Gemma 4 Unified's: no blocks, patches of 48, 3840 wide); BLOCKS is 6 (smolvlm
has 12), TYPE of matrices f16 or q8_0. Needs numpy and gguf.
"""
import sys

import numpy
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

SHAPES = {"siglip": dict(dim=1152, feed=4304, patch=14, grid=64, width=2048, projector="gemma3"),
          "qwen": dict(dim=1024, feed=4096, patch=16, grid=48, width=2048, projector="qwen3vl_merger"),
          "smolvlm": dict(dim=768, feed=3072, patch=16, grid=32, width=960, heads=12, projector="idefics3"),
          "gemma4u": dict(dim=3840, feed=0, patch=16, grid=14, width=3840, heads=0, projector="gemma4uv")}
SCALE = 4      # smolvlm: patches on a side of a row
PLACES = 1120  # gemma4u: of each table


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    kind, file = sys.argv[1:3]
    blocks = 0 if kind == "gemma4u" else int(sys.argv[3]) if len(sys.argv) > 3 else 6
    q8_0 = sys.argv[4:5] == ["q8_0"]
    s, noise = SHAPES[kind], numpy.random.default_rng(1)
    dim, feed, patch, grid, width = s["dim"], s["feed"], s["patch"], s["grid"], s["width"]
    w = GGUFWriter(file, "clip")
    w.add_string("general.type", "mmproj")
    w.add_string("clip.projector_type", s["projector"])
    w.add_bool("clip.has_vision_encoder", True)
    w.add_bool("clip.use_gelu", True)
    for key, value in dict(image_size=grid * patch, patch_size=patch, embedding_length=dim, feed_forward_length=feed, projection_dim=width,
                           block_count=blocks).items():
        w.add_uint32("clip.vision." + key, value)
    w.add_uint32("clip.vision.attention.head_count", s.get("heads", 16))
    w.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    w.add_array("clip.vision.image_mean", [0.0 if kind == "gemma4u" else 0.5] * 3)
    w.add_array("clip.vision.image_std", [1.0 if kind == "gemma4u" else 0.5] * 3)

    def matrix(name, rows, columns, shape=None, bias=True):
        x = noise.standard_normal((rows, columns), dtype=numpy.float32) / columns ** 0.5
        if q8_0 and columns % 32 == 0 and name.startswith("v.blk"):
            w.add_tensor(name + ".weight", quantize(x, GGMLQuantizationType.Q8_0), raw_dtype=GGMLQuantizationType.Q8_0)
        else:
            w.add_tensor(name + ".weight", x.reshape(shape or x.shape).astype(numpy.float16))
        if bias:
            vector(name + ".bias", rows, 0)

    def vector(name, n, mean=1):
        w.add_tensor(name, (mean + 0.1 * noise.standard_normal(n)).astype(numpy.float32))

    def norm(name, n):
        vector(name + ".weight", n)
        vector(name + ".bias", n, 0)

    def write():
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()

    if kind == "gemma4u":
        pixels = 3 * (3 * patch) ** 2
        norm("v.patch_norm.1", pixels)
        matrix("v.patch_embd", dim, pixels)
        norm("v.patch_norm.2", dim)
        w.add_tensor("v.position_embd.weight", 0.1 * noise.standard_normal((2, PLACES, dim), dtype=numpy.float32))
        norm("v.patch_norm.3", dim)
        matrix("mm.input_projection", width, dim, bias=False)
        return write()
    matrix("v.patch_embd", dim, 3 * patch * patch, (dim, 3, patch, patch))
    if kind == "qwen":
        w.add_tensor("v.patch_embd.weight.1", numpy.zeros((dim, 3, patch, patch), numpy.float16))
    w.add_tensor("v.position_embd.weight", 0.1 * noise.standard_normal((grid * grid, dim), dtype=numpy.float32))
    for i in range(blocks):
        at = f"v.blk.{i}."
        norm(at + "ln1", dim)
        norm(at + "ln2", dim)
        if kind == "qwen":
            matrix(at + "attn_qkv", 3 * dim, dim)
        else:
            for part in "qkv":
                matrix(f"{at}attn_{part}", dim, dim)
        matrix(at + "attn_out", dim, dim)
        matrix(at + "ffn_up", feed, dim)
        matrix(at + "ffn_down", dim, feed)
    norm("v.post_ln", dim)
    if kind == "qwen":
        w.add_uint32("clip.vision.spatial_merge_size", 2)
        w.add_array("clip.vision.is_deepstack_layers", [False] * blocks)
        matrix("mm.0", 4 * dim, 4 * dim)
        matrix("mm.2", width, 4 * dim)
    elif kind == "smolvlm":
        w.add_uint32("clip.vision.projector.scale_factor", SCALE)
        w.add_uint32("clip.vision.preproc_image_size", 4 * grid * patch)
        matrix("mm.model.fc", width, SCALE * SCALE * dim, bias=False)
    else:
        vector("mm.soft_emb_norm.weight", dim)
        matrix("mm.input_projection", dim, width, bias=False)
    write()


if __name__ == "__main__":
    main()
