#!/usr/bin/env python3
"""A prompt with a picture: transformers beside `kvasir run --image`, on small random models.

usage: compare_pictures.py CONVERTER KVASIR [gemma3 | lfm2]

CONVERTER is vendor/llama.cpp of llama-cpp-python's source package, KVASIR the program. Both files are the converter's; the text model's
gets the vocabulary of the bundled model and the marks of pictures besides. Prints every greedy token of both and how far their
log-probabilities are apart; fails where a token differs. Needs torch, torchvision, pillow and transformers 5.24.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, HERE + "/families"]
BOOKS = HERE + "/../models/kvasir-books-4m.gguf"
PICTURE = HERE + "/../tests/golden/vision/pictures/97x53.png"
TEXT = "The old house stood on the hill, and nobody knew why."
AROUND = {"gemma3": ("\n\n<start_of_image>", "<end_of_image>\n\n"), "lfm2": ("<|image_start|>", "<|image_end|>")}
STEPS = 12


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
            more = {"tokenizer.ggml.tokens": ["<pad-of-image>", *marks], "tokenizer.ggml.token_type": [3, 3, 3]}.get(field.name)
            add(field, [*value, *more] if more else value)
    for tensor in model.tensors:
        writer.add_tensor(tensor.name, embedding if int(tensor.shape[-1]) == 0 else tensor.data.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def build(name, converter, folder):
    """The model of transformers and its picture's rows; FOLDER gets text.gguf and mmproj.gguf."""
    import convert
    import golden_pictures
    import torch
    convert.load(converter)  # before any other gguf
    from gguf import GGUFReader
    from safetensors.torch import load_file, save_file
    golden_pictures.TEXT["vocab_size"] = len(GGUFReader(BOOKS).fields["tokenizer.ggml.tokens"].data) + 3
    if name == "gemma3":
        golden_pictures.TEXT["query_pre_attn_scalar"] = 16  # the converter leaves it out and takes the head's size
    torch.manual_seed(1)
    encoder = golden_pictures.ENCODERS[name]()
    encoder.model.eval().float()
    golden_pictures.shake(encoder.model, 7)
    places = {"--mmproj": folder + "/whole", "": folder + "/whole"}
    encoder.model.save_pretrained(places[""])
    encoder.processor.save_pretrained(places[""])
    weights = places[""] + "/model.safetensors"
    tensors = load_file(weights)
    save_file({key.replace(*encoder.names): t for key, t in tensors.items()}, weights, {"format": "pt"})
    if name == "lfm2":  # the converter knows its text model alone
        from transformers import Lfm2ForCausalLM
        alone = Lfm2ForCausalLM(encoder.model.config.text_config).float()
        alone.model.load_state_dict(encoder.model.model.language_model.state_dict())
        alone.lm_head.weight.data.copy_(encoder.model.lm_head.weight.data)
        places[""] = folder + "/text"
        alone.save_pretrained(places[""])
    for flag, place in places.items():
        with open(place + "/tokenizer.json", "w", encoding="utf-8") as file:
            file.write(golden_pictures.TOKENIZER)
        said = convert.convert_aside(converter, place, folder + (flag.replace("--", "/") or "/plain") + ".gguf",
                                     [*flag.split(), "--outtype", "f32"])
        if said:
            sys.exit(said)
    embedding = encoder.model.get_input_embeddings().weight.detach().numpy()
    write_text_model(folder + "/plain.gguf", folder + "/text.gguf", embedding, [mark.strip() for mark in AROUND[name]])
    return encoder


def compare(name, converter, kvasir):
    import torch
    from PIL import Image
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        encoder = build(name, converter, folder)
        model = encoder.model
        text_file = folder + "/text.gguf"

        def call(*arguments):
            return json.loads(subprocess.run([kvasir, *arguments], capture_output=True, text=True, check=True).stdout)

        row = call("run", "-m", text_file, "--mmproj", folder + "/mmproj.gguf", "--image", PICTURE, "-p", TEXT, "--exact", "--kv", "f32",
                   "--json", "--logprobs", "0", "-n", str(STEPS), "--temperature", "0", "--ignore-eos")
        image = Image.open(PICTURE)
        rows = encoder.rows(image)[1]
        before, after = (call("tokenize", "-m", text_file, "-p", text, "--special", "--json")["ids"]
                         for text in (AROUND[name][0], AROUND[name][1] + TEXT))
        after = after[after[0] == before[0]:]  # a BOS of its own
        pad = model.config.text_config.vocab_size - 3
        x = torch.tensor([[*before, *[pad] * len(rows), *after]])
        if x.shape[1] != row["prompt_tokens"]:
            sys.exit(f"{name}: {x.shape[1]} tokens, kvasir has {row['prompt_tokens']}")
        for step, said in enumerate(row["logprobs"]):
            inputs = model.get_input_embeddings()(x)
            inputs[x == pad] = rows
            mask = None
            if name == "gemma3":
                from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
                inside = (x == pad)[0]
                both = dict(config=model.config.text_config, inputs_embeds=inputs, attention_mask=None, past_key_values=None,
                            or_mask_function=lambda b, h, q, k: inside[q] & inside[k])
                mask = {"full_attention": create_causal_mask(**both), "sliding_attention": create_sliding_window_causal_mask(**both)}
            state = model.model.language_model(inputs_embeds=inputs, attention_mask=mask).last_hidden_state[0, -1]
            ours = torch.log_softmax(model.lm_head(state).float(), -1)
            best = int(ours.argmax())
            print(f"{name} token {step}: {best} and {said['id']}, apart {abs(float(ours[best]) - said['logprob']):.1e}")
            if best != said["id"]:
                sys.exit(1)
            x = torch.cat([x, torch.tensor([[best]])], 1)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for one in sys.argv[3:] or AROUND:
        compare(one, *sys.argv[1:3])
