"""What the page of `headway play --web` can ask for: texts, candidates, attention, logit lens, other models, and what is not possible."""

from __future__ import annotations

import base64
import threading

import pytest
import torch
from grader.models.play.engine import Ending, Piece
from grader.models.play.settings import Settings
from grader.models.play.web import api as api_module
from grader.models.play.web.api import Request, WrongRequest, read_request
from grader.models.tokenizers import BpeModelTokenizer
from grader.tests.models.own_models import GPT, MOE, TRANSLATOR
from grader.tests.models.page_engines import SECONDS, api_of, engine_of_learner, random_engine

FIELDS = ("model", "settings", "text", "ids")


@pytest.fixture(scope="module")
def engine(parts, words):
    return random_engine(parts, words, GPT)


@pytest.fixture
def api(engine):
    return api_of(engine)


def ids_of(engine, text: str) -> tuple[int, ...]:
    return tuple(engine.read(text, 10).ids)


def test_a_text_has_its_beginning_its_tokens_and_its_end(api, engine):
    settings = Settings(length=6, seed=3, top_k=9)
    begin, *tokens, end = list(api.write(Request(text=" the cat sat ", settings=settings)))
    *pieces, ending = list(engine.write(list(ids_of(engine, "the cat sat")), settings))
    assert [token["label"] for token in begin["tokens"]] == ["<start>", "The", "cat", "sat"]
    assert "".join(token["text"] for token in begin["tokens"]) == "The cat sat" and begin["notes"] == []
    assert [(token["id"], token["text"], token["probability"]) for token in tokens] == [(p.id, p.text, p.probability) for p in pieces if isinstance(p, Piece)]
    assert [candidate["id"] for candidate in tokens[0]["likeliest"]] == [candidate.id for candidate in pieces[0].likeliest]
    assert isinstance(ending, Ending) and (end["event"], end["reason"]) == ("end", ending.reason)


def test_a_text_goes_on_after_any_ids(api, engine):
    settings = Settings(length=4, seed=1)
    ids = ids_of(engine, "the dog saw")
    assert list(api.write(Request(ids=ids, settings=settings))) == list(api.write(Request(text="the dog saw", settings=settings)))
    long = ids * 9
    begin = next(api.write(Request(ids=long, settings=settings)))
    assert begin["left_out"] == len(long) - 20 and [token["id"] for token in begin["tokens"]] == list(long[-20:])
    assert begin["notes"] == ["This is more than tiny reads, so the model does not see the first 16 tokens."]


