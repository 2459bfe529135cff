"""Chapter 16, fourth part: an answer, piece by piece. The model here reads its answer from a script, so that each test knows it."""

from __future__ import annotations

import math

import torch
from cached_decoding import check_work
from grader.execution.proxy import load, randomise
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, same
from grader.verdict.memory import StorageWatch
from published_vocabulary import IDS, MERGES, NAMES, SPECIAL, TOKENS, expected_ids
from torch import nn

END = IDS["<|im_end|>"]
MESSAGES = [{"role": "system", "content": "th"}, {"role": "user", "content": "hello"}]
PROMPT = len(expected_ids("system\nth") + expected_ids("user\nhello") + expected_ids("assistant\n")) + 5 + 2


def answers(stream, tokenizer, messages, script, vocab, options, seed=None, probabilities=None, later=None):
    """What stream_answer yields for a model that follows a script, and what the model saw; brought to the far side.

    With `probabilities`, the model gives these after the prompt, whatever came before. `later` is its script after the second piece.
    """
    import types

    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            # the parts of a Llama, where code may ask for the device, the vocabulary or the number of blocks
            self.token_emb, self.blocks, self.ln_f = nn.Embedding(vocab, 1), nn.ModuleList([nn.Identity()]), nn.Identity()
            self.lm_head = nn.Linear(1, vocab, bias=False)
            self.past = {}  # of each cache, whatever it is: code may make its own
            self.passes, self.modes, self.script = [], [], script
            self.train()

        def new_caches(self):
            cache = types.SimpleNamespace(length=0)
            return [cache]

        def forward(self, ids, caches=None):
            self.passes.append(ids.size(1))
            self.modes.append([self.training, torch.is_grad_enabled()])
            past = self.past.get(id(caches[0]), 0) if caches else 0
            if caches:
                self.past[id(caches[0])] = past + ids.size(1)
                if isinstance(caches[0], types.SimpleNamespace):
                    caches[0].length += ids.size(1)
            made = past + ids.size(1) - self.passes[0]
            row = torch.full((vocab,), -30.0)
            if probabilities:
                row = torch.full((vocab,), float("-inf"))
                for token, p in probabilities:
                    row[token] = torch.tensor(p).log()
            else:
                row[self.script[min(made, len(script) - 1)]] = 30.0
            return row.expand(1, ids.size(1), vocab)


    model = Scripted()
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    pieces, between = [], []
    stream = stream(model, tokenizer, messages, generator=generator, **options)
    eager = len(model.passes)
    for piece in stream:
        pieces.append(piece)
        if later and len(pieces) == 2:
            model.script = later
        between.append([len(model.passes), model.training, torch.is_grad_enabled()])
    return {"pieces": pieces, "passes": model.passes, "modes": model.modes, "between": between, "eager": eager, "after": [model.training, torch.is_grad_enabled()]}


def tokenizer_of(side):
    return side.PublishedTokenizer(TOKENS, MERGES, SPECIAL)


def answer(learner, script, messages=MESSAGES, seed=None, probabilities=None, later=None, **options):
    return learner.bring(answers)(learner.stream_answer, tokenizer_of(learner), messages, script, len(TOKENS), options, seed, probabilities, later)


TEXT = "hello x the other 12"


@exercise("stream_answer", weight=3)
def test_the_answer_comes_piece_by_piece_and_stops_at_the_end_token(learner):
    """Each token's text is yielded at once; END ends the answer and is not part of it, and nothing after it is asked for."""
    script = [*expected_ids(TEXT), END, IDS["a"]]
    found = answer(learner, script)
    same("".join(found["pieces"]), TEXT, "the pieces joined")
    same(found["pieces"], [TOKENS[i].replace("Ġ", " ") for i in script[:-2]], "the pieces")
    same(found["passes"], [PROMPT] + [1] * (len(script) - 2), "the numbers of tokens in the passes of the model")


@exercise("stream_answer", weight=2)
def test_a_piece_comes_before_the_next_pass(learner):
    """A piece is yielded as soon as its token is chosen: the model has made one pass for the first piece, two for the second, and so on."""
    found = answer(learner, [*expected_ids(TEXT), END])
    passes = [made for made, _, _ in found["between"]]
    same("".join(found["pieces"]), TEXT, "the pieces joined")
    same(passes, list(range(1, len(passes) + 1)), "the passes that the model had made at each piece")


@exercise("stream_answer", weight=4)
def test_a_model_that_changes_between_two_pieces_writes_the_rest(learner):
    """If the model changes after the second piece, all later pieces are those of the changed model."""
    script, later = [*expected_ids(TEXT), END], [*expected_ids("in a the in a the in a the")]
    later = [*later[: len(script) - 1], END]
    found = answer(learner, script, later=later)
    expected = script[:2] + later[2:-1]
    same("".join(found["pieces"]), "".join(TOKENS[i].replace("Ġ", " ") for i in expected), "the pieces joined, of a model that changes after the second piece")


