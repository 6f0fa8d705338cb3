#!/bin/sh
# transformers 5.24.0 (torch 2.15.0): the feature extractor of Gemma 4 Unified on a second of sound at 44,100 samples a second, and on a minute.
# Guess: a rate that is not the model's is an error, as Whisper's extractor has it, or the sound is resampled; and the processor's
# audio_seq_length, "the maximum number of audio soft tokens per audio segment", bounds the rows.
# Seen: `sampling_rate` is taken and dropped without a word: the second becomes 69 rows in place of 25, as if it were 2.8 times as long and
# as much lower. A minute becomes 1500 rows, twice the maximum of 750.
# Takes a download of about 3 GB: torch.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.15.0
cat >"$dir/a.py" <<'END'
import numpy as np
import transformers
from transformers import WhisperFeatureExtractor
from transformers.models.gemma4_unified.feature_extraction_gemma4_unified import Gemma4UnifiedAudioFeatureExtractor

print("transformers", transformers.__version__)
second = np.sin(np.arange(44100) * 0.05).astype(np.float32)  # one second at 44,100 Hz
changed = False
for kind in (WhisperFeatureExtractor, Gemma4UnifiedAudioFeatureExtractor):
    extractor = kind()
    try:
        x = extractor(second, sampling_rate=44100, return_tensors="np")
        said = f"{x['input_features'].shape[1]} rows of {extractor.sampling_rate / 640:.0f} to a second"
        changed |= kind is WhisperFeatureExtractor or x["input_features"].shape[1] != 69
    except ValueError as e:
        said = f"ValueError: {str(e)[:90]}"
        changed |= kind is Gemma4UnifiedAudioFeatureExtractor
    print(f"{kind.__name__:<35} {said}")
long = Gemma4UnifiedAudioFeatureExtractor()(np.zeros(16000 * 60, np.float32), return_tensors="np")
print("a minute:", long["input_features"].shape[1], "rows; audio_seq_length of the processor is 750")
changed |= long["input_features"].shape[1] != 1500
raise SystemExit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
