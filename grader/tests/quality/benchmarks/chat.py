"""chat: measures SmolLM2 on the reference's parts against transformers with the same weights, in turns in one process.

It measures reading and building the model, the time to the first token of an answer, and tokens a second with the
cache, all in float32. Our passes are as in `headway chat`: in torch.inference_mode, and on one thread where that is
clearly quicker. Those of transformers are as in its `generate`: in torch.no_grad, on all threads. Then it compares forms
of --json with free writing. It needs the weights and transformers.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch
from grader.chapters.ch16_published_model.published.chat import prompt_ids
from grader.chapters.ch16_published_model.published.opening import (
    EARLIER,
    EXERCISES,
    Published,
    build,
    find_source,
    next_token_only,
)
from grader.chapters.ch16_published_model.published.source import PublishedProblem
from grader.chapters.ch25_structured_output.writing.token_guide import GUIDING, TokenGuide, compute, write
from grader.counts import format_count
from grader.models.own_parts import OwnParts
from grader.teaching.walks.parts import MixedChapters
from grader.tests.quality.benchmarks.figures import format_seconds, machine, print_figure, print_goal
from torch import Tensor

MINUTES = 2

QUESTION = "What is the capital of France?"
KINDS = ({"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"enum": ["low", "medium", "high"]})
FIELDS = ("name", "age", "member", "level", "city", "year", "paid", "risk", "street", "number")
FORM = {"type": "object", "properties": dict(zip(FIELDS, KINDS * 3)), "required": list(FIELDS)}
PARTS = {
    "ln1": "input_layernorm", "attn.W_q": "self_attn.q_proj", "attn.W_k": "self_attn.k_proj",
    "attn.W_v": "self_attn.v_proj", "attn.W_out": "self_attn.o_proj", "ln2": "post_attention_layernorm",
    "ffn.gate": "mlp.gate_proj", "ffn.up": "mlp.up_proj", "ffn.down": "mlp.down_proj",
}  # fmt: skip


@torch.no_grad()
def run(arguments: list[str]) -> int:
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m grader.tests.quality.benchmarks chat", description=description)
    parser.add_argument("--tokens", type=int, default=32, help="tokens of each answer (default 32)")
    parser.add_argument("--rounds", type=int, default=5, help="answers of each model (default 5)")
    options = parser.parse_args(arguments)
    own = OwnParts(MixedChapters((*EARLIER, *EXERCISES, *GUIDING), ()))
    try:
        find_source(None)
        import transformers  # noqa: F401
    except (PublishedProblem, ImportError) as problem:
        print(f"chat: not measured, {problem}")
        return 0
    print(f"chat: {machine()}, {torch.get_num_threads()} threads\nmedians of {options.rounds} rounds\n")
    opening = [_seconds(lambda: build(find_source(None), own)) for _ in range(options.rounds)]
    ours = build(find_source(None), own)
    ids = torch.tensor([prompt_ids(ours, [{"role": "user", "content": QUESTION}])])
    models = {"ours": _our_steps(ours), "theirs": _their_steps(ours)}
    assert models["ours"](ids, 8)[0] == models["theirs"](ids, 8)[0], "the two models write different texts"
    rounds = [{name: steps(ids, options.tokens) for name, steps in models.items()} for _ in range(options.rounds)]
    first = {name: median(each[name][1] for each in rounds) for name in models}
    rest = {name: median(each[name][2] for each in rounds) / (options.tokens - 1) for name in models}
    opened, count = median(opening), ids.size(1)
    newest = [f"{format_seconds(took)} on {format_count(n, 'thread')}" for n, took in sorted(ours.pace.seconds.items())]
    print_goal(f"Reading the file and building the model take {format_seconds(opened)}", "2 s", opened < 2)
    took = f"{format_seconds(first['ours'])}, and transformers' after {format_seconds(first['theirs'])}"
    print_figure(f"The first token after a prompt of {count} tokens comes after {took}.")
    _print_speed(rounds, 1)
    print_figure(f"Our newest token took {' and '.join(newest)}.")
    print_figure(f"We write {1 / rest['ours']:.1f} tokens a second, and transformers {1 / rest['theirs']:.1f}.")
    _print_speed(rounds, 2)
    _measure_forms(ours, ids, models["ours"], options.rounds)
    own.close()
    return 0


def _print_speed(rounds: list[dict[str, Any]], which: int) -> None:
    ratio = median(each["theirs"][which] / each["ours"][which] for each in rounds)
    print_goal(f"That is {ratio:.2f} of transformers' speed, in the median of the rounds", "0.9", ratio >= 0.9)


def _measure_forms(ours: Published, ids: Tensor, steps: Steps, rounds: int) -> None:
    """The table of a schema of ten fields, and what the choice among the allowed tokens adds to a pass."""
    parts, made, ratios = ours.own.parts, list[TokenGuide](), []
    end = ours.tokenizer.encode("<|im_end|>", allow_special=True)[0]
    tokens = parts.token_bytes(ours.tokenizer)
    make = partial(compute, parts, FORM, tokens, end)
    tables = [_seconds(lambda: made.append(make()), time.process_time) for _ in range(rounds)]
    size = f"{len(made[0].first) - 1} states and {len(made[0].ids):,} tokens in them"
    took, what = median(tables), f"The table of a form of {len(FIELDS)} fields ({size})"
    print_goal(f"{what} takes {format_seconds(took)} of a processor", "5 s", took < 5)
    prompt, passes = ids[0].tolist(), []
    counter = ours.model.register_forward_pre_hook(lambda *_: passes.append(time.perf_counter()))
    for _ in range(rounds):
        passes.clear()
        written = list(write(ours, made[0], prompt, 300, 0.0))
        form = (passes[-1] - passes[1]) / (len(passes) - 2)  # the first pass reads the prompt
        count = len(passes)
        ratios.append(steps(ids, count)[2] / (count - 1) / form)
    counter.remove()
    assert set(json.loads(b"".join(written))) == set(FIELDS), "a field is missing"
    print_figure(f"A form of {format_count(len(written), 'token')} takes {format_count(count, 'pass', 'passes')}.")
    ratio = median(ratios)
    print_goal(f"A pass of a form has {ratio:.2f} of the speed of free writing", "0.9", ratio >= 0.9)


Steps = Callable[[Tensor, int], tuple[list[int], float, float]]  # the tokens; seconds of the first one, and of the rest


def _steps(forward: Callable[[Tensor, Any], Tensor], new_cache: Callable[[], Any]) -> Steps:
    def steps(ids: Tensor, count: int) -> tuple[list[int], float, float]:
        cache, new, written, times = new_cache(), ids, [], [time.perf_counter()]
        for _ in range(count):
            new = forward(new, cache)[:, -1:].argmax(-1)
            written.append(int(new))
            times.append(time.perf_counter())
        return written, times[1] - times[0], times[-1] - times[1]

    return steps


def _our_steps(ours: Published) -> Steps:
    def forward(ids: Tensor, caches: Any) -> Tensor:
        with next_token_only(ours):
            return ours.model(ids, caches)

    return _steps(forward, ours.model.new_caches)


def _their_steps(ours: Published) -> Steps:
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    sizes = ours.sizes
    config = LlamaConfig(
        vocab_size=sizes.vocab_size, hidden_size=sizes.d_model, intermediate_size=sizes.d_ff,
        num_hidden_layers=sizes.n_layers, num_attention_heads=sizes.n_heads, num_key_value_heads=sizes.n_kv_heads,
        rms_norm_eps=sizes.eps, rope_parameters={"rope_type": "default", "rope_theta": sizes.base},
        tie_word_embeddings=sizes.tied, max_position_embeddings=ours.context,
    )  # fmt: skip
    theirs = LlamaForCausalLM(config).eval()
    theirs.load_state_dict(_their_state(ours), strict=False)
    theirs.tie_weights()
    return _steps(
        lambda ids, cache: theirs(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits, DynamicCache
    )


def _their_state(ours: Published) -> dict[str, Tensor]:
    """Our weights by their names, the rows of queries and keys in the order of halves."""
    state, own = {}, ours.model.state_dict()
    for block in range(ours.sizes.n_layers):
        for name, theirs in PARTS.items():
            weight = own[f"blocks.{block}.{name}.weight"]
            if name in ("attn.W_q", "attn.W_k"):
                heads = weight.chunk(ours.sizes.n_heads if name == "attn.W_q" else ours.sizes.n_kv_heads)
                weight = torch.cat([head[start::2] for head in heads for start in (0, 1)])
            state[f"model.layers.{block}.{theirs}.weight"] = weight
    return state | {
        "model.embed_tokens.weight": own["token_emb.weight"],
        "model.norm.weight": own["ln_f.weight"],
        "lm_head.weight": own["lm_head.weight"],
    }


def _seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    work()
    return clock() - began
