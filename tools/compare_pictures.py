#!/usr/bin/env python3
"""Prompts with pictures: transformers beside `kvasir run --image`, on small random models.

usage: compare_pictures.py CONVERTER KVASIR [gemma3 | lfm2 | lfm3 | idefics3 | smolvlm | qwen2vl | qwen2.5vl | qwen3vl | qwen3.5 | gemma4 | gemma4u]

CONVERTER is vendor/llama.cpp of llama-cpp-python's source package, KVASIR the program. Both files are the converter's; the text model's
gets the vocabulary of the bundled model and the marks of pictures besides. Then the same with the folder that transformers saved, which gets
that vocabulary, too. Compares the greedy tokens of both, and the log-probabilities of
the best MOST tokens of every step; prints how far these are apart at most, and fails where a token differs or they are further apart than
BAR of their norm. Needs torch, torchvision, pillow and transformers 5.24.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, HERE + "/families"]
BOOKS = HERE + "/../models/kvasir-books-4m.gguf"
PICTURES = HERE + "/../tests/golden/vision/pictures/"
TEXT = "The old house stood on the hill, and nobody knew why."
PROMPTS = [("97x53.png", TEXT),  # in front of all
           ("307x19.png 40x211.png", "The house <image> stood behind the trees <image>"),  # the last one at the end
           ("150x151.png 97x53.png 64x64.png", "<image><image>Nobody knew why. <image> " + TEXT)]
VISION = ("<|vision_start|>", "<|vision_end|>")
AROUND = "<fake_token_around_image>"  # and a mark for every part, which the encoder says
MARKS = [AROUND, "<global-img>", *[f"<row_{r}_col_{c}>" for r in range(1, 5) for c in range(1, 5)]]
# Encoders of golden_pictures, and the text around their pictures.
KINDS = {"gemma3": ("Gemma3", "\n\n<start_of_image>", "<end_of_image>\n\n"),
         "lfm2": ("Lfm2", "<|image_start|>", "<|image_end|>"), "lfm3": ("Lfm3", *VISION),
         "idefics3": ("Idefics3", AROUND, AROUND), "smolvlm": ("SmolVLM", AROUND, AROUND),
         "qwen2vl": ("Qwen2", *VISION), "qwen2.5vl": ("Qwen25", *VISION), "qwen3vl": ("Qwen3", *VISION), "qwen3.5": ("Qwen35", *VISION),
         "gemma4": ("Gemma4Windows", "<|image>", "<image|>"), "gemma4u": ("Gemma4UnifiedWindows", "<|image>", "<image|>")}
# Text models that are converted alone, and their parts of the whole.
ALONE = {"lfm2": ("Lfm2ForCausalLM", "language_model"), "idefics3": ("LlamaForCausalLM", "text_model"),
         "smolvlm": ("LlamaForCausalLM", "text_model")}
FOLDERS = ["lfm3"]  # which the converter does not know
STEPS = 12
MOST = 20
BAR = 1e-4


def write_text_model(source, target, embedding, marks):
    """The converter's file, with a vocabulary; where it cut the embedding to the one that it did not find, all of it."""
    from gguf import GGUFReader, GGUFValueType, GGUFWriter
    model, books = GGUFReader(source), GGUFReader(BOOKS)
    writer = GGUFWriter(target, model.fields["general.architecture"].contents())

    def add(field, value):
        kind = field.types[0]
        writer.add_key_value(field.name, value, kind, field.types[-1] if kind == GGUFValueType.ARRAY else None)

    for field in model.fields.values():
        if not field.name.startswith(("GGUF.", "tokenizer.")) and field.name != "general.architecture":
            add(field, field.contents())
    for field in books.fields.values():
        if field.name.startswith("tokenizer."):
            value = field.contents()
            more = {"tokenizer.ggml.tokens": ["<pad-of-image>", *marks], "tokenizer.ggml.token_type": [3] * (1 + len(marks))}.get(field.name)
            add(field, [*value, *more] if more else value)
    for tensor in model.tensors:
        writer.add_tensor(tensor.name, embedding if int(tensor.shape[-1]) == 0 else tensor.data.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_tokenizer(folder, marks):
    """The vocabulary of write_text_model, as a folder has it."""
    from gguf import GGUFReader
    fields = GGUFReader(BOOKS).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    special = [tokens[0], *tokens[1:3], "<pad-of-image>", *marks]
    vocab = {token: i for i, token in enumerate([*tokens, *special[3:]])}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    begins = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": tokens[0], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
              "pair": [], "special_tokens": {tokens[0]: {"id": tokens[0], "ids": [0], "tokens": [tokens[0]]}}}
    written = {"version": "1.0", "added_tokens": [dict(id=vocab[t], content=t, single_word=False, lstrip=False, rstrip=False, normalized=False,
                                                       special=True) for t in special],
               "normalizer": None, "pre_tokenizer": level, "post_processor": begins, "decoder": level,
               "model": {"type": "BPE", "vocab": vocab, "merges": fields["tokenizer.ggml.merges"].contents()}}
    for file, content in {"tokenizer.json": written, "tokenizer_config.json": {"bos_token": tokens[0], "add_bos_token": True}}.items():
        with open(f"{folder}/{file}", "w", encoding="utf-8") as out:
            json.dump(content, out)


