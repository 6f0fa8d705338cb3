#!/usr/bin/env python3
"""Golden files of sounds: how transformers reads them, and what a small random Gemma 4 Unified makes of them.

usage: golden_sounds.py CONVERTER FOLDER

CONVERTER is vendor/llama.cpp of llama-cpp-python's source package, FOLDER is tests/golden/sound. Writes
  files/*                   sounds of several kinds, decoded.json and decoded.f32: their samples at 16 kHz, as transformers' load_audio has them
  sounds/*.wav              what the model hears
  gemma4ua.{gguf,text.gguf} the encoders and the text model, as llama.cpp's converter writes them
  gemma4ua.rows.f32         rows of every sound, in the order of gemma4ua.json
  gemma4ua.answers.{json,f32}   answers to prompts of ids and sounds, and the log-probabilities of all ids at every token
  folder/                   the model as transformers saves it, with the tensors of its encoders alone
Needs torch, torchvision, pillow, soundfile, soxr, transformers 5.24 and gguf.
"""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, HERE + "/families"]
RATE, FRAME = 16000, 640
# Samples: less than a frame, one, odd, several, more than the window; quiet ones, where the norm's epsilon tells; none at all.
SOUNDS = {"short": (100, 0.5), "frame": (640, 0.5), "odd": (1001, 0.5), "two": (5760, 0.3), "other": (5760, 0.3), "long": (12801, 0.6),
          "quiet": (1500, 1e-3), "silence": (700, 0)}
AUDIO, BEGIN, END, IMAGE = "<|audio|>", "<|audio>", "<audio|>", "<|image|>"
SPECIALS = ["<|image>", IMAGE, "<image|>", BEGIN, AUDIO, END, "<|video|>", "<pad>"]
WORDS = 64 - len(SPECIALS)
PROMPTS = [["short", 5, 17, 3, 40, 8], [9, 31, 2, "odd", 11, 12, "two"], [7, "long", 22, *range(10, 30), "frame", 41, 6],
           [3, "quiet", 4, "silence", 5], [1, "two", 9, 8, "long", 4, 2, "other", 3, 3, 7]]
STEPS = 8


def wave(name, samples, loud, channels=1, rate=RATE):
    import numpy
    noise = numpy.random.default_rng(sum(map(ord, name)))
    t = numpy.arange(samples)[:, None] / rate
    tones = sum(numpy.sin(2 * numpy.pi * f * (1 + numpy.arange(channels) / 7) * t + f) for f in (220, 523, 1310)) / 3
    return loud * numpy.clip(tones + noise.normal(0, 0.1, (samples, channels)), -1, 1)


