"""`headway hunt --training`: shows a training run in which one exercise is wrong, and asks which one.

`exercises/.headway/hunts/training.json` keeps which case is open, the looks and answers it has had, and what was found.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from grader.chapters.training_runs.cases import CASES, Case, in_hunt_order
from grader.chapters.training_runs.drawing import LOOKS, draw_at_once, draw_page
from grader.chapters.training_runs.records import SEEDS, Record, read_records, usual_record
from grader.chapters.training_runs.setups import SETUPS, STEPS
from grader.cli.arguments import known_name
from grader.console.output import command_line, make_console, print_error, print_wrapped, show_progress
from grader.counts import format_count
from grader.course.known_mistakes import Misconception, misconceptions
from grader.course.source import SourceProblem
from grader.course.syllabus import EXERCISES, is_handout, load_syllabus
from grader.files import UserProblem, problem, short_path, write_whole
from grader.teaching.terminal_drawing import Block
from rich.text import Text

STATE = EXERCISES / ".headway" / "hunts" / "training.json"
PAGE = EXERCISES / "hunts" / "training.html"
BUDGET, ANSWERS = 5, 3
NOTHING = "nothing"  # the answer for a run that shows no symptom
RIGHT, NOT_RIGHT, UNUSABLE = 0, 1, 2
AGAIN = "headway hunt --training"


@dataclass
class State:
    """The mistakes of the cases that are over, and what was done with the open one."""

    over: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)  # those of `over` that were named
    case: str = ""  # the open case's mistake; "" if none is open
    looks: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    live: dict[str, Any] | None = None  # the record of a live training, instead of the recorded one

    def save(self) -> None:
        """SourceProblem if that is not possible."""
        try:
            write_whole(STATE, json.dumps(asdict(self)) + "\n")
        except OSError as error:
            raise SourceProblem("the hunt was not saved: " + problem(error, f"write {STATE.name}")) from error


def load_state() -> State:
    """What was saved; a new state if the file is missing or damaged."""
    try:
        state = State(**json.loads(STATE.read_text(encoding="utf-8")))
        lists = (state.over, state.found, state.looks, state.wrong)
        if not all(isinstance(each, list) and all(isinstance(one, str) for one in each) for each in lists):
            return State()
        if state.case:
            case = next(case for case in CASES if case.mistake == state.case)
            for draw in (draw_at_once, *(LOOKS[name][1] for name in _open_looks(case))):
                draw(*_records(state, case))
        return state
    except (OSError, ValueError, RecursionError, TypeError, LookupError, AttributeError, StopIteration):
        return State()


def playable_cases() -> list[Case]:
    """The cases in the order of the hunt; in a handout those whose exercise and mistake it has."""
    return in_hunt_order(case for case in CASES if not is_handout() or _is_known(case))


def _is_known(case: Case) -> bool:
    exists = any(exercise.name == case.exercise for exercise in load_syllabus().exercises)
    return exists and any(each.id == case.mistake for each in misconceptions(case.module, case.exercise))


def training_hunt(
    look: str | None, answer: str | None, live: bool, begin_repair: Callable[[Misconception], None]
) -> int:
    """Begin the next case, or show the open one; with a look, show that; with an answer, say whether it is right. A
    mistake that was named right is repaired then."""
    state, cases = load_state(), playable_cases()
    case = next((case for case in cases if case.mistake == state.case), None)
    if case is None:
        if look or answer:
            raise UserProblem(f"no training run is open, so there is nothing to look at or name; begin with `{AGAIN}`")
        case = next((case for case in cases if case.mistake not in state.over), None)
        if case is None:
            print_wrapped(make_console(), f"There are no more runs. You found {len(state.found)} of {len(state.over)}.")
            return RIGHT
        state = State(state.over, state.found, case.mistake)
    if answer:
        return _judge(state, case, answer, begin_repair)
    if live:
        state.live = _train(case)
        state.save()
    if look:
        return _show_look(state, case, look)
    state.save()
    number = len(state.over) + 1
    _say(
        f"Run {number} of {len(cases)}: {SETUPS[case.setup].says} was trained for {STEPS} steps on small stories.",
        "One exercise of its code is wrong; perhaps you can see which. Beside it is a run of last week, from before "
        "the change, with other texts and another seed.",
    )
    _print(["", *draw_at_once(*_records(state, case))])
    try:
        write_whole(PAGE, draw_page(*_records(state, case)))
    except OSError as error:
        raise SourceProblem("the page was not written: " + problem(error, f"write {short_path(PAGE)}")) from error
    _say(f"The same as a page, with larger curves: {short_path(PAGE)}")
    _print_next(state, case)
    return RIGHT


def _say(*sentences: str) -> None:
    """Print a paragraph, after an empty line."""
    _print(["", " ".join(sentences)])


def _print(block: Block) -> None:
    console = make_console()
    for part in block:
        console.print(part) if isinstance(part, Text) else print_wrapped(console, part)


def _records(state: State, case: Case) -> tuple[Record, Record]:
    """The record of the run, at one of its seeds, and that of last week's."""
    if state.live is not None:
        return Record(state.live), usual_record(case.setup)
    return read_records(case.mistake)[len(case.mistake) % len(SEEDS)], usual_record(case.setup)


