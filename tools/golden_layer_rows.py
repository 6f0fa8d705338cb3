#!/usr/bin/env python3
"""Golden files of rows in place of tokens, of a small random Gemma 4 whose layers read rows of the tokens (E2B, E4B).

usage: golden_layer_rows.py CONVERTER FOLDER

CONVERTER is vendor/llama.cpp of llama-cpp-python's source package, FOLDER is tests/golden/vision. Writes
  gemma4e.text.gguf           the text model, as llama.cpp's converter writes it
  gemma4e.rows.f32            random rows, which stand for those of pictures: all of prompt 0, then of prompt 1, and so on
  gemma4e.answers.{json,f32}  prompts (ids, and numbers of rows as strings), what the whole model of transformers 5.24 answers, and the
                              log-probabilities of all ids at every token
Needs torch, transformers 5.24 and gguf.
"""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, HERE + "/families"]
WORDS, PAD, IMAGE, STEPS, DIM = 64, 0, 1000, 8, 32
# More rows than the window has, between and in front of tokens, two pictures beside each other, and the padding token itself.
PROMPTS = [[7, 9, "12", 11, 12, 40, 3], ["40", 5, 17, 3], [*range(20, 50), "9", "10", 1, 2, PAD, 4]]


def made():
    from transformers import Gemma4Config, Gemma4ForConditionalGeneration
    text = dict(vocab_size=WORDS, vocab_size_per_layer_input=WORDS, hidden_size=DIM, intermediate_size=48, num_hidden_layers=6,
                num_attention_heads=2, num_key_value_heads=1, head_dim=16, global_head_dim=32, hidden_size_per_layer_input=8,
                num_kv_shared_layers=2, layer_types=["sliding_attention", "full_attention"] * 3, sliding_window=16,
                use_bidirectional_attention=None, final_logit_softcapping=5.0, pad_token_id=PAD)
    vision = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
                  patch_size=4, position_embedding_size=64)
    return Gemma4ForConditionalGeneration(Gemma4Config(text_config=text, vision_config=vision, audio_config=None, image_token_id=IMAGE))


def write_answers(model, out):
    import torch
    from transformers.modeling_outputs import BaseModelOutputWithPooling
    noise, listed, rows, logprobs = torch.Generator().manual_seed(3), [], b"", b""
    for prompt in PROMPTS:
        ids, own = [], []
        for item in prompt:
            ids += [IMAGE] * int(item) if isinstance(item, str) else [item]
            if isinstance(item, str):
                own.append(torch.randn(int(item), DIM, generator=noise) * 2)
                rows += own[-1].numpy().astype("<f4").tobytes()
        length = len(ids)
        for _ in range(STEPS):
            said = model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                         mm_token_type_ids=torch.tensor([[int(i == IMAGE) for i in ids]]),
                         mm_encoder_outputs={"image": BaseModelOutputWithPooling(pooler_output=own)})
            row = torch.log_softmax(said.logits[0, -1].float(), -1)
            logprobs += row.numpy().astype("<f4").tobytes()
            ids.append(int(row.argmax()))
        listed.append(dict(prompt=prompt, length=length, ids=ids[length:]))
    for ending, content in (("rows.f32", rows), ("answers.f32", logprobs)):
        with open(f"{out}/gemma4e.{ending}", "wb") as file:
            file.write(content)
    with open(out + "/gemma4e.answers.json", "w", encoding="utf-8") as file:
        json.dump({"prompts": listed}, file)
        file.write("\n")
    print(listed)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    import convert
    import golden_pictures
    import torch
    torch.set_num_threads(1)  # the converter runs in a fork, where other threads are missing
    converter, out = sys.argv[1:]
    convert.load(converter)
    torch.manual_seed(1)
    model = made().eval().float()
    golden_pictures.shake(model, 11)
    with torch.no_grad():
        write_answers(model, out)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with open(folder + "/tokenizer.json", "w", encoding="utf-8") as file:
            json.dump({"model": {"vocab": {f"w{i}": i for i in range(WORDS)}}, "added_tokens": []}, file)
        said = convert.convert_aside(converter, folder, out + "/gemma4e.text.gguf", ["--outtype", "f16"])
        if said:
            sys.exit(said)


if __name__ == "__main__":
    main()