def write_files(out):
    import numpy
    import soundfile
    from transformers.audio_utils import load_audio
    kinds = {"mono16.wav": (16000, 1, "PCM_16"), "stereo44.wav": (44100, 2, "PCM_16"), "bytes8.wav": (8000, 1, "PCM_U8"),
             "float48.wav": (48000, 3, "FLOAT"), "wide22.wav": (22050, 1, "PCM_24"), "law.wav": (8000, 1, "ULAW"),
             "stereo24.flac": (24000, 2, "PCM_16"), "mono.ogg": (16000, 1, "VORBIS"), "opus.ogg": (48000, 1, "OPUS"),
             "stereo.mp3": (44100, 2, "MPEG_LAYER_III")}
    os.makedirs(out + "/files", exist_ok=True)
    listed, all_samples = [], b""
    for name, (rate, channels, kind) in kinds.items():
        path = f"{out}/files/{name}"
        soundfile.write(path, wave(name, rate // 40 + 7, 0.8, channels, rate), rate, kind)
        samples = load_audio(path, RATE, backend="soundfile")
        listed.append(dict(file=name, rate=rate, channels=channels, samples=len(samples)))
        all_samples += samples.astype("<f4").tobytes()
    with open(out + "/decoded.json", "w", encoding="utf-8") as file:
        json.dump({"rate": RATE, "files": listed}, file, indent=1)
        file.write("\n")
    with open(out + "/decoded.f32", "wb") as file:
        file.write(all_samples)
    os.makedirs(out + "/sounds", exist_ok=True)
    for name, (samples, loud) in SOUNDS.items():
        soundfile.write(f"{out}/sounds/{name}.wav", wave(name, samples, loud), RATE, "PCM_16")
    print({f["file"]: f["samples"] for f in listed})


def made():
    """Model and processor; the processor's tokenizer knows words for ids: w0, w1 and so on."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import Gemma4UnifiedConfig, Gemma4UnifiedForConditionalGeneration, PreTrainedTokenizerFast
    from transformers.models.gemma4_unified import (feature_extraction_gemma4_unified as features, image_processing_gemma4_unified as images,
                                                    processing_gemma4_unified as processing, video_processing_gemma4_unified as videos)
    text = dict(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1,
                head_dim=16, global_head_dim=32, layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=16,
                use_bidirectional_attention="vision", final_logit_softcapping=5.0, pad_token_id=63)
    ids = {token: WORDS + i for i, token in enumerate(SPECIALS)}
    # Ids of pictures and videos that no answer says: the model would take them for places of rows.
    config = Gemma4UnifiedConfig(text_config=text, audio_config=dict(audio_embed_dim=FRAME), image_token_id=1000,
                                 vision_config=dict(patch_size=2, pooling_kernel_size=3, mm_embed_dim=32, mm_posemb_size=80, output_proj_dims=32),
                                 audio_token_id=ids[AUDIO], video_token_id=1001, boa_token_id=ids[BEGIN],
                                 eoa_token_index=ids[END])
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(WORDS)} | ids, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.add_special_tokens(SPECIALS)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", extra_special_tokens={
        "image_token": IMAGE, "boi_token": "<|image>", "eoi_token": "<image|>", "audio_token": AUDIO, "boa_token": BEGIN, "eoa_token": END})
    processor = processing.Gemma4UnifiedProcessor(features.Gemma4UnifiedAudioFeatureExtractor(),
                                                  images.Gemma4UnifiedImageProcessor(patch_size=2), tokenizer,
                                                  videos.Gemma4UnifiedVideoProcessor(patch_size=2))
    return Gemma4UnifiedForConditionalGeneration(config), processor


def sound(out, name):
    from transformers.audio_utils import load_audio
    return load_audio(f"{out}/sounds/{name}.wav", RATE, backend="soundfile")


def write_answers(model, processor, out):
    """The processor's own prompts, and what the whole model says to them."""
    import torch
    listed, logprobs = [], b""
    for prompt in PROMPTS:
        text = " ".join(AUDIO if isinstance(item, str) else f"w{item}" for item in prompt)
        inputs = dict(processor(text=[text], audio=[sound(out, i) for i in prompt if isinstance(i, str)], return_tensors="pt"))
        ids = inputs["input_ids"][0].tolist()
        audio, frames = model.config.audio_token_id, inputs["input_features_mask"].sum(1).tolist()
        shown, at = [], 0
        for item in prompt:  # what the processor puts around the rows is asked, not assumed
            if isinstance(item, int):
                assert ids[at] == item
                shown.append(ids[at])
                at += 1
                continue
            n = frames.pop(0)
            while ids[at] != audio:
                shown.append(ids[at])
                at += 1
            assert ids[at:at + n] == [audio] * n
            shown += [item, ids[at + n]]
            at += n + 1
        assert at == len(ids) and not frames
        length = len(ids)
        for _ in range(STEPS):
            rows = torch.log_softmax(model(**inputs).logits[0, -1].float(), -1)
            logprobs += rows.numpy().astype("<f4").tobytes()
            new = rows.argmax().reshape(1, 1)
            inputs["input_ids"] = torch.cat([inputs["input_ids"], new], 1)
            for key, value in (("attention_mask", 1), ("mm_token_type_ids", 0)):
                inputs[key] = torch.cat([inputs[key], torch.full_like(new, value)], 1)
        listed.append(dict(prompt=shown, length=length, ids=inputs["input_ids"][0, length:].tolist()))
    with open(out + "/gemma4ua.answers.json", "w", encoding="utf-8") as file:
        json.dump({"prompts": listed}, file)
        file.write("\n")
    with open(out + "/gemma4ua.answers.f32", "wb") as file:
        file.write(logprobs)
    print(listed)


def write_model(converter, out):
    import convert
    import golden_pictures
    import torch
    from safetensors.torch import load_file, save_file
    torch.manual_seed(1)
    model, processor = made()
    model.eval().float()
    golden_pictures.shake(model, 11)
    listed, rows = [], b""
    with torch.no_grad():
        for name in SOUNDS:
            x = processor.feature_extractor(sound(out, name), return_tensors="pt")
            values = model.model.get_audio_features(x.input_features, x.input_features_mask).pooler_output[0]
            listed.append(dict(file=name + ".wav", rows=list(values.shape)))
            rows += values.numpy().astype("<f4").tobytes()
        write_answers(model, processor, out)
    with open(out + "/gemma4ua.json", "w", encoding="utf-8") as file:
        json.dump({"sounds": listed}, file, indent=1)
        file.write("\n")
    with open(out + "/gemma4ua.rows.f32", "wb") as file:
        file.write(rows)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        processor.feature_extractor.save_pretrained(folder)
        processor.image_processor.save_pretrained(folder)
        with open(folder + "/tokenizer.json", "w", encoding="utf-8") as file:
            # The converter cuts the embedding off behind these, and writes no vocabulary (families/convert.py).
            json.dump({"model": {"vocab": {f"w{i}": i for i in range(64)}}, "added_tokens": []}, file)
        with open(folder + "/config.json", encoding="utf-8") as file:
            config = json.load(file)
        config["text_config"]["moe_intermediate_size"] = None  # which the converter looks for, and this version does not write
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump(config, file)
        for ending, arguments in {".gguf": ["--mmproj", "--outtype", "f32"], ".text.gguf": ["--outtype", "f16"]}.items():
            said = convert.convert_aside(converter, folder, f"{out}/gemma4ua{ending}", arguments)
            if said:
                sys.exit(said)
    place = out + "/folder"
    model.save_pretrained(place)
    processor.save_pretrained(place)
    tensors = {key: t for key, t in load_file(place + "/model.safetensors").items() if "vision" in key or "audio" in key}
    save_file({key: t.half() if torch.equal(t, t.half().float()) else t for key, t in tensors.items()}, place + "/model.safetensors",
              {"format": "pt"})
    for name in os.listdir(place):
        if name not in ("config.json", "model.safetensors", "processor_config.json"):
            os.remove(f"{place}/{name}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    import convert
    import torch
    torch.set_num_threads(1)  # the converter runs in a fork, where other threads are missing
    converter, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    write_files(out)
    convert.load(converter)
    write_model(converter, out)


if __name__ == "__main__":
    main()