def build(name, converter, folder):
    """The model of transformers and its picture's rows; FOLDER gets text.gguf and mmproj.gguf."""
    import convert
    import golden_pictures
    import torch
    convert.load(converter)  # before any other gguf
    from gguf import GGUFReader
    from safetensors.torch import load_file, save_file
    golden_pictures.TEXT["vocab_size"] = len(GGUFReader(BOOKS).fields["tokenizer.ggml.tokens"].data) + 1 + len(marks_of(name))
    if name == "gemma3":
        golden_pictures.TEXT["query_pre_attn_scalar"] = 16  # the converter leaves it out and takes the head's size
    torch.set_num_threads(1)  # the converter runs in a fork, where other threads are missing
    torch.manual_seed(1)
    encoder = getattr(golden_pictures, KINDS[name][0])()
    encoder.model.eval().float()
    golden_pictures.shake(encoder.model, 7)
    places = {"--mmproj": folder + "/whole", "": folder + "/whole"}
    encoder.model.save_pretrained(places[""])
    encoder.processor.save_pretrained(places[""])
    if name == "gemma4u":  # the converter asks for a key that published files have, as null, and transformers 5.24 leaves out
        with open(places[""] + "/config.json", encoding="utf-8") as file:
            config = json.load(file)
        config["text_config"]["moe_intermediate_size"] = None
        with open(places[""] + "/config.json", "w", encoding="utf-8") as file:
            json.dump(config, file)
    if hasattr(encoder, "names"):
        weights = places[""] + "/model.safetensors"
        save_file({key.replace(*encoder.names): t for key, t in load_file(weights).items()}, weights, {"format": "pt"})
    if name in ALONE:  # the converter knows its text model alone
        import transformers
        kind, part = ALONE[name]
        alone = getattr(transformers, kind)(encoder.model.config.text_config).float()
        alone.model.load_state_dict(getattr(encoder.model.model, part).state_dict())
        alone.lm_head.weight.data.copy_(encoder.model.lm_head.weight.data)
        places[""] = folder + "/text"
        alone.save_pretrained(places[""])
    if name in FOLDERS:
        write_tokenizer(places[""], marks_of(name))
        return encoder
    no_guesses = ["--no-nextn"] if name == "qwen3.5" else []
    for flag, place in places.items():
        with open(place + "/tokenizer.json", "w", encoding="utf-8") as file:
            file.write(golden_pictures.TOKENIZER)
        said = convert.convert_aside(converter, place, folder + (flag.replace("--", "/") or "/plain") + ".gguf",
                                     [*(flag.split() or no_guesses), "--outtype", "f32"])
        if said:
            sys.exit(said)
    embedding = encoder.model.get_input_embeddings().weight.detach().numpy()
    marks = marks_of(name)
    write_text_model(folder + "/plain.gguf", folder + "/text.gguf", embedding, marks)
    write_tokenizer(folder + "/whole", marks)
    return encoder


def marks_of(name):
    return MARKS if KINDS[name][1] == AROUND else [mark.strip() for mark in KINDS[name][1:]]


def around(encoder, name, image):
    """Texts in front of each part of a picture, and behind the last one."""
    return encoder.marks(image) if hasattr(encoder, "marks") else ([KINDS[name][1]], KINDS[name][2])


