"""`headway train`: trains a model of the learner's own parts."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: on a busy machine, threads that wait actively slow each other down

from grader.console.output import command_line, make_console, print_error, print_wrapped  # noqa: E402
from grader.models.packages import missing_packages  # noqa: E402

DONE, FAILED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


def train(name: str | None, resume: bool, device: str, chosen: dict[str, Any]) -> int:
    """Train, or go on training. `chosen` has the other options, None where one is not given.

    Exit status 1: a problem with the learner's code or data; 2: wrong use; 130: Control-C, with the checkpoint saved.
    """
    if sentence := _wrong_use(name, resume, chosen):
        print_error(sentence)
        return UNUSABLE
    if missing := missing_packages("train"):
        print_error(missing)
        return FAILED
    try:
        return _run(name, resume, device, chosen)
    except KeyboardInterrupt:
        print(flush=True)
        print_error("stopped")
        return INTERRUPTED


def _wrong_use(name: str | None, resume: bool, chosen: dict[str, Any]) -> str | None:
    if chosen["steps"] is not None and chosen["minutes"] is not None:
        return "--steps and --minutes both say how long to train; give one of them"
    if name is not None and not _is_plain_name(name):
        return f"--name is the name of a folder in checkpoints/, of letters, digits, hyphens and dots, not {name!r}"
    given = next((option for option, value in chosen.items() if value is not None), None)
    return f"--resume goes on with the settings of the checkpoint; leave out --{given}" if resume and given else None


def _is_plain_name(name: str) -> bool:
    return bool(name) and len(name) <= 80 and not name.startswith(".") and all(c.isalnum() or c in "-_." for c in name)


def _run(name: str | None, resume: bool, device: str, chosen: dict[str, Any]) -> int:
    from grader.models.checkpoint import CheckpointProblem
    from grader.models.design import DesignProblem
    from grader.models.own_parts import CodeProblem
    from grader.models.training.own_text import TextProblem
    from grader.models.training.run import Training
    from grader.teaching.walks.parts import NotInHandout

    made: list[Training] = []
    try:
        training = _make(name, resume, find_device(device), chosen)
        made.append(training)
        return _train(training)
    except (DesignProblem, NotInHandout) as problem:
        print_error(str(problem))
        return UNUSABLE
    except (TextProblem, CheckpointProblem, CodeProblem) as problem:
        print_error(str(problem))
        return FAILED
    finally:
        for training in made:
            training.close()


def find_device(word: str) -> str:
    """The device that --device means. DesignProblem if it is not there."""
    import torch
    from grader.models.design import DesignProblem

    if word == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if word == "cuda" and not torch.cuda.is_available():
        raise DesignProblem("--device cuda: torch finds no CUDA device on this machine; leave out --device")
    return word


def _make(name: str | None, resume: bool, device: str, chosen: dict[str, Any]):
    from grader.models.training import run
    from grader.models.training.settings import MINUTES, Settings
    from grader.teaching.walks.progress_line import show_progress

    if resume:
        from grader.models.checkpoint import find_checkpoint

        return run.resume(find_checkpoint(name), device, show_progress)
    other = {option: value for option, value in chosen.items() if option not in ("model", "preset", "seed")}
    settings = Settings(kind=chosen["model"] or "gpt", size=chosen["preset"] or "tiny", seed=chosen["seed"] or 0, **other)
    return run.begin(run.with_steps(settings, MINUTES[settings.size]), name, device, show_progress)


def _train(training) -> int:
    from grader.models.checkpoint import CheckpointProblem
    from grader.models.own_parts import CodeProblem
    from grader.models.training.live_page import make_page
    from grader.models.training.run import control_c, run
    from grader.models.training.trainer import NotANumber

    console = make_console()
    if training.is_finished:
        print_wrapped(console, f"{training.name} is trained to its end, {training.total:,} steps. To train another model, leave out --resume.")
        return DONE
    introduce(training)
    try:
        with control_c() as interrupted:
            finished = run(training, make_page(), interrupted)
    except (CodeProblem, NotANumber, CheckpointProblem) as problem:
        print_error(f"{str(problem).removesuffix('.')}. {what_is_saved(training)}")
        return FAILED
    console.print()
    if not finished:
        print_wrapped(console, f"Stopped after {training.trainer.steps_done:,} steps, and saved. To go on:")
        console.print(command_line(f"headway train --resume --name {training.name}"))
        return INTERRUPTED
    _conclude(training)
    return DONE


def introduce(training) -> None:
    """Print what is trained, whose parts run, and notes about the text."""
    console = make_console()
    trainer, design = training.trainer, training.trainer.design
    count = sum(parameter.numel() for parameter in trainer.parameters)
    kind = {"gpt": "GPT", "moe": "GPT with experts", "translate": "translator"}[design.kind]
    print_wrapped(console, f"A {kind} with {count:,} parameters and {trainer.corpus.tokenizer.vocab_size:,} tokens; it reads {trainer.corpus.title}.")
    for sentence in (*training.own.sentences(), *training.notes):
        print_wrapped(console, sentence)
    console.print()


def what_is_saved(training) -> str:
    """What stays after a failure, and how to go on."""
    from grader.models.checkpoint import CheckpointProblem, read_record

    try:
        steps = read_record(training.folder)["record"]["steps_done"]
    except (CheckpointProblem, KeyError):
        return "There is no checkpoint of this training yet."
    return f"The checkpoint from after {steps:,} steps stays: `headway train --resume --name {training.name}` goes on from there."


def _conclude(training) -> None:
    from grader.course.status import short_path

    console = make_console()
    trainer = training.trainer
    judged = training.judgement()
    if judged in JUDGED:
        print_wrapped(console, JUDGED[judged])
    print_wrapped(console, "Three translations of sentences that it has not seen:" if trainer.design.kind == "translate" else "Three texts that it writes now:")
    for seed in (1, 2, 3):
        print_wrapped(console, "- " + " ".join(trainer.write(seed).split()))
    console.print()
    print_wrapped(console, f"The model is in {short_path(training.folder)}. To try it:")
    console.print(command_line(f"headway play {training.name}"))


JUDGED = {
    "learning": "judge_fit says: learning. The validation loss went down with the training loss.",
    "overfitting": "judge_fit says: overfitting. The validation loss has begun to rise: train for a shorter time, or on more text.",
    "underfitting": "judge_fit says: underfitting. The training loss hardly went down: train for longer.",
}
