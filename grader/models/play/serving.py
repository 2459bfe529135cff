"""Chapter 15 in play: a smaller model guesses ahead, or many beginnings are continued in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from grader.models.design import gpt_config
from grader.models.play.engine import Engine
from grader.models.play.settings import PlayProblem, Settings
from grader.teaching.walks.parts import hidden_prints
from grader.teaching.walks.small_models import counted_passes

SPECULATING = ("residual_distribution", "accept_drafts", "generate_speculative")
BATCHING = ("PaddedGPT", "generate_batch")
LARGEST_BATCH = 64  # texts; more of them are written in several batches


@dataclass(frozen=True)
class Speculated:
    """What was written with a draft."""

    ids: list[int]  # without the end mark
    ended: bool  # whether the model wrote its end mark
    tokens: int  # with the end mark
    passes: int  # of the model

    @property
    def per_pass(self) -> float:
        return self.tokens / max(self.passes, 1)


@dataclass(frozen=True)
class Batch:
    """The texts of a batch, in the order of their beginnings."""

    texts: list[str]
    tokens: int  # that were written, with end marks
    passes: int
    unknown: tuple[str, ...] = ()  # words of the beginnings that the model does not have


# ---- a draft


def require_draft(engine: Engine, draft: Engine) -> None:
    """PlayProblem if this model cannot guess for that one."""
    translator = next((each for each in (engine, draft) if each.translates), None)
    if translator is not None:
        raise PlayProblem(f"{translator.name} is a translator; guessing ahead needs two models that go on with a text")
    if draft.tokenizer.fingerprint != engine.tokenizer.fingerprint:
        raise PlayProblem(
            f"{draft.name} has another tokenizer than {engine.name}, so its guesses mean other tokens; "
            "train both on the same text"
        )


def fit_both(engine: Engine, draft: Engine, ids: list[int], length: int) -> tuple[list[int], int]:
    """The last of these ids that leave room in both models, and how many tokens fit behind them, at most `length`."""
    narrow = min(
        (each for each in (engine, draft) if each.longest is not None), key=lambda each: each.longest or 0, default=None
    )
    if narrow is None or narrow.longest is None:
        return ids, length
    ids = narrow.fit(ids, length).ids
    return ids, min(length, narrow.longest - len(ids))


def write_speculatively(engine: Engine, draft: Engine, ids: list[int], settings: Settings) -> Speculated:
    """Go on after these ids with the learner's generate_speculative. PlayProblem for settings that it does not have."""
    used = next((name for name in ("top_k", "top_p", "min_p") if getattr(settings, name) is not None), None)
    if used is not None:
        command = "/" + used.replace("_", "-")
        raise PlayProblem(f"with a draft, tokens are drawn with the temperature only; type `{command} off` first")
    ids, room = fit_both(engine, draft, ids, settings.length)
    generator = torch.Generator(engine.device).manual_seed(settings.seed)
    end = engine.tokenizer.end_id
    with hidden_prints(), counted_passes(engine.model) as passes:
        prompt = torch.tensor([ids], device=engine.device)
        written = engine.parts.generate_speculative(
            engine.model, draft.model, prompt, room, eos_id=end, temperature=settings.temperature, generator=generator
        )[0].tolist()[len(ids) :]
    ended = end is not None and end in written
    return Speculated(written[: written.index(end)] if ended else written, ended, len(written), len(passes))


# ---- a batch


def write_batch(engine: Engine, beginnings: Sequence[str], length: int) -> Batch:
    """Go on with all beginnings, greedily, with the learner's PaddedGPT and generate_batch. PlayProblem if this model
    has no such form."""
    if not engine.is_plain_gpt:
        what = {"translate": "a translator", "moe": "a GPT with experts"}.get(
            engine.design.kind, "a GPT of post-norm blocks"
        )
        raise PlayProblem(
            f"{engine.name} is {what}, and chapter 15's PaddedGPT is a GPT of pre-norm blocks; choose such a checkpoint"
        )
    model = engine.parts.PaddedGPT(gpt_config(engine.parts, engine.design, engine.model.token_emb.weight.size(0)))
    model.to(engine.device).load_state_dict(engine.model.state_dict(), assign=True)
    model.eval()
    read = [engine.read(text, length) for text in beginnings]
    prompts = [prompt.ids for prompt in read]
    texts, tokens, end = [], 0, engine.tokenizer.end_id
    with counted_passes(model) as passes:
        for start in range(0, len(prompts), LARGEST_BATCH):
            batch = prompts[start : start + LARGEST_BATCH]
            room = length if engine.longest is None else min(length, engine.longest - max(map(len, batch)))
            with hidden_prints():
                written = engine.parts.generate_batch(model, batch, room, eos_id=end)
            for prompt, ids in zip(batch, written):
                tokens += len(ids) - len(prompt)
                texts.append(engine.text(ids[: len(ids) - (len(ids) > len(prompt) and ids[-1] == end)]))
    return Batch(texts, tokens, len(passes), tuple(dict.fromkeys(word for prompt in read for word in prompt.unknown)))
