#!/usr/bin/env python3
"""Compares the golden BERT of tests/golden/encoders with transformers' BertForSequenceClassification of the same weights.

usage: tools/compare_bert.py [FOLDER]

Needs torch and transformers. FOLDER is tests/golden/encoders. Prints the largest difference of a state and of the rank, and fails
beyond 1e-12: both sides compute in double precision.
"""
import json
import os
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification

import golden_encoders as golden

PARTS = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
         "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
         "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}


def names():
    """Names of transformers with ours."""
    yield "bert.embeddings.word_embeddings.weight", "token_embd.weight"
    yield "bert.embeddings.token_type_embeddings.weight", "token_types.weight"
    yield "bert.embeddings.position_embeddings.weight", "position_embd.weight"
    for kind in ("weight", "bias"):
        yield f"bert.embeddings.LayerNorm.{kind}", f"token_embd_norm.{kind}"
        yield f"bert.pooler.dense.{kind}", f"cls.{kind}"
        yield f"classifier.{kind}", f"cls.output.{kind}"
        for layer in range(golden.LAYERS):
            for theirs, ours in PARTS.items():
                yield f"bert.encoder.layer.{layer}.{theirs}.{kind}", f"blk.{layer}.{ours}.{kind}"


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../tests/golden/encoders")
    with open(os.path.join(folder, "bert.json")) as f:
        reference = json.load(f)
    ours = golden.Encoder("bert", 21, True).tensors
    model = BertForSequenceClassification(BertConfig(
        vocab_size=len(golden.VOCAB), hidden_size=golden.DIM, num_hidden_layers=golden.LAYERS, num_attention_heads=golden.HEADS,
        intermediate_size=golden.FFN, max_position_embeddings=golden.POSITIONS, layer_norm_eps=golden.EPSILON, hidden_act="gelu",
        num_labels=1)).double().eval()
    weights = model.state_dict()
    for theirs, name in names():
        t = ours[name]
        values = [t.row(i) for i in range(t.rows)] if t.half else t.values
        assert weights[theirs].shape == torch.tensor(values).shape, theirs
        weights[theirs] = torch.tensor(values, dtype=torch.float64)
    model.load_state_dict(weights)
    ids = torch.tensor([reference["tokens"]])
    types = (torch.arange(ids.shape[1]) >= reference["second"]).long()[None]
    with torch.no_grad():
        states = model.bert(input_ids=ids, token_type_ids=types).last_hidden_state[0]
        rank = model(input_ids=ids, token_type_ids=types).logits[0]
    worst = (states - torch.tensor(reference["states"], dtype=torch.float64)).abs().max().item()
    other = (rank - torch.tensor(reference["rank"], dtype=torch.float64)).abs().max().item()
    print(f"states differ by {worst:.1e}, the rank by {other:.1e}")
    return 0 if max(worst, other) < 1e-12 else 1


if __name__ == "__main__":
    sys.exit(main())
