#!/usr/bin/env python3
"""Weights packed by compressed-tensors and MLX themselves, beside the same weights decompressed.

usage: forms.py KVASIR OUT [PART OF A NAME ...]

A tiny Llama of random weights is packed with every preset of the installed compressed-tensors but MXFP6, from float32 and
bfloat16, and in every mode of the installed mlx; its packages' decompressed weights in float32 are the truth. Prints the
relative error (L2) of Kvasir's logits (`--exact --kv f32`). Each package is left out where it is not installed.
compressed-tensors decompresses NVFP4 in bfloat16 whatever the scales are, so its function is called with float32 here.
"""
import json
import os
import subprocess
import sys

import numpy as np

CONFIG = dict(model_type="llama", vocab_size=128, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              head_dim=64, intermediate_size=384, max_position_embeddings=704, rms_norm_eps=1e-5, tie_word_embeddings=False,
              rope_parameters=dict(rope_type="default", rope_theta=10000.0), hidden_act="silu", bos_token_id=1, eos_token_id=2)
SHAPES = {"self_attn.q_proj": (256, 256), "self_attn.k_proj": (128, 256), "self_attn.v_proj": (128, 256), "self_attn.o_proj": (256, 256),
          "mlp.gate_proj": (384, 256), "mlp.up_proj": (384, 256), "mlp.down_proj": (256, 384)}
TOKENS = [(i * 2654435761 >> 7) % 125 + 3 for i in range(24)]


def weights():
    """(stem, array) of matrices, and of the rest with its whole name."""
    noise = np.random.default_rng(5)
    for name, scale in (("model.embed_tokens", 0.7), ("lm_head", 0.08)):
        yield name, noise.standard_normal((128, 256)) * scale
    yield "model.norm.weight", 1 + 0.2 * noise.standard_normal(256)
    for layer in range(2):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{layer}.{norm}.weight", 1 + 0.2 * noise.standard_normal(256)
        for stem, shape in SHAPES.items():
            yield f"model.layers.{layer}.{stem}", 0.02 + noise.standard_normal(shape) * 1.2 / shape[1] ** 0.5


def logits(kvasir, folder, place):
    out = place + "/got.f32"
    run = subprocess.run([kvasir, "logits", "-m", folder, "--exact", "--kv", "f32", "--threads", "2", "--tokens-file",
                          place + "/tokens.json", "--out", out], capture_output=True, text=True)
    return np.fromfile(out, dtype=np.float32) if run.returncode == 0 else run.stderr.strip()[-200:]


def compare(kvasir, place, name, save, packed, plain, config):
    for part, tensors, more in (("packed", packed, config), ("plain", plain, {})):
        os.makedirs(f"{place}/{part}", exist_ok=True)
        save(tensors, f"{place}/{part}/model.safetensors")
        with open(f"{place}/{part}/config.json", "w", encoding="utf-8") as file:
            json.dump({**CONFIG, **more}, file)
    with open(place + "/tokens.json", "w", encoding="utf-8") as file:
        json.dump({"tokens": TOKENS}, file)
    got, want = (logits(kvasir, f"{place}/{part}", place) for part in ("packed", "plain"))
    said = [x for x in (got, want) if isinstance(x, str)]
    print(f"{name:28}", said[0] if said else f"{np.linalg.norm(got - want) / np.linalg.norm(want):.0e}", flush=True)


def scales_of(w, args):
    """Scale, zero point and global scale of the range of the weights."""
    import torch
    from compressed_tensors.quantization.utils import calculate_qparams
    rows, columns = w.shape
    strategy = str(getattr(args.strategy, "value", args.strategy))
    if strategy == "block":
        height, width = args.block_structure
        cut = [[b for b in r.split(width, 1)] for r in w.split(height, 0)]
        low, high = (torch.stack([torch.stack([getattr(b, f)() for b in r]) for r in cut]) for f in ("amin", "amax"))
    elif strategy == "tensor":
        low, high = w.amin().reshape(1), w.amax().reshape(1)
    else:
        group = w.reshape(rows, -1, columns if strategy == "channel" else args.group_size)
        low, high = group.amin(-1), group.amax(-1)
    whole = (448.0 * 6.0 / w.abs().max()).float().reshape(1) if strategy == "tensor_group" else None
    return (*calculate_qparams(low, high, args, **({} if whole is None else {"global_scale": whole})), whole)


