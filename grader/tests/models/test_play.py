"""What `headway play` answers, line by line: beginnings, commands, mistakes. The terminal itself is tested in test_play_terminal.py."""

from __future__ import annotations

import io

import pytest
from grader.cli.main import app
from grader.console.output import without_controls
from grader.models.design import Design
from grader.models.play.engine import PlayProblem, Settings
from grader.models.play.prompt import run_plain
from grader.models.play.session import COMMANDS, Session, answer
from grader.teaching.terminal_drawing import bar
from grader.tests.models.own_models import GPT, MOE, TINY, TRANSLATOR
from grader.tests.models.page_engines import engine_of, written
from typer.testing import CliRunner


@pytest.fixture
def session(parts, words):
    others = {"mixture": MOE, "roped": Design(positions="rope", **TINY), "hindi": TRANSLATOR}

    def load(name: str):
        if name not in others:
            raise PlayProblem(f"there is no checkpoint {name!r}")
        other = engine_of(parts, words, others[name])
        other.name = name
        return other

    return Session(engine_of(parts, words, GPT), load, Settings(length=6))


def said(session: Session, line: str, *styles: str) -> str:
    return "".join(piece.text for piece in answer(session, line) if not styles or piece.style in styles)


def problem(session: Session, line: str) -> str:
    with pytest.raises(PlayProblem) as caught:
        said(session, line)
    return str(caught.value)


def test_a_beginning_is_shown_with_what_the_model_adds_and_enter_goes_on(session):
    engine = session.engine
    first = written(engine, "the cat sat", Settings(length=6, seed=0))
    ids = [*engine.read("the cat sat", 6).ids, *first]
    text = said(session, "the cat sat", "prompt", "text")
    assert text == engine.text(ids) + "\n" and text.startswith("The cat sat")
    assert session.ids == ids
    said(session, "")
    assert session.ids[: len(ids)] == ids and len(session.ids) > len(ids)


def test_each_text_has_its_own_seed_and_a_seed_gives_its_text_again(session):
    texts = [said(session, "the cat") for _ in range(4)]
    assert len(set(texts)) > 1 and session.settings.seed == 4
    said(session, "/seed 2")
    assert said(session, "the cat") == texts[2]


def test_settings_are_changed_shown_and_switched_off(session):
    for line in ("/temperature 0.5", "/top-k 7", "/TOP-P .9", "/min_p 0.1", "/length 12", "/seed 3"):
        said(session, line)
    assert session.settings == Settings(0.5, 7, 0.9, 0.1, 3, 12)
    assert said(session, "/top-p") == "top-p is 0.9\n"
    assert said(session, "/top-k off") == "top-k is off\n" and session.settings.top_k is None


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("/temperature hot", "/temperature takes 0, which always takes the likeliest token, or a number from 0.01 to 100, not 'hot'"),
        ("/temperature nan", "/temperature takes 0"),
        ("/top-k 0", "/top-k takes a whole number from 1, or `off`, not '0'"),
        ("/top-p 0", "/top-p takes a number above 0 and at most 1, or `off`, not '0'"),
        ("/min-p 2", "/min-p takes a number from 0 to 1, or `off`, not '2'"),
        ("/seed off", "/seed takes a whole number from 0, not 'off'"),
        ("/length ٣", "/length takes a whole number from 1 to 10000"),
        ("/temprature 1", "there is no command /temprature; did you mean /temperature?"),
        ("/xyzzy", "there is no command /xyzzy; /help lists them all"),
        ("/why", "there is no text yet; type its beginning first, or put it after the command"),
        ("", "there is no text yet; type its beginning"),
        ("/compare", "/compare needs the name of a checkpoint, or `off`"),
        ("/compare nothing", "there is no checkpoint 'nothing'"),
        ("/compare hindi", "hindi is a translator and tiny is not, so they cannot answer the same line"),
        ("/attend 3 1 the cat", "there is no layer 3 with a head 1; tiny has layers 1 to 2 and heads 1 to 2"),
        ("/attend 0 1 the cat", "there is no layer 0"),
    ],
)
def test_what_is_not_possible_is_a_sentence(session, line, sentence):
    assert problem(session, line).startswith(sentence)


def test_why_shows_the_five_likeliest_tokens_with_bars(session):
    session.settings = Settings(temperature=0)
    shown = said(session, "/why the cat sat")
    best = session.engine.likeliest(session.engine.read("the cat sat", 100).ids, session.settings)
    lines = shown.splitlines()
    assert lines[0] == "after 'The cat sat'" and len(lines) == 7
    for line, candidate in zip(lines[2:], best):
        assert candidate.text in line and f"{100 * candidate.probability:.1f} %" in line and bar(candidate.probability, 24) in line
    assert lines[2].endswith("100.0 %") and lines[3].endswith("  0.0 %")


