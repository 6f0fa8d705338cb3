#!/bin/bash
# rouge 1.0.1 (with which LongBench scores summaries) beside rouge-score 0.1.2: ROUGE-L of short lower-case texts without punctuation.
# Guess: ROUGE-L is the longest common subsequence over the numbers of words: both give the same numbers.
# Seen: so they do where no word comes twice. rouge divides by the numbers of distinct words, and counts distinct words of the
# subsequence: a text that repeats itself is not worse for it. "no" four times has precision 1 for "no", in place of 1/4, and an answer that
# runs in circles has the score of its first round. Nothing is said.
# Takes seconds, and a download of 25 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet rouge==1.0.1 rouge-score==0.1.2 numpy==2.4.6
venv/bin/pip list --format=freeze | grep -iE '^(rouge|rouge[-_]score)=='  # the version of each
cat >a.py <<'END'
import sys

from rouge import Rouge
from rouge_score.rouge_scorer import RougeScorer

scorer, other = RougeScorer(["rougeL"], use_stemmer=False), Rouge()
changed = False
CASES = [("the cat lay on a mat", "a cat sat on the mat", True), ("the cat sat on the mat", "the cat lay on a mat", False),
         ("no no no no", "no", False), ("the model keeps pages on disk " * 8, "the model keeps pages on disk and reads them back", False)]
for answer, reference, same in CASES:
    meant = scorer.score(reference, answer)["rougeL"]
    seen = other.get_scores([answer.strip()], [reference])[0]["rouge-l"]
    print(f"{answer[:32].strip()!r} ({len(answer.split())} words) for {reference!r}:")
    print(f"    rouge-score P {meant.precision:.3f} R {meant.recall:.3f} F {meant.fmeasure:.3f}, rouge P {seen['p']:.3f} R {seen['r']:.3f} F {seen['f']:.3f}")
    changed |= (abs(meant.fmeasure - seen["f"]) < 1e-6) != same
once = other.get_scores(["the model keeps pages on disk"], ["the model keeps pages on disk and reads them back"])[0]["rouge-l"]
print(f"the last answer without its repeats has F {once['f']:.3f} by rouge")
sys.exit("CHANGED" if changed or abs(once["f"] - seen["f"]) > 1e-9 else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
