"""`headway train`: trains a model of the learner's own parts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from grader.cli.arguments import option
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.counts import format_count
from grader.files import UserProblem
from grader.models.packages import require_packages

if TYPE_CHECKING:
    from grader.models.training.training_run import Training

DONE, FAILED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
PORT = 29500  # torchrun's own choice too
BOTH_LENGTHS = "--steps and --minutes both say how long it takes; give one of them"

Preset = StrEnum("Preset", "mini tiny small")
Model = StrEnum("Model", "gpt moe translate")
Positions = StrEnum("Positions", "learned sinusoidal rope alibi")
Norm = StrEnum("Norm", "pre post")
Tokens = StrEnum("Tokens", "words bpe")
Attention = StrEnum("Attention", "plain qk_norm latent sink gated")
Optimizer = StrEnum("Optimizer", "adamw muon")
Schedule = StrEnum("Schedule", "cosine wsd")
Device = StrEnum("Device", "auto cpu cuda")
Text = Annotated[Path | None, option("Your own text. Without it: little stories.", metavar="FILE|FOLDER")]
Minutes = Annotated[float | None, option("How long. Default: 2, for small 20.", min=0.05, max=100_000, metavar="M")]
Steps = Annotated[int | None, option("How many steps, instead of minutes.", min=1, max=10_000_000, metavar="N")]
Seed = Annotated[int | None, option("Use other random numbers.", min=0, max=2**31 - 1, metavar="N")]
Processes = Annotated[
    int | None,
    option("Share each batch among N processes, by your code of chapter 18.", min=1, max=64, metavar="N"),
]
Hosts = Annotated[
    int | None,
    option("Print the command that trains on N machines, each with --processes.", min=2, max=1000, metavar="N"),
]
ByTorchrun = Annotated[bool, option("This is one of the processes that torchrun started.", "--torchrun", hidden=True)]
DeviceName = Annotated[Device, typer.Option(help="Where the model is.")]


def train(
    text: Text = None,
    preset: Annotated[Preset | None, option("The size of the model. Default: tiny.")] = None,
    minutes: Minutes = None,
    steps: Steps = None,
    model: Annotated[Model | None, option("A GPT, one with experts, or a translator.")] = None,
    positions: Annotated[Positions | None, option("How the model knows where a token is.")] = None,
    norm: Annotated[Norm | None, option("Where the blocks normalise.")] = None,
    tokens: Annotated[Tokens | None, option("Your WordTokenizer or your BPETokenizer.")] = None,
    heads: Annotated[int | None, option("Heads in each layer.", min=1, max=1024, metavar="N")] = None,
    attention: Annotated[Attention | None, option("An attention of chapter 20 in each block.")] = None,
    soft_cap: Annotated[float | None, option("Keep the logits between -C and C.", metavar="C")] = None,
    optimizer: Annotated[Optimizer | None, option("Muon for the matrices inside the blocks.")] = None,
    schedule: Annotated[Schedule | None, option("How the learning rate falls.")] = None,
    predict_tokens: Annotated[int | None, option("Learn to predict K tokens.", min=1, max=16, metavar="K")] = None,
    name: Annotated[str | None, option("The checkpoint is checkpoints/NAME.", metavar="NAME")] = None,
    seed: Seed = None,
    resume: Annotated[bool, option("Go on with an interrupted training: NAME's, or the latest.", "--resume")] = False,
    device: DeviceName = Device.auto,
    processes: Processes = None,
    hosts: Hosts = None,
    torchrun: ByTorchrun = False,
) -> int:
    """Train a language model of your own parts on text.

    The reference replaces exercises that do not pass their tests yet. Control-C saves the model, and --resume goes on
    from there."""
    chosen = dict(
        text=text, preset=preset, minutes=minutes, steps=steps, model=model, positions=positions, norm=norm,
        tokens=tokens, heads=heads, seed=seed, attention=attention, soft_cap=soft_cap, optimizer=optimizer,
        schedule=schedule, predict_tokens=predict_tokens,
    )  # fmt: skip
    check_use("train", name, resume, chosen)
    if hosts is not None:
        return _print_torchrun(hosts, processes or 1, name, resume, chosen)
    if torchrun or (processes or 1) > 1:
        return _train_in_processes(processes or 1, torchrun, name, resume, device, chosen)
    training = _make(name, resume, find_device(device), chosen)
    try:
        return _train(training)
    finally:
        training.close()


def _train_in_processes(
    size: int, torchrun: bool, name: str | None, resume: bool, device: Device, chosen: dict[str, Any]
) -> int:
    """Train in `size` processes on this machine, or as one of those that torchrun has started."""
    from contextlib import closing

    from grader.execution.simulated_group import GroupProblem
    from grader.models.design import DesignProblem
    from grader.models.process_group import STARTED_BY_TORCHRUN, join_group, missing_gloo
    from grader.models.training.data_parallel import follow, leading, started_followers
    from grader.models.training.trainer import EXERCISES

    if device == "cuda":
        raise DesignProblem("several processes train on the CPU; leave out --device cuda")
    if problem := missing_gloo():
        raise DesignProblem(problem)
    try:
        group = join_group(STARTED_BY_TORCHRUN) if torchrun else None
        if group and group.rank > 0:
            follow(group)
            return DONE
        with closing(_make(name, resume, "cpu", chosen, EXERCISES)) as training:
            size, rows = group.size if group else size, training.trainer.recipe.rows
            if size > rows:
                raise DesignProblem(
                    f"{size} processes cannot share a batch of {format_count(rows, 'row')}; use at most {rows}"
                )
            training.notes.append(f"{size} processes train it: each computes the gradients of its rows of every batch.")
            if training.is_finished and not group:
                return _train(training)
            with leading(training, group) if group else started_followers(training, size):
                return _train(training)
    except GroupProblem as problem:
        print_error(str(problem))
        return FAILED


def _print_torchrun(hosts: int, processes: int, name: str | None, resume: bool, chosen: dict[str, Any]) -> int:
    """Print the command that runs this training on several hosts."""
    import shlex
    import socket

    options = {"name": name} | chosen
    given = {option.replace("_", "-"): value for option, value in options.items() if value is not None}
    words = [word for option, value in given.items() for word in (f"--{option}", str(value))]
    words += ["--resume"] if resume else []
    address = ["--master-addr", socket.gethostname(), "--master-port", str(PORT)]
    start = ["torchrun", "--nnodes", str(hosts), "--node-rank", "0", "--nproc-per-node", str(processes), *address]
    console = make_console()
    print_wrapped(
        console,
        f"To train in {hosts * processes} processes on {hosts} hosts, run this on the first host, in a folder with "
        "this kit. It prints and saves the training:",
    )
    command = shlex.join([*start, "-m", "grader.cli.main", "train", "--torchrun", *words])
    console.print(command_line(command), soft_wrap=True)  # in one piece, to be copied
    print_wrapped(
        console,
        "On each other host run the same with --node-rank 1, 2 and so on. All need the same exercises, and the same "
        f"text in the same place. {socket.gethostname()} must be a name or an address of this machine that they reach; "
        "anyone who reaches the port can join the training, so use a network of your own.",
    )
    return DONE


def check_use(command: str, name: str | None, resume: bool, chosen: dict[str, Any]) -> None:
    """UserProblem if these options of a command that trains do not fit together, or if it lacks a package."""
    if chosen.get("steps") is not None and chosen["minutes"] is not None:
        raise UserProblem(BOTH_LENGTHS)
    if name is not None and not _is_plain_name(name):
        kinds = "letters, digits, hyphens and dots"
        raise UserProblem(f"--name is the name of a folder in checkpoints/, of {kinds}, not {name!r}")
    given = next((option.replace("_", "-") for option, value in chosen.items() if value is not None), None)
    if resume and given:
        raise UserProblem(f"--resume goes on with the settings of the checkpoint; leave out --{given}")
    require_packages(command, exit_status=FAILED)


def _is_plain_name(name: str) -> bool:
    return bool(name) and len(name) <= 80 and not name.startswith(".") and all(c.isalnum() or c in "-_." for c in name)


def find_device(word: str) -> str:
    """The device that --device means. DesignProblem if it is not there."""
    import torch
    from grader.models.design import DesignProblem

    if word == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if word == "cuda" and not torch.cuda.is_available():
        raise DesignProblem("--device cuda: torch finds no CUDA device on this machine; leave out --device")
    return word


def _make(
    name: str | None, resume: bool, device: str, chosen: dict[str, Any], more_exercises: Collection[str] = ()
) -> Training:
    from grader.console.output import show_progress
    from grader.models.training import training_run
    from grader.models.training.recipes import MINUTES, Settings

    if resume:
        from grader.models.checkpoint import find_checkpoint

        return training_run.resume(find_checkpoint(name), device, show_progress, more_exercises)
    other = {option: value for option, value in chosen.items() if option not in ("model", "preset", "seed")}
    settings = Settings(
        kind=chosen["model"] or "gpt", size=chosen["preset"] or "tiny", seed=chosen["seed"] or 0, **other
    )
    if settings.steps is None and settings.minutes is None:
        settings = replace(settings, minutes=MINUTES[settings.size])
    return training_run.begin(settings, name, device, show_progress, more_exercises)


def train_to_end(training) -> bool:
    """Train; False after Control-C. CheckpointProblem, with what is saved, if it fails."""
    from grader.execution.simulated_group import GroupProblem
    from grader.models.checkpoint import CheckpointProblem
    from grader.models.own_parts import CodeProblem
    from grader.models.training.live_page import control_c, make_page
    from grader.models.training.trainer import NotANumber
    from grader.models.training.training_run import run

    _introduce(training)
    try:
        with control_c() as interrupted:
            finished = run(training, make_page(), interrupted)
    except (CodeProblem, NotANumber, CheckpointProblem) as problem:
        raise CheckpointProblem(f"{str(problem).removesuffix('.')}. {_what_is_saved(training)}") from problem
    except GroupProblem as problem:  # before the update of a step, so the model is whole
        training.save()
        raise CheckpointProblem(f"{training.trainer.team.explain(problem)}. {_what_is_saved(training)}") from problem
    make_console().print()
    return finished


def _train(training) -> int:
    console = make_console()
    if training.is_finished:
        advice = "To train another model, leave out --resume."
        print_wrapped(
            console, f"{training.name} is trained to its end, {format_count(training.total, 'step')}. {advice}"
        )
        return DONE
    if not train_to_end(training):
        print_wrapped(
            console, f"Stopped after {format_count(training.trainer.steps_done, 'step')}, and saved. To go on:"
        )
        console.print(command_line(f"headway train --resume --name {training.name}"))
        return INTERRUPTED
    _conclude(training)
    return DONE


def _introduce(training) -> None:
    """Print what is trained, whose parts run, and notes about the text."""
    console = make_console()
    trainer, design = training.trainer, training.trainer.design
    count = sum(parameter.numel() for parameter in trainer.parameters)
    kind = {"gpt": "GPT", "moe": "GPT with experts", "translate": "translator"}[design.kind]
    size = f"{count:,} parameters and {trainer.corpus.tokenizer.vocab_size:,} tokens"
    print_wrapped(console, f"A {kind} with {size}; it reads {trainer.corpus.title}.")
    for sentence in (*training.own.sentences(), *training.notes):
        print_wrapped(console, sentence)
    console.print()


def _what_is_saved(training) -> str:
    """What stays after a failure, and how to go on."""
    from grader.models.checkpoint import CheckpointProblem, read_record

    try:
        steps = read_record(training.folder)["record"]["steps_done"]
    except (CheckpointProblem, KeyError):
        return "There is no checkpoint of this training yet."
    command = f"`headway train --resume --name {training.name}`"
    return f"The checkpoint from after {format_count(steps, 'step')} stays: {command} goes on from there."


def _conclude(training) -> None:
    from grader.course.status import short_path

    console = make_console()
    trainer = training.trainer
    judged = training.judgement()
    if judged in JUDGED:
        print_wrapped(console, JUDGED[judged])
    translations = "Three translations of sentences that it has not seen:"
    print_wrapped(console, translations if trainer.design.kind == "translate" else "Three texts that it writes now:")
    for seed in (1, 2, 3):
        print_wrapped(console, "- " + " ".join(trainer.write(seed).split()))
    console.print()
    print_wrapped(console, f"The model is in {short_path(training.folder)}. To try it:")
    console.print(command_line(f"headway play {training.name}"))


JUDGED = {
    "learning": "judge_fit says: learning. The validation loss went down with the training loss.",
    "overfitting": "judge_fit says: overfitting. The validation loss rises: train for a shorter time, or on more text.",
    "underfitting": "judge_fit says: underfitting. The training loss hardly went down: train for longer.",
}