def test_many_threads_get_the_texts_that_one_would_get(api):
    requests = [Request(text="the cat", settings=Settings(length=10, seed=seed)) for seed in range(4)]
    alone = [list(api.write(request)) for request in requests]
    together: dict[int, list] = {}
    threads = [threading.Thread(target=lambda i=i, request=request: together.update({i: list(api.write(request))})) for i, request in enumerate(requests)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert [together[i] for i in range(4)] == alone


def test_candidates_follow_the_settings_of_their_request(api, engine):
    ids = ids_of(engine, "the cat")
    safe = api.likeliest(Request(ids=ids, settings=Settings(temperature=0)))["likeliest"]
    bold = api.likeliest(Request(ids=ids, settings=Settings(temperature=5)))["likeliest"]
    assert [c["probability"] for c in safe] == [c["probability"] for c in bold] == [c.probability for c in engine.likeliest(list(ids), Settings())]
    assert [c["drawn"] for c in safe] == [1, 0, 0, 0, 0] and 0 < bold[0]["drawn"] < 1


def test_attention_has_every_head_and_every_token_before_each_token(api, engine):
    ids = ids_of(engine, "the cat sat on the mat")
    data = api.attention(Request(ids=ids))
    patterns = engine.attention(list(ids))
    assert data["length"] == 7 and data["kinds"] == [[engine.head_kind(pattern) for pattern in heads] for heads in patterns]
    weights = iter(base64.b64decode(data["weights"]))
    sent = [[[[next(weights) / 255 for _ in range(row + 1)] for row in range(7)] for _ in range(2)] for _ in range(2)]
    assert next(weights, None) is None
    for layer, heads in enumerate(sent):
        for head, rows in enumerate(heads):
            for row, values in enumerate(rows):
                torch.testing.assert_close(torch.tensor(values), patterns[layer, head, row, : row + 1], atol=0.5 / 255 + 1e-6, rtol=0)


def test_the_lens_has_every_layer(api, engine):
    ids = ids_of(engine, "the cat sat")
    assert [[c["id"] for c in layer] for layer in api.lens(Request(ids=ids))["layers"]] == [[c.id for c in layer] for layer in engine.lens(list(ids))]


def test_a_text_that_needs_too_much_memory_to_look_into_is_a_sentence(api, engine, monkeypatch):
    monkeypatch.setattr(api_module, "MOST_WEIGHTS", 2 * 2 * 10 * 10 // 2)
    monkeypatch.setattr(api_module, "MOST_LOGITS", engine.tokenizer.vocab_size * 3 * 10)
    ids = ids_of(engine, "the cat sat on the mat and the dog sat on the cat")
    assert api.attention(Request(ids=ids))["problem"] == "The attention map of this model needs too much memory for 14 tokens; it works up to 10."
    assert api.lens(Request(ids=ids))["problem"] == "The logit lens of this model needs too much memory for 14 tokens; it works up to 10."
    assert "weights" in api.attention(Request(ids=ids[:10])) and "layers" in api.lens(Request(ids=ids[:10]))


def test_an_incomplete_character_is_written_once(parts):
    engine = random_engine(parts, BpeModelTokenizer(parts, {}), MOE)
    begin = next(api_of(engine).write(Request(ids=tuple("aé".encode()[:2]), settings=Settings(length=1))))
    assert [token["text"] for token in begin["tokens"]] == ["a", ""] and begin["tokens"][1]["label"] == "<part of a character>"


def test_unknown_words_and_an_empty_beginning(api, engine):
    begin = next(api.write(Request(text="the kiten", settings=Settings(length=1))))
    assert begin["notes"] == ["Words that tiny does not have: 'kiten' (the nearest word it knows is 'kitten'). It reads one common token for all of them."]
    assert [token["label"] for token in next(api.write(Request(text="")))["tokens"]] == ["<start>"]  # the model begins by itself
    before, engine.start_ids = engine.start_ids, []
    assert list(api.write(Request(text=" ")))[-1]["problem"] == "Tiny cannot begin by itself; type the beginning of a text."
    engine.start_ids = before


@pytest.mark.parametrize("line", ['raise RuntimeError("oh no")', 'raise SystemExit("oh no")', "raise KeyboardInterrupt('oh no')"])
def test_a_learners_error_is_a_sentence_with_their_line_and_the_next_request_works(line):
    with engine_of_learner(f"if logits.dim() and temperature == 1.5: {line}\n    return logits / temperature") as engine:
        api = api_of(engine)
        *_, last = api.write(Request(text="the cat", settings=Settings(temperature=1.5)))
        name = line.removeprefix("raise ").partition("(")[0]
        assert last["problem"].startswith(f"Your apply_temperature raised {name}: oh no (ch09_sampling.py, line ") and line in last["problem"], last
        assert api.likeliest(Request(ids=(5,), settings=Settings(temperature=1.5)))["problem"].startswith(f"Your apply_temperature raised {name}")
        assert list(api.write(Request(text="the cat", settings=Settings(length=3))))[-1]["event"] == "end"
        assert not api.describe()["inside"]  # this engine has no chapter 12, as in a handout


def test_two_models_are_compared_by_name(parts, words, engine):
    api = api_of(engine, mixture=random_engine(parts, words, MOE, "mixture"), hindi=random_engine(parts, words, TRANSLATOR, "hindi"))
    about = api.describe()
    assert about["others"] == ["mixture", "hindi", "damaged"] and about["inside"] and about["settings"]["temperature"] == Settings().temperature
    with pytest.raises(WrongRequest, match="the model 'mixture' is not open"):
        api.write(Request(model="mixture", text="the cat"))
    opened = api.open(Request(model="mixture"))
    assert opened["name"] == "mixture" and not opened["inside"] and opened["about"][1] == "Your own code: all 9 parts."
    assert list(api.write(Request(model="mixture", text="the cat", settings=Settings(length=2))))[-1]["event"] == "end"
    assert "works with a GPT of pre-norm blocks" in api.attention(Request(model="mixture", ids=(3,)))["problem"]
    assert api.open(Request(model="hindi"))["problem"] == "Hindi is a translator and tiny is not, so they cannot answer the same line."
    assert api.open(Request(model="damaged"))["problem"] == "Damaged/checkpoint.json is damaged; train the model again."
    for name in ("../mixture", "/etc", "nothing"):
        assert "there is no checkpoint" in api.open(Request(model=name))["problem"].lower()


def test_a_translator_translates_and_does_not_write(parts, words):
    api = api_of(random_engine(parts, words, TRANSLATOR, "hindi"))
    engine = api._models.first
    said = api.translate(Request(text="the cat kiten", settings=Settings(length=10)))
    assert said["translation"] == engine.translate("the cat kiten", 10) and "'kiten'" in said["notes"][0]
    assert api.translate(Request(text=" "))["problem"] == "Type a sentence to translate."
    assert "reads at most 24; type a shorter one" in api.translate(Request(text="the " * 25))["problem"]
    with pytest.raises(WrongRequest, match="hindi is a translator"):
        api.write(Request(text="the cat"))


WRONG = {
    "{": "the request is not a JSON object",
    "[" * 100_000: "the request is not a JSON object",
    "[1]": "the request is not a JSON object",
    '{"prompt": 1}': "the page sends no such prompt",
    '{"text": 1}': "the page sends no such text",
    '{"ids": []}': "the page sends no such ids",
    '{"ids": [true]}': "the page sends no such ids",
    '{"ids": "12"}': "the page sends no such ids",
    '{"model": 3}': "the page sends no such model",
    '{"settings": []}': "the page sends no such settings",
    '{"settings": {"temprature": 1}}': "the page sends no such settings",
    '{"settings": {"temperature": "hot"}}': "/temperature takes 0, which always takes the likeliest token, or a number from 0.01 to 100, not 'hot'",
    '{"settings": {"temperature": NaN}}': "/temperature takes 0",
    '{"settings": {"temperature": null}}': "/temperature takes 0",
    '{"settings": {"temperature": true}}': "/temperature takes 0",
    '{"settings": {"top_k": 1.5}}': "/top-k takes a whole number from 1",
    '{"settings": {"top_p": 0}}': "/top-p takes a number above 0",
    '{"settings": {"min_p": [1]}}': "/min-p takes a number from 0 to 1",
    '{"settings": {"seed": -1}}': "/seed takes a whole number from 0",
    '{"settings": {"length": 1000000}}': "/length takes a whole number from 1 to 10000",
}


@pytest.mark.parametrize("body", WRONG, ids=range(len(WRONG)))
def test_a_wrong_request_is_a_sentence(body):
    with pytest.raises(WrongRequest) as caught:
        read_request(body.encode(), FIELDS)
    assert str(caught.value).startswith(WRONG[body]) and "\n" not in str(caught.value)


def test_a_request_has_its_settings_and_no_others():
    body = b'{"settings": {"temperature": 0.3, "top_k": null, "top_p": 0.9, "seed": 7}, "text": "caf\\u00e9", "model": "a"}'
    assert read_request(body, FIELDS) == Request("a", Settings(temperature=0.3, top_p=0.9, seed=7), "café")
    with pytest.raises(WrongRequest, match="the page sends no such text"):
        read_request(b'{"text": "a"}', ("model", "ids"))
    with pytest.raises(WrongRequest, match="the text is too long"):
        read_request(b'{"text": "%s"}' % (b"a" * 20_001), FIELDS)


def test_ids_that_the_model_does_not_have_are_a_sentence(api, engine):
    size = engine.tokenizer.vocab_size
    for ids in ((size,), (-1,), (3, 10**30)):
        with pytest.raises(WrongRequest, match=f"its ids are 0 to {size - 1}"):
            api.likeliest(Request(ids=ids))
    for request in (Request(), Request(text="a", ids=(3,))):
        with pytest.raises(WrongRequest, match="begins with text or with ids"):
            api.write(request)
