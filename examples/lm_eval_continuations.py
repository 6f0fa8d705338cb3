"""A task for lm-eval that needs no download: which of four passages goes on a text.

    python3 examples/lm_eval_continuations.py TEXT FOLDER [QUESTIONS]
    kvasir serve -m MODEL --port 8080 &
    lm_eval --model local-completions --include_path FOLDER --tasks continuations \\
        --model_args model=NAME,base_url=http://127.0.0.1:8080/v1/completions,tokenizer_backend=remote,num_concurrent=4

TEXT is any text of some 200 KB, UTF-8. Each question shows 300 words and four times the 12 words behind them, of which one
is the text's and three stand elsewhere; FOLDER gets the questions and the task's description.
"""

import json
import pathlib
import random
import sys

SHOWN, ASKED, CHOICES = 300, 12, 4  # 300 words are pages that a compressed cache has packed

DESCRIPTION = """\
task: continuations
dataset_path: json
dataset_kwargs:
  data_files:
    test: {questions}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{shown}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
target_delimiter: " "
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: acc_norm
    aggregation: mean
    higher_is_better: true
"""


def main(text, folder, count):
    words = pathlib.Path(text).read_text(encoding="utf-8").split()
    length = SHOWN + ASKED
    if len(words) < (count + CHOICES) * length:
        sys.exit(f"{text}: {count} questions take {(count + CHOICES) * length} words, it has {len(words)}")
    chance = random.Random(1)
    # Passages that do not overlap, so that no answer is shown to another question.
    places = [length * i for i in range(len(words) // length)]
    chance.shuffle(places)
    asked = [" ".join(words[at + SHOWN : at + length]) for at in places]
    questions = []
    for i, at in enumerate(places[:count]):
        others = chance.sample([p for p in range(len(places)) if p != i], CHOICES - 1)
        answer = chance.randrange(CHOICES)
        choices = [asked[p] for p in others]
        choices.insert(answer, asked[i])
        questions.append({"shown": " ".join(words[at : at + SHOWN]), "choices": choices, "answer": answer})
    to = pathlib.Path(folder)
    to.mkdir(parents=True, exist_ok=True)
    file = (to / "continuations.jsonl").resolve()
    file.write_text("".join(json.dumps(q) + "\n" for q in questions), encoding="utf-8")
    (to / "continuations.yaml").write_text(DESCRIPTION.format(questions=json.dumps(str(file))), encoding="utf-8")
    print(f"{len(questions)} questions: {file}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else 100)
