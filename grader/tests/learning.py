"""Small models that memorise small corpora, made of the given chapters; used by several tests."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.corpora import ENGLISH_HINDI, SENTENCES
from torch import Tensor, nn

PAD, BEGIN, END = "<pad>", "<sos>", "<eos>"


@dataclass(frozen=True)
class Chapters:
    """The chapters that training uses, from one package."""

    tokenizer: ModuleType
    models: ModuleType
    training: ModuleType

    @classmethod
    def of(cls, package: ChapterPackage) -> Chapters:
        return cls(package.module("ch01_tokenizer"), package.module("ch07_models"), package.module("ch08_training"))


def tokenizer_for(chapters: Chapters, texts, *special: str):
    """A vocabulary of all words; the special ones come first, so that padding is 0."""
    return chapters.tokenizer.WordTokenizer([*special, *chapters.tokenizer.build_vocab(texts)])


def one_batch(chapters: Chapters, tokenizer, sentences) -> tuple[Tensor, Tensor]:
    windows = [window for sentence in sentences for window in chapters.training.next_token_pairs(tokenizer.encode(sentence), 32)]
    return chapters.training.collate(windows)


def curriculum_gpt(chapters: Chapters, tokenizer, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return chapters.models.GPT(chapters.models.GPTConfig(vocab_size=tokenizer.vocab_size, max_len=16, d_model=64, n_layers=4))


def learn_sentences(chapters: Chapters, epochs: int = 150) -> tuple[nn.Module, object, list[float]]:
    """A GPT that was trained on the twenty sentences in each epoch; (model, tokenizer, losses)."""
    tokenizer = tokenizer_for(chapters, SENTENCES, PAD)
    batch = one_batch(chapters, tokenizer, SENTENCES)
    model = curriculum_gpt(chapters, tokenizer)
    optimizer = chapters.training.AdamW(model.parameters(), lr=3e-3)
    records = chapters.training.fit(model, optimizer, lambda: [batch], epochs)
    return model, tokenizer, [record["train_loss"] for record in records]


@torch.no_grad()
def continued(model: nn.Module, tokenizer, beginning: str, words: int) -> str:
    """The likeliest next word, again and again."""
    model.eval()
    ids = torch.tensor([tokenizer.encode(beginning)])
    for _ in range(words):
        ids = torch.cat([ids, model(ids)[0][:, -1].argmax(-1, keepdim=True)], dim=1)
    return tokenizer.decode(ids[0].tolist())


class Translator(nn.Module):
    """A Seq2Seq whose source and target are side by side in one tensor, so that it is trained like any model."""

    def __init__(self, chapters: Chapters, seed: int = 0) -> None:
        super().__init__()
        self.english = tokenizer_for(chapters, (english for english, _ in ENGLISH_HINDI), PAD)
        self.hindi = tokenizer_for(chapters, (hindi for _, hindi in ENGLISH_HINDI), PAD, BEGIN, END)
        self.begin, self.end = self.hindi.encode(f"{BEGIN} {END}")
        sizes = chapters.models.Seq2SeqConfig(self.english.vocab_size, self.hindi.vocab_size, max_len=16)
        torch.manual_seed(seed)
        self.model = chapters.models.Seq2Seq(sizes)
        sources = [self.english.encode(english) for english, _ in ENGLISH_HINDI]
        targets = [[self.begin, *self.hindi.encode(hindi), self.end] for _, hindi in ENGLISH_HINDI]
        source, _ = chapters.training.collate([(ids, []) for ids in sources])
        reads, writes = chapters.training.collate([(ids[:-1], ids[1:]) for ids in targets])
        self.width = source.size(1)
        self.batch = torch.cat([source, reads], dim=1), writes

    def forward(self, side_by_side: Tensor) -> Tensor:
        return self.model(side_by_side[:, : self.width], side_by_side[:, self.width :])

    @torch.no_grad()
    def translate(self, english: str) -> str:
        """The likeliest next word until the end, for this sentence alone, without padding."""
        self.eval()
        source = torch.tensor([self.english.encode(english)])
        memory = self.model.encode(source)
        target = torch.tensor([[self.begin]])
        while target[0, -1] != self.end and target.size(1) < 16:
            target = torch.cat([target, self.model.decode(target, memory, source)[:, -1].argmax(-1, keepdim=True)], dim=1)
        return self.hindi.decode([i for i in target[0].tolist() if i not in (self.begin, self.end)])


def learn_to_translate(chapters: Chapters, epochs: int = 60) -> tuple[Translator, list[float]]:
    translator = Translator(chapters)
    optimizer = chapters.training.AdamW(translator.parameters(), lr=3e-3)
    records = chapters.training.fit(translator, optimizer, lambda: [translator.batch], epochs)
    return translator, [record["train_loss"] for record in records]