def _train(case: Case) -> Record:
    from grader.chapters.training_runs.training import train_and_look

    with show_progress("training a small GPT", STEPS) as advance:
        return train_and_look(SETUPS[case.setup], case.find_mistake(), SEEDS[-1] + 2, advance)


def _open_looks(case: Case) -> list[str]:
    return [name for name in LOOKS if name != "cache" or not SETUPS[case.setup].experts]


def _print_next(state: State, case: Case) -> None:
    left = BUDGET - len(state.looks)
    if left:
        _say(f"You may ask for {left} of these looks:")
        _print([Text(f"    {name:12} {LOOKS[name][0]}") for name in _open_looks(case) if name not in state.looks])
    else:
        _say("You have had all looks.")
    ask = "Ask for one, or name" if left else "Name"
    _say(f"{ask} the exercise that is wrong, or `{NOTHING}` if the run does not show it:")
    console = make_console()
    if left:
        console.print(command_line(f"{AGAIN} --look NAME"))
    console.print(command_line(f"{AGAIN} --name EXERCISE"))


def _show_look(state: State, case: Case, look: str) -> int:
    """Show a look; it counts once, however often it is shown."""
    name = known_name("look", AGAIN, look, list(LOOKS))
    if name not in _open_looks(case):
        print_error(f"this model has experts, and its code has no {name}; the look was not counted")
        return UNUSABLE
    if name not in state.looks:
        if len(state.looks) == BUDGET:
            print_error(f"all {BUDGET} looks are used; name the exercise that is wrong: `{AGAIN} --name EXERCISE`")
            return NOT_RIGHT
        state.looks.append(name)
        state.save()
    _print(LOOKS[name][1](*_records(state, case)))
    _print_next(state, case)
    return RIGHT


def _judge(state: State, case: Case, answer: str, begin_repair: Callable[[Misconception], None]) -> int:
    """Say whether the answer is right; after the last wrong one, say what it was."""
    nothing = answer.strip().lower() == NOTHING
    named = NOTHING if nothing else load_syllabus().exercise(answer).name
    right = named in (case.exercise, *case.also) or nothing and case.symptom is None
    if not right:
        if named not in state.wrong:
            state.wrong.append(named)
        left = ANSWERS - len(state.wrong)
        _say(
            "No: a look at this run shows that something is wrong." if nothing else f"No: {named} is right in this run."
        )
        if left > 0:
            state.save()
            _say(f"You can answer {format_count(left, 'more time', 'more times')}.")
            _print_next(state, case)
            return NOT_RIGHT
    looks = format_count(len(state.looks), "look")
    state = State([*state.over, case.mistake], [*state.found, case.mistake] if right else state.found)
    state.save()
    mistake = case.find_mistake()
    if right and named in case.also:
        _say(f"Right: a mistake in {named} could look the same, so this counts. Here it is in {case.exercise}.")
    elif right:
        _say("Right: this run shows nothing wrong." if nothing else f"Right: it is {case.exercise}.")
    elif case.symptom:
        _say(f"It is {case.exercise}.")
    else:
        _say(f"The answer is `{NOTHING}`.")
    if case.symptom is None and not (right and not nothing):
        _say(f"{case.exercise} is wrong all the same, but what shows is too little to notice. A test finds it at once.")
    _say(mistake.says)
    _say(case.shows, f"You used {looks} of {BUDGET}.")
    if right and case.symptom:
        print()
        begin_repair(mistake)
    if len(state.over) < len(playable_cases()):
        _say("The next run:")
        make_console().print(command_line(AGAIN))
    return RIGHT if right else NOT_RIGHT