def last_logits(name, encoder, x, images, pad):
    """Of the ids x, whose pads stand for the rows of the images."""
    import torch
    if hasattr(encoder, "logits"):
        return encoder.logits(x[0].tolist(), pad, images)
    model = encoder.model
    inputs = model.get_input_embeddings()(x)
    inputs[x == pad] = torch.cat([encoder.rows(image)[1] for image in images])
    mask = None
    if name == "gemma3":
        from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
        inside = (x == pad)[0]
        picture = torch.cumsum(inside & ~torch.roll(inside, 1), 0)  # its number
        both = dict(config=model.config.text_config, inputs_embeds=inputs, attention_mask=None, past_key_values=None,
                    or_mask_function=lambda b, h, q, k: inside[q] & inside[k] & (picture[q] == picture[k]))
        mask = {"full_attention": create_causal_mask(**both), "sliding_attention": create_sliding_window_causal_mask(**both)}
    text = model.model.text_model if hasattr(model.model, "text_model") else model.model.language_model
    return model.lm_head(text(inputs_embeds=inputs, attention_mask=mask).last_hidden_state[0, -1])


def compare(name, converter, kvasir):
    import torch
    from PIL import Image
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        encoder = build(name, converter, folder)
        text_file = folder + ("/whole" if name in FOLDERS else "/text.gguf")
        pad = encoder.model.config.text_config.vocab_size - 1 - len(marks_of(name))

        def call(*arguments):
            said = subprocess.run([kvasir, *arguments], capture_output=True, text=True, check=False)
            if said.returncode != 0:
                sys.exit(f"{name}: kvasir {arguments[0]}: {said.stderr}")
            return json.loads(said.stdout)

        def ids(text):
            return call("tokenize", "-m", text_file, "-p", text, "--special", "--json")["ids"] if text else []

        bos = ids("a")[:1]
        for files, prompt in PROMPTS:
            paths = [PICTURES + file for file in files.split()]
            answers = {place: call("run", *models, *[a for path in paths for a in ("--image", path)], "-p", prompt, "--exact", "--kv", "f32",
                                   "--json", "--logprobs", str(MOST), "-n", str(STEPS), "--temperature", "0", "--ignore-eos")
                       for place, models in {"file": ["-m", text_file, "--mmproj", folder + "/mmproj.gguf"],
                                             "folder": ["-m", folder + "/whole"]}.items()
                       if place == "folder" or name not in FOLDERS}
            images = [Image.open(path) for path in paths]
            texts = (prompt if "<image>" in prompt else "<image>" + prompt).split("<image>")
            all_ids, after = [], ""
            for i, image in enumerate(images):
                parts, behind = around(encoder, name, image)
                for part, mark in enumerate(parts):
                    text = ids((after + texts[i] if part == 0 else "") + mark)
                    all_ids += text[text[:1] == bos and (i > 0 or part > 0):] + [pad] * (len(encoder.rows(image)[1]) // len(parts))
                after = behind
            text = ids(after + texts[-1])
            x = torch.tensor([all_ids + text[text[:1] == bos:]])
            most, worst = dict.fromkeys(answers, 0), dict.fromkeys(answers, 0)
            for place, row in answers.items():
                if x.shape[1] != row["prompt_tokens"]:
                    sys.exit(f"{name} ({place}): {x.shape[1]} tokens, kvasir has {row['prompt_tokens']}")
            for step in range(STEPS):
                ours = torch.log_softmax(last_logits(name, encoder, x, images, pad).float(), -1)
                best = int(ours.argmax())
                for place, row in answers.items():
                    said = row["logprobs"][step]
                    theirs = torch.tensor([one["logprob"] for one in said["top"]])
                    apart = theirs - ours[[one["id"] for one in said["top"]]]
                    most[place] = max(most[place], float(apart.abs().max()))
                    worst[place] = max(worst[place], float(apart.norm() / theirs.norm()))
                    if best != said["id"] or worst[place] > BAR:
                        sys.exit(f"{name} ({place}) {prompt!r}: token {step} is {best} and {said['id']}, apart {most[place]:.1e}, of the norm "
                                 f"{worst[place]:.1e}")
                x = torch.cat([x, torch.tensor([[best]])], 1)
            for place in answers:
                print(f"{name} ({place}) {prompt!r}: {answers[place]['prompt_tokens']} and {STEPS} tokens, apart {most[place]:.1e} at most, "
                      f"{worst[place]:.1e} of the norm", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for one in sys.argv[3:] or KINDS:
        compare(one, *sys.argv[1:3])