def compressed(kvasir, out, wanted):
    import torch
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.compressors.format import infer_module_format
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationConfig, preset_name_to_scheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    from compressed_tensors.quantization.quant_scheme import PRESET_SCHEMES
    from safetensors.torch import save_file
    for preset in PRESET_SCHEMES:
        for dtype in (torch.float32, torch.bfloat16):
            name = f"{preset}-{str(dtype)[6:]}"
            if preset in ("UNQUANTIZED", "INT8") or "MXFP6" in preset or not wanted(name):
                continue
            scheme = preset_name_to_scheme(preset, ["Linear"])
            scheme.format = infer_module_format(torch.nn.Linear, scheme)
            packer = BaseCompressor.get_value_from_registry(scheme.format.value)
            packed, plain = {}, {}
            for stem, array in weights():
                w = torch.tensor(array).to(dtype)
                if ".layers." not in stem or stem.endswith(".weight"):
                    key = stem if stem.endswith(".weight") else stem + ".weight"
                    packed[key], plain[key] = w, w.float()
                    continue
                scale, zero, whole = scales_of(w, scheme.weights)
                state = {"weight": w, "weight_scale": scale if whole is not None else scale.to(dtype), "weight_zero_point": zero}
                if whole is not None:
                    state["weight_global_scale"] = whole
                parts = {k: v for k, v in packer.compress(state, scheme).items() if v is not None}
                wide = {k: v.float() if v.dtype in (torch.bfloat16, torch.float16) else v for k, v in parts.items()}
                if whole is None:
                    plain[stem + ".weight"] = packer.decompress(wide, scheme)["weight"].float().contiguous()
                else:
                    codes = unpack_fp4_from_uint8(parts["weight_packed"], w.shape[0], w.shape[1]).float()
                    plain[stem + ".weight"] = dequantize(x_q=codes, scale=parts["weight_scale"].float(), args=scheme.weights,
                                                         global_scale=whole, dtype=torch.float32)
                packed.update({f"{stem}.{k}": v.contiguous() for k, v in parts.items()})
            config = QuantizationConfig(config_groups={"group_0": scheme}, format=scheme.format.value,
                                        quantization_status="compressed", ignore=["lm_head"])
            config = {**json.loads(config.model_dump_json()), "quant_method": "compressed-tensors"}
            compare(kvasir, f"{out}/{name}", name, lambda t, path: save_file(t, path, {"format": "pt"}), packed, plain,
                    {"quantization_config": config})


def mlx(kvasir, out, wanted):
    import mlx.core as mx
    modes = [("affine", group, bits) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
    for mode, group, bits in [*modes, ("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]:
        for dtype in (mx.float16, mx.bfloat16, mx.float32):
            name = f"mlx-{mode}-{bits}-{group}-{str(dtype).split('.')[-1]}"
            if not wanted(name):
                continue
            how, packed, plain = dict(group_size=group, bits=bits, mode=mode), {}, {}
            for stem, array in weights():
                w = mx.array(array.astype(np.float32)).astype(dtype)
                if stem.endswith(".weight"):
                    packed[stem], plain[stem] = w, w.astype(mx.float32)
                    continue
                parts = dict(zip(("weight", "scales", "biases"), mx.quantize(w, **how)))
                packed.update({f"{stem}.{k}": v for k, v in parts.items()})
                wide = [v if v.dtype in (mx.uint8, mx.uint32) else v.astype(mx.float32) for v in parts.values()]
                plain[stem + ".weight"] = mx.dequantize(*wide, **how, **({} if mode == "affine" else {"dtype": mx.float32}))
            compare(kvasir, f"{out}/{name}", name, lambda t, path: mx.save_safetensors(path, t), packed, plain,
                    {"quantization": how, "quantization_config": how})


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    wanted = lambda name: len(sys.argv) == 3 or any(part in name for part in sys.argv[3:])
    for package in (compressed, mlx):
        try:
            package(sys.argv[1], sys.argv[2], wanted)
        except ImportError as e:
            print(f"{package.__name__}: left out, {e}")


if __name__ == "__main__":
    main()