@exercise("stream_answer", weight=2)
def test_the_prompt_is_read_once_and_then_one_token_a_pass(learner):
    """The ids of the chat go through the model in one pass, and each new token alone, from the caches."""
    chat = [*MESSAGES, {"role": "assistant", "content": "th"}, {"role": "user", "content": "the"}]
    longer = PROMPT + len(expected_ids("assistant\nth") + expected_ids("user\nthe")) + 6
    script = [*expected_ids("in the"), END]
    found = answer(learner, script, chat), answer(learner, script)
    same(["".join(one["pieces"]) for one in found], ["in the"] * 2, "the answers to two chats")
    same(found[0]["passes"], [longer, *[1] * (len(script) - 1)], "the numbers of tokens in the passes, for a longer chat,")
    same(found[1]["passes"], [PROMPT, *[1] * (len(script) - 1)], "the numbers of tokens in the passes")


@exercise("stream_answer", weight=2)
def test_max_new_tokens_limits_the_answer(learner):
    """At most max_new_tokens tokens are chosen, and the model makes no pass more than that; with 0 the answer is empty."""
    script = [*expected_ids("the other thing"), END]
    found = {limit: answer(learner, script, max_new_tokens=limit) for limit in (2, 1, 0, len(script) - 1)}
    for limit, one in found.items():
        same("".join(one["pieces"]), "".join(TOKENS[i].replace("Ġ", " ") for i in script[:limit]), f"the pieces joined with max_new_tokens={limit}")
        holds(len(one["passes"]) <= max(limit, 1), f"with max_new_tokens={limit} the model made {len(one['passes'])} passes")
    long = answer(learner, [*[IDS["a"]] * 250, END])
    same(len("".join(long["pieces"])), 200, "the number of tokens without max_new_tokens")


def bytes_of(text):
    return [IDS[NAMES[byte]] for byte in text.encode()]


@exercise("stream_answer", weight=3)
def test_no_half_character_is_yielded(learner):
    """A character of several tokens is yielded when its last byte has come, in any script; the pieces joined are the decoded answer."""
    text = "a\U0001f600\u0939\u093fb\u00e9"
    found = answer(learner, [*bytes_of(text), END])
    same(found["pieces"], ["a", "\U0001f600", "\u0939", "\u093f", "b", "\u00e9"], "the pieces")


@exercise("stream_answer", weight=2)
def test_bytes_that_become_no_character_are_not_lost(learner):
    """If the answer ends within a character, or has bytes that are no character, the pieces joined are still what decode gives for the whole answer; the text after such bytes comes at once."""
    smile = bytes_of("\U0001f600")
    cases = {"that ends within a character": [*bytes_of("ok"), *smile[:3], END], "with a stray byte": [IDS["a"], smile[2], IDS["b"], END], "of half a character": [smile[0], END]}
    found = {name: answer(learner, script) for name, script in cases.items()}
    cut = answer(learner, [*bytes_of("ok"), *smile, END], max_new_tokens=4)
    after = answer(learner, [IDS["a"], smile[2], IDS["b"], IDS["e"], END])
    expected = {"that ends within a character": "ok\ufffd", "with a stray byte": "a\ufffdb", "of half a character": "\ufffd"}
    for name, one in found.items():
        same("".join(one["pieces"]), expected[name], f"the pieces joined of an answer {name}")
    same("".join(cut["pieces"]), "ok\ufffd", "the pieces joined of an answer that max_new_tokens ends within a character")
    same("".join(after["pieces"]), "a\ufffdbe", "the pieces joined of an answer that goes on after a stray byte")
    same(after["pieces"][-1], "e", "the last piece of an answer that goes on after a stray byte")


