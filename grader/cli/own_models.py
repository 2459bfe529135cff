"""The commands for models of the learner's own parts: they parse, and grader/cli/commands does the work."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from grader.cli.commands import completing

Preset = StrEnum("Preset", "mini tiny small")
Model = StrEnum("Model", "gpt moe translate")
Positions = StrEnum("Positions", "learned sinusoidal rope alibi")
Norm = StrEnum("Norm", "pre post")
Tokens = StrEnum("Tokens", "words bpe")
Device = StrEnum("Device", "auto cpu cuda")


def train(
    text: Annotated[Path | None, typer.Option(metavar="FILE|FOLDER", help="Your own text. Without it: little stories.", show_default=False)] = None,
    preset: Annotated[Preset | None, typer.Option(help="The size of the model. Default: tiny.", show_default=False)] = None,
    minutes: Annotated[float | None, typer.Option(min=0.05, max=100_000, metavar="M", help="How long. Default: 2, for small 20.", show_default=False)] = None,
    steps: Annotated[int | None, typer.Option(min=1, max=10_000_000, metavar="N", help="How many steps, instead of minutes.", show_default=False)] = None,
    model: Annotated[Model | None, typer.Option(help="A GPT, one with experts, or a translator.", show_default=False)] = None,
    positions: Annotated[Positions | None, typer.Option(help="How the model knows where a token is.", show_default=False)] = None,
    norm: Annotated[Norm | None, typer.Option(help="Where the blocks normalise.", show_default=False)] = None,
    tokens: Annotated[Tokens | None, typer.Option(help="Your WordTokenizer or your BPETokenizer.", show_default=False)] = None,
    heads: Annotated[int | None, typer.Option(min=1, max=1024, metavar="N", help="Heads in each layer.", show_default=False)] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The checkpoint is checkpoints/NAME.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, metavar="N", help="Use other random numbers.", show_default=False)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted training: NAME's, or the latest.")] = False,
    device: Annotated[Device, typer.Option(help="Where the model is.")] = Device.auto,
) -> None:
    """Train a language model of your own parts on text.

    The reference replaces exercises that do not pass their tests yet. Control-C saves the model, and --resume goes on as if nothing had happened."""
    from grader.cli.commands.train import train

    chosen = dict(text=text, preset=preset, minutes=minutes, steps=steps, model=model, positions=positions, norm=norm, tokens=tokens, heads=heads, seed=seed)
    raise typer.Exit(train(name, resume, device, chosen))


def play(
    checkpoint: Annotated[
        str | None,
        typer.Argument(metavar="CHECKPOINT", help="A checkpoint's name or folder; by default the newest.", autocompletion=completing.checkpoints, show_default=False),
    ] = None,
    gpt2: Annotated[Path | None, typer.Option("--gpt2", metavar="FOLDER", help="Play with GPT-2, downloaded from Hugging Face.", show_default=False)] = None,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Write with your KV cache, or feel the difference.")] = True,
    speculative: Annotated[
        str | None,
        typer.Option(metavar="CHECKPOINT", help="This smaller model guesses ahead, with chapter 15's code.", autocompletion=completing.checkpoints, show_default=False),
    ] = None,
    batch: Annotated[Path | None, typer.Option(metavar="FILE", help="Continue every line of the file in one batch, greedily.", show_default=False)] = None,
    web: Annotated[bool, typer.Option("--web", help="Play on a page in your browser, which also shows the inside of the model.")] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, metavar="N", help="With --web: the port of the page's server; 0 is any free port.", show_default=False)
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="With --web: open your browser, or only print the address.")] = True,
) -> None:
    """Type the beginning of a text, and your model continues it.

    /help lists the commands. Without a terminal, each line of the input is answered. With --web, Control-C stops the page."""
    from grader.cli.commands.play import play

    raise typer.Exit(play(checkpoint, gpt2, cache, speculative, batch, web, port, browser))


def compare(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="A B", help="Two checkpoints, or two designs.", autocompletion=completing.comparable, show_default=False)
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0.05, max=100_000, metavar="M", help="How long each design trains. Default: 2.", show_default=False)] = None,
    steps: Annotated[int | None, typer.Option(min=1, max=10_000_000, metavar="N", help="How many steps, instead of minutes.", show_default=False)] = None,
    text: Annotated[Path | None, typer.Option(metavar="FILE|FOLDER", help="Train the designs on this text.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, metavar="N", help="Train the designs with this seed.", show_default=False)] = None,
    prompt: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="Both continue this text; may be repeated.", show_default=False)] = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Write both loss curves to this file.", show_default=False)] = None,
    device: Annotated[Device, typer.Option(help="Where the models are.")] = Device.auto,
) -> None:
    """Compare two models, or two designs of a model.

    `headway compare stories stories-2` compares two checkpoints. `headway compare learned rope` trains two designs for the same number of
    steps, on the same text with the same seed, and compares them. The designs are learned, sinusoidal, rope, alibi; pre, post; dense, moe;
    heads=1, heads=4 (any number); words, bpe; mini, tiny, small; translate. Several changes are one word with commas: rope,heads=1.

    The models stay in checkpoints/, so the same command trains nothing the second time. After Control-C it goes on."""
    from grader.cli.commands.compare import compare

    training = dict(steps=steps, minutes=minutes, text=text, seed=seed)
    raise typer.Exit(compare(names or [], training, prompt or [], picture, device))