def test_attend_shows_where_a_head_looks_and_remembers_the_head(session):
    shown = said(session, "/attend 2 1 the cat sat on the mat")
    assert "where head 1 of 2 in layer 2 of 2 looks from each token; classify_head calls it" in shown
    assert [line.split()[0] for line in shown.splitlines()[1:]] == ["<start>", "The", "cat", "sat", "on", "the", "mat"]
    assert "head 1 of 2 in layer 2" in said(session, "/attend the cat")
    assert "/attend LAYER HEAD shows another head." in said(session, "/attend the cat")


def test_lens_shows_every_layer(session):
    said(session, "the cat")
    shown = said(session, "/lens")
    assert [line.split("  ")[1] for line in shown.splitlines()[1:]] == ["embeddings", "layer 1", "layer 2"] or "layer 2" in shown
    assert len(shown.splitlines()) == 1 + 1 + GPT.n_layers


def test_compare_answers_with_both_models_from_the_same_seed(session):
    said(session, "the cat sat")
    assert said(session, "/seed 5", "note")
    shown = said(session, "/compare roped")
    assert "tiny and roped answer side by side now" in shown and shown.count("The cat sat") == 2
    assert session.settings.seed == 6 and session.other is not None
    session.width = 40  # one below the other
    said(session, "/seed 5")
    narrow = said(session, "the cat sat")
    for engine in (session.engine, session.other):
        ids = engine.read("the cat sat", 6).ids
        text = engine.text([*ids, *written(engine, "the cat sat", Settings(length=6, seed=5))])
        assert " ".join(text.split()) in " ".join(narrow.split())
    assert said(session, "/compare off") == "only tiny writes now\n" and session.other is None


def test_unknown_words_and_a_beginning_that_is_too_long_are_notes(session):
    notes = said(session, "the kiten saw a zzz", "note")
    assert notes.startswith("Words that tiny does not have: 'kiten' (the nearest word it knows is 'kitten'), 'zzz'. It reads one common token for all of them.\n")
    assert "This is more than tiny reads, so the model does not see the first 7 tokens." in said(session, "the cat sat " * 8, "note")
    said(session, "/length 30")
    assert "The text ends here, because the table of tiny has 24 positions." in said(session, "the dog", "note")


def test_a_translator_answers_sentences(parts, words):
    session = Session(engine_of(parts, words, TRANSLATOR), lambda name: None)
    assert said(session, "the cat sat") == session.engine.translate("the cat sat", 100) + "\n"
    assert "is a translator" in problem(session, "/why the cat") and problem(session, "") == "type a sentence to translate"
    assert "?" in words.unknown_words("?") and said(session, "the cat sat ? ") == said(session, "the cat sat")
    assert said(session, "the cat sat?", "note") == "" and "'?'" in said(session, "the ? cat", "note")
    assert problem(session, " ? ") == "type a sentence to translate"
    assert session.engine.sentence("the cat sat.") == "the cat sat.", "the model knows this mark"
    for line in ("/temperature 0.5", "/why", "/lens the cat", "/seed 3"):
        assert problem(session, line) == f"{line.split()[0]} needs a model that goes on with a text, and tiny is a translator"
    session.engine.record["prompt"] = "the dog sat"
    helped = said(session, "/help")
    assert "the model translates it. It knows the words of sentences such as 'the dog sat'." in helped
    assert "/length N" in helped and "/compare" in helped and "/temperature" not in helped and "/why" not in helped


def test_help_lists_every_command(session):
    shown = said(session, "/help")
    assert all(command.usage in shown and command.about in shown for command in COMMANDS)
    assert max(map(len, shown.splitlines())) <= 100


def test_without_a_terminal_every_line_is_answered_and_a_mistake_does_not_end_it(session):
    out, notes, problems = io.StringIO(), io.StringIO(), []
    assert not run_plain(session, ["/temperature 0\n", "\n", "the kiten\n", "/wy\n", "/why the cat\n", "/quit\n", "the dog\n"], out, notes, problems.append)
    lines = out.getvalue().splitlines()
    assert lines[1] == "after 'The cat'" and "dog" not in lines[-1] and len(lines) == 8
    assert "temperature is 0" in notes.getvalue() and "'kiten'" in notes.getvalue()
    assert problems == ["there is no command /wy; did you mean /why?"]
    assert run_plain(session, ["the cat"], out, notes, problems.append)


def test_control_characters_of_a_model_do_not_reach_the_terminal():
    assert without_controls("a\x1b[2J\x07\tb\nc\x9b é") == "a\ufffd[2J\ufffd\tb\nc\ufffd é"


def test_a_wrong_call_is_a_sentence_and_a_status(tmp_path):
    for arguments, status, sentence in (
        (["tiny", "--gpt2", str(tmp_path)], 2, "not both"),
        (["--gpt2", str(tmp_path / "nowhere")], 1, "download model.safetensors, vocab.json, merges.txt and config.json of openai-community/gpt2 from Hugging Face"),
        ([str(tmp_path)], 1, "is not a checkpoint"),
        (["no such name"], 1, "there is no checkpoint 'no such name'"),
    ):
        result = CliRunner().invoke(app, ["play", *arguments])
        assert result.exit_code == status and sentence in " ".join(result.output.split())
