#!/usr/bin/env python3
"""Golden files of picture encoders: small random ones of transformers, as llama.cpp's converter writes them.

usage: golden_pictures.py CONVERTER FOLDER [NAME ...]

CONVERTER is vendor/llama.cpp of llama-cpp-python's source package, FOLDER is tests/golden/vision. Writes FOLDER/pictures/*.png
where they are missing, and of every encoder NAME.gguf (float32), NAME.rows.f32 (the rows of every picture in the order of
NAME.json, then those of deepstack) and NAME.json: of every picture its parts, and of each its size, grid and FNV-1a of its bytes.
Of Qwen's also the text model, NAME.text.gguf (float16, without a vocabulary), what it answers to prompts of ids and pictures,
NAME.answers.json, and with which log-probabilities of all ids at every token, NAME.answers.f32.
Needs torch, torchvision, pillow, transformers 5.24 and gguf.
"""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, HERE + "/families"]
SIZES = [(64, 64), (97, 53), (40, 211), (307, 19), (150, 151)]  # width, height
LARGE = (1500, 500)  # more than one tile
TEXT = dict(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1,
            head_dim=16)
TOKENIZER = '{"model": {"vocab": {}}, "added_tokens": []}'


def picture(width, height):
    """Waves, edges and a little noise: what a resized picture can go wrong in, and PNG can pack."""
    import numpy
    noise = numpy.random.default_rng(width * 1000 + height)
    y, x = numpy.mgrid[0:height, 0:width].astype(float)
    waves = [128 + 90 * numpy.sin(x / (4 + 3 * c) + c) * numpy.cos(y / (9 - 2 * c)) for c in range(3)]
    p = numpy.stack(waves, -1) + 60 * ((x // 11 + y // 7) % 2)[..., None] + noise.integers(-3, 4, (height, width, 3))
    if (width, height) == LARGE:  # without what would make its file large
        p = numpy.stack([x // 6, y // 2, 255 - x // 8], -1) - 60 * ((x // 61 + y // 47) % 2)[..., None]
    return numpy.clip(numpy.round(p), 0, 255).astype(numpy.uint8)


def fnv(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def shake(model, seed):
    """Random numbers for every parameter, so that none can be left out unseen; float16 holds them all."""
    import torch
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            wide = p.ndim > 1 and "pos" not in name
            value = torch.randn(p.shape, generator=noise) * (1.5 / p[0].numel() ** 0.5 if wide else 0.3)
            if "norm" in name or "ln" in name:
                value = torch.randn(p.shape, generator=noise) * 0.2 + (name.endswith("weight") and "soft_emb" not in name)
            p.copy_(value.half().float())


PROMPTS = [["97x53.png", 5, 17, 3, 40, 8], [9, 31, 2, "307x19.png", 11, 12, "40x211.png"],
           ["150x151.png", 7, "64x64.png", 22, *range(10, 60), "97x53.png", 41, 6]]
STEPS = 8


def gemma4_logits(encoder, ids, pad, images):
    """Of the next token behind ids, whose pads stand for the rows of the images; with the masks that generate() makes for a static cache."""
    import torch
    model, x = encoder.model, torch.tensor([ids])
    inputs = model.get_input_embeddings()(x)
    inputs[x == pad] = torch.cat([encoder.rows(image)[1] for image in images])
    masks = model.create_masks_for_generate(config=model.config, inputs_embeds=inputs, attention_mask=None, cache=None,
                                            position_ids=None, mm_token_type_ids=(x == pad).int())
    out = model.model.language_model(inputs_embeds=inputs, attention_mask=masks).last_hidden_state[0, -1]
    logits = model.lm_head(out)
    cap = model.config.text_config.final_logit_softcapping
    return torch.tanh(logits / cap) * cap if cap else logits


class Gemma4Unified:
    layers = ["full_attention"] * 4
    text = {}

    def __init__(self):
        from transformers import Gemma4UnifiedConfig, Gemma4UnifiedForConditionalGeneration
        from transformers.models.gemma4_unified.image_processing_gemma4_unified import Gemma4UnifiedImageProcessor
        vision = dict(patch_size=2, pooling_kernel_size=3, mm_embed_dim=32, mm_posemb_size=80, output_proj_dims=32)
        audio = dict(audio_embed_dim=64, output_proj_dims=64)
        self.model = Gemma4UnifiedForConditionalGeneration(Gemma4UnifiedConfig(text_config=dict(TEXT, layer_types=self.layers, **self.text),
                                                            vision_config=vision, audio_config=audio))
        self.processor = Gemma4UnifiedImageProcessor(patch_size=2)

    def rows(self, image):
        """Of every part its pixels (h, w, 3) as bytes and its grid; rows of all parts; rows of deepstack."""
        import torch
        x = self.processor(image, return_tensors="pt")
        rows = self.model.get_image_features(x.pixel_values, x.image_position_ids).pooler_output[0]
        n = x.num_soft_tokens_per_image[0]
        places = x.image_position_ids[0, :n]
        w, h = int(places[:, 0].max()) + 1, int(places[:, 1].max()) + 1
        side = 6
        pixels = torch.zeros(h * side, w * side, 3)
        for patch, (px, py) in zip(x.pixel_values[0, :n], places.tolist()):
            pixels[py * side:(py + 1) * side, px * side:(px + 1) * side] = patch.reshape(side, side, 3)
        return [((pixels * 255).round().byte().numpy(), [1, h, w])], rows, []


class Gemma4:
    layers = ["full_attention"] * 4
    text = {}

    def __init__(self):
        import torch
        from transformers import Gemma4Config, Gemma4ForConditionalGeneration
        from transformers.models.gemma4.image_processing_gemma4 import Gemma4ImageProcessor
        vision = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
                      patch_size=4, position_embedding_size=256, use_clipped_linears=True, standardize=True)
        text = dict(TEXT, layer_types=self.layers, hidden_size_per_layer_input=0, **self.text)
        self.model = Gemma4ForConditionalGeneration(Gemma4Config(text_config=text, vision_config=vision, audio_config=None))
        self.processor = Gemma4ImageProcessor(patch_size=4)
        for name, b in self.model.named_buffers():
            if "put_min" in name or "put_max" in name:  # some values are cut
                b.fill_((-1 if "min" in name else 1) * 1.75)
            elif "std_" in name:
                b.copy_(torch.linspace(0.5, 1.5, len(b)))

    def rows(self, image):
        import torch
        x = self.processor(image, return_tensors="pt")
        places = x.image_position_ids[0]
        places = places[places[:, 0] >= 0]
        w, h = int(places[:, 0].max()) + 1, int(places[:, 1].max()) + 1
        pixels = torch.zeros(h * 4, w * 4, 3)
        for patch, (px, py) in zip(x.pixel_values[0], places.tolist()):
            pixels[py * 4:(py + 1) * 4, px * 4:(px + 1) * 4] = patch.reshape(4, 4, 3)
        rows = self.model.get_image_features(x.pixel_values, x.image_position_ids).pooler_output
        return [((pixels * 255).round().byte().numpy(), [1, h // 3, w // 3])], torch.cat(list(rows)) if not hasattr(rows, "shape") else rows, []


class Gemma4Windows(Gemma4):
    """With the text model of the large ones; the window is smaller than a prompt here, and as in them larger than a picture."""
    layers = ["sliding_attention", "full_attention"] * 2
    text = dict(sliding_window=290, global_head_dim=32, use_bidirectional_attention="vision", final_logit_softcapping=5.0)

    def logits(self, ids, pad, images):
        return gemma4_logits(self, ids, pad, images)


class Gemma4UnifiedWindows(Gemma4Unified):
    layers, text, logits = Gemma4Windows.layers, Gemma4Windows.text, Gemma4Windows.logits


class Qwen3:
    name, sections = "Qwen3VL", [4, 2, 2]
    vision = dict(hidden_size=32, intermediate_size=48, out_hidden_size=32, num_position_embeddings=25, deepstack_visual_indexes=[1, 3])
    text = {}
    least = 64  # merged patches, as published; with 16384 at most

    def __init__(self):
        import transformers
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
        text = dict(TEXT, rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": self.sections}, **self.text)
        config = getattr(transformers, self.name + "Config")(text_config=text,
                                                             vision_config=dict(self.vision, depth=4, num_heads=2, patch_size=4))
        self.model = getattr(transformers, self.name + "ForConditionalGeneration")(config)
        self.processor = Qwen2VLImageProcessor(patch_size=4, image_mean=[0.5] * 3, image_std=[0.5] * 3,
                                               size={"shortest_edge": self.least * 8 * 8, "longest_edge": 16384 * 8 * 8})

    def rows(self, image):
        x = self.processor(image, return_tensors="pt")
        _, h, w = x.image_grid_thw[0].tolist()
        out = self.model.model.visual(x.pixel_values, x.image_grid_thw)
        return [(self.pixels(x, h, w), [1, h // 2, w // 2])], out.pooler_output, getattr(out, "deepstack_features", [])

    @staticmethod
    def pixels(x, h, w):
        blocks = x.pixel_values.reshape(h // 2, w // 2, 2, 2, 3, 2, 4, 4)[:, :, :, :, :, 0]
        pixels = blocks.permute(0, 2, 5, 1, 3, 6, 4).reshape(h * 4, w * 4, 3)
        return ((pixels * 0.5 + 0.5) * 255).round().byte().numpy()

    def logits(self, ids, pad, images):
        """Of the next token behind ids, whose pads stand for the rows of the images. The model counts the positions."""
        import torch
        self.model.config.image_token_id = pad
        x = torch.tensor([ids])
        pictures = [self.processor(image, return_tensors="pt") for image in images]
        return self.model(input_ids=x, pixel_values=torch.cat([p.pixel_values for p in pictures]), mm_token_type_ids=(x == pad).int(),
                          image_grid_thw=torch.cat([p.image_grid_thw for p in pictures])).logits[0, -1]


class Qwen35(Qwen3):
    """The same tower without deepstack beside a text model with states."""
    name, sections = "Qwen3_5", [2, 1, 1]
    vision = {key: value for key, value in Qwen3.vision.items() if key != "deepstack_visual_indexes"}


class Qwen2(Qwen3):
    name = "Qwen2VL"
    vision = dict(embed_dim=32, hidden_size=32)
    least = 4


class Qwen25(Qwen2):
    name = "Qwen2_5_VL"
    vision = dict(hidden_size=32, intermediate_size=48, out_hidden_size=32, window_size=112, fullatt_block_indexes=[1, 3])


class Lfm3(Qwen3):
    """Convolutions and attention over Qwen's patches. The converter does not know it."""

    def __init__(self):
        from transformers import Lfm3VlConfig, Lfm3VlForConditionalGeneration
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
        vision = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2, patch_size=4)
        text = dict(TEXT, model_type="lfm3", layer_types=["full_attention"] * 4, pad_token_id=0, bos_token_id=1, eos_token_id=2)
        self.model = Lfm3VlForConditionalGeneration(Lfm3VlConfig(text_config=text, vision_config=vision, projector_hidden_size=24))
        self.processor = Qwen2VLImageProcessor(patch_size=4, image_mean=[0.5] * 3, image_std=[0.5] * 3,
                                               size={"shortest_edge": self.least * 8 * 8, "longest_edge": 16384 * 8 * 8})

    def rows(self, image):
        x = self.processor(image, return_tensors="pt")
        _, h, w = x.image_grid_thw[0].tolist()
        rows = self.model.model.get_image_features(x.pixel_values, x.image_grid_thw).pooler_output[0]
        return [(self.pixels(x, h, w), [1, h // 2, w // 2])], rows, []

    def logits(self, ids, pad, images):
        import torch
        self.model.config.image_token_id = pad
        pictures = [self.processor(image, return_tensors="pt") for image in images]
        return self.model(input_ids=torch.tensor([ids]), pixel_values=torch.cat([p.pixel_values for p in pictures]),
                          image_grid_thw=torch.cat([p.image_grid_thw for p in pictures])).logits[0, -1]


class Gemma3:
    # As published, where transformers 5 saves them without vision_model; the converter knows the published names.
    names = ("vision_tower.", "vision_tower.vision_model.")

    def __init__(self):
        from transformers import Gemma3Config, Gemma3ForConditionalGeneration
        from transformers.models.gemma3.image_processing_gemma3 import Gemma3ImageProcessor
        vision = dict(hidden_size=40, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, image_size=48, patch_size=4,
                      vision_use_head=False)
        self.model = Gemma3ForConditionalGeneration(Gemma3Config(text_config=TEXT, vision_config=vision, mm_tokens_per_image=9))
        self.processor = Gemma3ImageProcessor(size={"height": 48, "width": 48})

    def rows(self, image):
        x = self.processor(image, return_tensors="pt")
        pixels = (x.pixel_values[0] * 0.5 + 0.5) * 255
        rows = self.model.get_image_features(x.pixel_values).pooler_output[0]
        return [(pixels.permute(1, 2, 0).round().byte().contiguous().numpy(), [1, 3, 3])], rows, []


class Lfm2:
    names = Gemma3.names
    tiles = True

    def __init__(self):
        from transformers import Lfm2VlConfig, Lfm2VlForConditionalGeneration
        from transformers.models.lfm2_vl.image_processing_lfm2_vl import Lfm2VlImageProcessor
        # The converter knows patches of 16 alone, and the second matrix of the projector only of three layers and more.
        vision = dict(model_type="siglip2_vision_model", hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2,
                      patch_size=16, num_patches=36, vision_use_head=False)
        text = dict(TEXT, model_type="lfm2", layer_types=["full_attention"] * 4)
        self.model = Lfm2VlForConditionalGeneration(Lfm2VlConfig(text_config=text, vision_config=vision, projector_hidden_size=24))
        self.processor = Lfm2VlImageProcessor()

    def rows(self, image):
        import torch
        x = self.processor(image, return_tensors="pt")
        rows = torch.cat(self.model.get_image_features(x.pixel_values, x.spatial_shapes, x.pixel_attention_mask).pooler_output)
        parts = []
        for values, (h, w) in zip(x.pixel_values, x.spatial_shapes.tolist()):
            pixels = values[:h * w].reshape(h, w, 16, 16, 3).permute(0, 2, 1, 3, 4).reshape(h * 16, w * 16, 3)
            parts.append((((pixels * 0.5 + 0.5) * 255).round().byte().numpy(), [1, h // 2, w // 2]))
        return parts, rows, []


class Idefics3:
    """Every picture becomes at least as long as four squares."""
    name, tiles, scale = "Idefics3", True, 2
    square = 48

    def __init__(self):
        import importlib
        import transformers
        kind = self.name.lower()
        vision = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, image_size=48, patch_size=8)
        text = dict(TEXT, model_type="llama", pad_token_id=0)
        config = getattr(transformers, self.name + "Config")(text_config=text, vision_config=vision, scale_factor=self.scale)
        self.model = getattr(transformers, self.name + "ForConditionalGeneration")(config)
        module = importlib.import_module(f"transformers.models.{kind}.image_processing_{kind}")
        self.processor = getattr(module, self.name + "ImageProcessor")(size={"longest_edge": 4 * self.square},
                                                                       max_image_size={"longest_edge": self.square})

    def rows(self, image):
        x = self.processor(image, return_tensors="pt")
        rows = self.model.model.get_image_features(x.pixel_values, x.pixel_attention_mask).pooler_output[0]
        pixels = ((x.pixel_values[0] * 0.5 + 0.5) * 255).round()
        if self.processor.image_mean[0] != 0.5:  # altered settings: their sizes alone are compared
            pixels = pixels * 0
        lines = self.processor.max_image_size["longest_edge"] // 8 // self.scale
        return [(p.permute(1, 2, 0).byte().contiguous().numpy(), [1, lines, lines]) for p in pixels], rows, []

    def marks(self, image):
        """Texts in front of every part, and behind the last one, as the processor writes them."""
        x = self.processor(image, return_tensors="pt", return_row_col_info=True)
        rows, columns = x["rows"][0][0], x["cols"][0][0]
        around = "<fake_token_around_image>"
        texts = [("\n" if c == 0 and r > 0 else "") + f"{around}<row_{r + 1}_col_{c + 1}>" for r in range(rows) for c in range(columns)]
        return [*texts, ("\n\n" if texts else "") + around + "<global-img>"], around


class SmolVLM(Idefics3):
    name, scale = "SmolVLM", 3


ENCODERS = {"lfm2": Lfm2, "idefics3": Idefics3, "gemma4v": Gemma4, "gemma3": Gemma3, "gemma4uv": Gemma4Unified, "qwen2_5vl_merger": Qwen25,
            "qwen2vl_merger": Qwen2, "qwen3vl_merger": Qwen3}


def write_answers(encoder, place):
    import torch
    from PIL import Image
    pad, listed, logprobs = TEXT["vocab_size"] - 1, [], b""
    for prompt in PROMPTS:
        images = [Image.open(f"{os.path.dirname(place)}/pictures/{file}") for file in prompt if isinstance(file, str)]
        counts = iter([len(encoder.rows(image)[1]) for image in images])
        ids = [i for item in prompt for i in ([item] if isinstance(item, int) else [pad] * next(counts))]
        length = len(ids)
        for _ in range(STEPS):
            rows = torch.log_softmax(encoder.logits(ids, pad, images).float(), -1)
            logprobs += rows.numpy().astype("<f4").tobytes()
            ids.append(int(rows.argmax()))
        listed.append(dict(prompt=prompt, ids=ids[length:]))
    with open(place + ".answers.f32", "wb") as file:
        file.write(logprobs)
    with open(place + ".answers.json", "w", encoding="utf-8") as file:
        json.dump({"prompts": listed}, file)
        file.write("\n")


def write(name, converter, out, pictures):
    import convert
    import torch
    from PIL import Image
    from safetensors.torch import load_file, save_file
    torch.manual_seed(1)
    encoder = ENCODERS[name]()
    encoder.model.eval().float()
    shake(encoder.model, 7)
    listed, all_rows = [], b""
    with torch.no_grad():
        for file in pictures if hasattr(encoder, "tiles") else pictures[:-1]:
            image = Image.open(f"{out}/pictures/{file}")
            parts, rows, deep = encoder.rows(image)
            parts = [dict(width=p.shape[1], height=p.shape[0], pixels=fnv(p.tobytes()), grid=grid) for p, grid in parts]
            listed.append(dict(file=file, parts=parts, rows=list(rows.shape), deep=len(deep)))
            for part in [rows, *deep]:
                all_rows += part.contiguous().numpy().astype("<f4").tobytes()
        if hasattr(encoder, "logits"):
            write_answers(encoder, f"{out}/{name}")
    with tempfile.TemporaryDirectory() as folder:
        encoder.model.save_pretrained(folder)
        encoder.processor.save_pretrained(folder)
        if hasattr(encoder, "names"):
            tensors = load_file(folder + "/model.safetensors")
            save_file({key.replace(*encoder.names): t for key, t in tensors.items()}, folder + "/model.safetensors", {"format": "pt"})
        with open(folder + "/tokenizer.json", "w", encoding="utf-8") as file:
            file.write(TOKENIZER)
        files = {".gguf": ["--mmproj", "--outtype", "f32"]}
        if hasattr(encoder, "logits"):
            files[".text.gguf"] = ["--outtype", "f16"]
        for ending, arguments in files.items():
            said = convert.convert_aside(converter, folder, f"{out}/{name}{ending}", arguments)
            if said:
                sys.exit(f"{name}: {said}")
    with open(f"{out}/{name}.rows.f32", "wb") as file:
        file.write(all_rows)
    with open(f"{out}/{name}.json", "w", encoding="utf-8") as file:
        json.dump({"pictures": listed}, file, indent=1)
        file.write("\n")
    print(name, os.path.getsize(f"{out}/{name}.gguf"), len(all_rows), [[part["grid"] for part in p["parts"]] for p in listed])


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    import convert
    import torch
    from PIL import Image
    torch.set_num_threads(1)  # the converter runs in a fork, where other threads are missing
    converter, out = sys.argv[1:3]
    os.makedirs(out + "/pictures", exist_ok=True)
    files = []
    for width, height in [*SIZES, LARGE]:
        files.append(f"{width}x{height}.png")
        place = f"{out}/pictures/{files[-1]}"
        if not os.path.exists(place):
            Image.fromarray(picture(width, height)).save(place, optimize=True)
    convert.load(converter)
    for name in sys.argv[3:] or ENCODERS:
        write(name, converter, out, files)


if __name__ == "__main__":
    main()