@exercise("stream_answer", weight=2)
def test_temperature_top_p_and_generator_decide(learner):
    """With temperature 0, the default, the likeliest token is chosen. Otherwise tokens are drawn with the temperature and top_p, by the generator."""
    a, b, c = IDS["a"], IDS["b"], IDS["c"]
    chances = [(a, 0.5), (b, 0.3), (c, 0.2)]
    greedy = answer(learner, [], probabilities=chances, max_new_tokens=12)
    one, again, other = (answer(learner, [], seed=seed, probabilities=chances, temperature=1.0, max_new_tokens=80) for seed in (3, 3, 4))
    nucleus = answer(learner, [], seed=5, probabilities=chances, temperature=1.0, top_p=0.6, max_new_tokens=80)
    cold = answer(learner, [], seed=5, probabilities=chances, temperature=0.05, max_new_tokens=40)
    texts = ["".join(found["pieces"]) for found in (greedy, one, again, other, nucleus, cold)]
    same(texts[0], "a" * 12, "the answer by default")
    holds(set(texts[1]) == {"a", "b", "c"}, f"at temperature 1 all of three likely tokens should come up in 80 draws; the answer was {texts[1]!r}")
    same(texts[2], texts[1], "the answer of a second generator with the same seed")
    holds(texts[3] != texts[1], "a generator with another seed gave the same answer")
    holds(set(texts[4]) == {"a", "b"}, f"with top_p = 0.6, only the two likeliest tokens should come up; the answer was {texts[4]!r}")
    same(texts[5], "a" * 40, "the answer at temperature 0.05")


@exercise("stream_answer", weight=2)
def test_the_callers_modes_hold_between_pieces(learner):
    """The model runs in eval mode without gradient. Between two pieces, and after the answer, its modes and the caller's autograd are as before."""
    found = answer(learner, [*expected_ids(TEXT), END])
    same("".join(found["pieces"]), TEXT, "the pieces joined")
    holds(not any(training for training, _ in found["modes"]), "the model was not in eval mode while it ran")
    holds(not any(grad for _, grad in found["modes"]), "the model ran with gradient")
    holds(all(training and grad for _, training, grad in found["between"]), "between two pieces the model was in eval mode, or autograd was off")
    same(found["after"], [True, True], "whether the model trains, and autograd is on, after the answer")


def modes_of_a_caller(stream, model, tokenizer, messages):
    """The mode of the model, and whether autograd is on, at each piece and at the end; the caller changes them after the second one."""
    seen = []

    def look():
        seen.append([model.training, torch.is_grad_enabled()])

    try:
        for i, _ in enumerate(stream(model, tokenizer, messages, max_new_tokens=6, temperature=1.0, generator=torch.Generator().manual_seed(1))):
            look()
            if i == 1:
                model.eval()
                torch.set_grad_enabled(False)
        look()
    finally:
        torch.set_grad_enabled(True)
    return seen


@exercise("stream_answer")
def test_modes_that_the_caller_changes_between_two_pieces_stay(learner, reference):
    """If the caller puts the model into another mode between two pieces, or switches autograd off, this holds at the next pieces too."""
    size = (len(TOKENS), 12, 6, 3, 1, 18, 100.0, 1e-5, False)
    model, mine = reference.Llama(*size), learner.Llama(*size)
    load(mine, randomise(model, 5))
    seen = learner.bring(modes_of_a_caller)(learner.stream_answer, mine, tokenizer_of(learner), MESSAGES)
    holds(len(seen) > 3, "an answer of 6 random tokens has more than two pieces")
    same(seen[:2], [[True, True]] * 2, "the modes of the model and of autograd at the first two pieces")
    same(seen[2:], [[False, False]] * len(seen[2:]), "the same at later pieces and at the end, after the caller has changed them")


@exercise("stream_answer", weight=6)
def test_a_real_model_answers_from_its_caches(learner, reference):
    """With a Llama, the answer is the one that greedy passes over the whole text give."""
    size = (len(TOKENS), 12, 6, 3, 2, 18, 100.0, 1e-5, False)
    model, mine = reference.Llama(*size), learner.Llama(*size)
    values = randomise(model, 5, scale=2.0)
    load(mine, values)
    expected = reference.chat_ids(tokenizer_of(reference), MESSAGES)
    ids = list(expected)
    for _ in range(12):
        ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    made = ids[len(expected) :]
    made = made[: made.index(END)] if END in made else made
    pieces = list(learner.stream_answer(mine, tokenizer_of(learner), MESSAGES, max_new_tokens=12))
    work = learner.bring(work_of_answer)(learner.bring(StorageWatch), learner.stream_answer, mine, tokenizer_of(learner), MESSAGES, torch.tensor([ids[:-1]]))
    same("".join(pieces), tokenizer_of(reference).decode(made), "the pieces joined")
    check_work(work, f"an answer of 12 tokens after {len(expected)} takes", "each token should go through the model only once")


def work_of_answer(watch, stream, model, tokenizer, messages, ids):
    """How many times the multiplications of one pass over these ids an answer takes, rounded; infinite if they are out of sight. Brought to the far side."""
    with watch(model=model) as seen:
        list(stream(model, tokenizer, messages, max_new_tokens=12))
    with torch.no_grad(), watch() as once:
        model(ids)
    return round(seen.products / once.products) if not seen.left_torch() and once.products else math.inf
