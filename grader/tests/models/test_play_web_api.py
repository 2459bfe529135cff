"""What the page of `headway play --web` can ask for: any text, other models; and what is not possible."""

from __future__ import annotations

import pytest
from grader.models.play import web_page as api_module
from grader.models.play.engine import Settings
from grader.models.play.web_page import Request, WrongRequest, read_request
from grader.tests.models.own_models import GPT, MOE, TRANSLATOR
from grader.tests.models.page_engines import api_of, engine_of_learner, random_engine

FIELDS = ("model", "settings", "text", "ids")


@pytest.fixture(scope="module")
def engine(parts, words):
    return random_engine(parts, words, GPT)


@pytest.fixture
def api(engine):
    return api_of(engine)


def ids_of(engine, text: str) -> tuple[int, ...]:
    return tuple(engine.read(text, 10).ids)


def test_a_text_goes_on_after_any_ids(api, engine):
    settings = Settings(length=4, seed=1)
    ids = ids_of(engine, "the dog saw")
    assert list(api.write(Request(ids=ids, settings=settings))) == list(api.write(Request(text="the dog saw", settings=settings)))
    long = ids * 9
    begin = next(api.write(Request(ids=long, settings=settings)))
    assert begin["left_out"] == len(long) - 20 and [token["id"] for token in begin["tokens"]] == list(long[-20:])
    assert begin["notes"] == ["This is more than tiny reads, so the model does not see the first 16 tokens."]


def test_a_text_that_needs_too_much_memory_to_look_into_is_a_sentence(api, engine, monkeypatch):
    monkeypatch.setattr(api_module, "MOST_WEIGHTS", 2 * 2 * 10 * 10 // 2)
    monkeypatch.setattr(api_module, "MOST_LOGITS", engine.tokenizer.vocab_size * 3 * 10)
    ids = ids_of(engine, "the cat sat on the mat and the dog sat on the cat")
    assert api.attention(Request(ids=ids))["problem"] == "The attention map of this model needs too much memory for 14 tokens; it works up to 10."
    assert api.lens(Request(ids=ids))["problem"] == "The logit lens of this model needs too much memory for 14 tokens; it works up to 10."
    assert "weights" in api.attention(Request(ids=ids[:10])) and "layers" in api.lens(Request(ids=ids[:10]))


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
    '{"settings": {"temperature": true}}': "/temperature takes 0",
    '{"settings": {"min_p": [1]}}': "/min-p takes a number from 0 to 1",
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
