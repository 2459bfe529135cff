"""A GPT-2 folder in the published layout, with weights and merges made at random: nothing is downloaded."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from grader.course.syllabus import EXERCISES
from grader.teaching import corpora
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

VOCAB_SIZE = 700
SIZES = dict(n_positions=48, n_embd=24, n_head=3, n_layer=2)


def write_tokenizer(folder: Path) -> None:
    """`vocab.json` and `merges.txt` of a byte-level BPE that is trained on shipped texts."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE - 1, initial_alphabet=alphabet, show_progress=False)
    lessons = (path.read_text(encoding="utf-8") for path in sorted(EXERCISES.glob("*.md")))
    bpe.train_from_iterator([*lessons, *(f"{english} {hindi}" for english, hindi in corpora.ENGLISH_HINDI)], trainer)
    bpe.model.save(str(folder))
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    vocab["<|endoftext|>"] = len(vocab)  # the last id, as in the published vocabulary
    assert len(vocab) == VOCAB_SIZE
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")


def make_model(**config) -> GPT2LMHeadModel:
    """Hugging Face's GPT-2 with random weights, in which attention is sharp and every bias and gain counts."""
    torch.manual_seed(3)
    model = GPT2LMHeadModel(GPT2Config(**SIZES | dict(vocab_size=VOCAB_SIZE, bos_token_id=None, eos_token_id=None) | config))
    return _randomised(model).eval()


@torch.no_grad()
def _randomised(model: nn.Module) -> nn.Module:
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=parameter.size(0) ** -0.5)
        else:
            parameter.normal_(mean=0.3)
    return model
