"""What a run has shown: the answer in sentences, the table of pass@k, and a page with curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise

from grader.chapters.ch26_reasoning.reasoning.passing import (
    ATTEMPTS,
    DRAWS,
    Change,
    Evaluation,
    held_out_sums,
    of_each,
    of_solved,
)
from grader.chapters.ch26_reasoning.reasoning.reason_progress import (
    ANSWER_STEPS,
    ENOUGH,
    REWARD_STEPS,
    Progress,
)
from grader.chapters.ch26_reasoning.reasoning.reason_run import Run
from grader.chapters.ch26_reasoning.reasoning.rewarding import RECIPES
from grader.chapters.ch26_reasoning.reasoning.sums import NEW_DIGITS
from grader.counts import format_count
from grader.teaching.drawing import curves

PAGE_FILE = "report.html"
MAX_CHANCE = 0.05  # a smaller probability of chance counts as a difference
MOST_POINTS = 60  # of a curve over steps; each is a mean, because single steps jump up and down
SAID = {"corrected": "with all corrections", "plain": "as in chapter 17"}


# ---- the answer


def conclusions(progress: Progress) -> list[str]:
    """What the rewards did to the model that was trained with all corrections; then both recipes compared."""
    assert progress.start is not None
    before, (after, plain) = progress.start, (progress.tests[name][-1] for name in RECIPES)
    said = [*describe_learning(before, after, [one.reward for one in progress.outcomes["corrected"]])]
    if any(one.reward for made in progress.outcomes.values() for one in made):
        said.append(_compare_recipes(plain, after))
    prepared = progress.checks[-1:] >= [ENOUGH] or len(progress.losses) >= ANSWER_STEPS
    if not prepared or progress.reward_steps_done < REWARD_STEPS // 2:
        made = f"{format_count(len(progress.losses), 'step')} on right answers and {progress.reward_steps_done}"
        said.append(f"The run was short: {made} on rewards. Give it more --minutes.")
    return said


def describe_learning(before: Evaluation, after: Evaluation, rewards: Sequence[float]) -> list[str]:
    """Did rewards teach something new, or only make one of the model's answers likelier?"""
    if not any(rewards):
        return [
            "Nothing was learned from rewards, because no answer in training was right. Rewards can only strengthen "
            "what the model does sometimes."
        ]
    each, solved = of_each(before, after), of_solved(before, after)
    count = len(before.right)
    one = f"pass@1 went from {_percent(before.passed(1))} to {_percent(after.passed(1))}"
    many = f"pass@{DRAWS} from {_percent(before.passed(DRAWS))} to {_percent(after.passed(DRAWS))}"
    moved = f"{each.better} of {format_count(count, 'question')} got more right answers, and {each.worse} fewer"
    facts = f"{one}, and {many}. {moved}; {_chance(each)}."
    if each.chance >= MAX_CHANCE:
        return ["This run shows no learning from rewards: the difference may be chance.", _sentence(facts)]
    if each.worse > each.better:
        return ["Rewards made the model worse.", _sentence(facts)]
    new = f"{format_count(solved.better, 'question')} that none of {DRAWS} answers solved before"
    lost = f"{solved.worse} that were solved before"
    if solved.chance < MAX_CHANCE and solved.better > solved.worse:
        return [
            "Rewards taught something new, and did not only make one of the model's answers likelier.",
            _sentence(facts),
            f"{DRAWS} answers now solve {new}, and miss {lost}; {_chance(solved)}.",
        ]
    if solved.chance < MAX_CHANCE:
        return [
            "Rewards made one of the model's answers likelier, and other right answers were lost.",
            _sentence(facts),
            f"{DRAWS} answers now solve {new}, but miss {lost}; {_chance(solved)}.",
        ]
    return [
        "Rewards made right answers likelier that the model already gave sometimes. That it learned something new is "
        "not shown.",
        _sentence(facts),
        f"At least one answer now solves {new}, and none solves {lost}; {_chance(solved)}.",
    ]


def _compare_recipes(plain: Evaluation, corrected: Evaluation) -> str:
    passed = f"{_percent(corrected.passed(1))} {SAID['corrected']} and {_percent(plain.passed(1))} {SAID['plain']}"
    change = of_each(plain, corrected)
    counted = f"on {change.better} questions the corrections have more right answers, on {change.worse} fewer"
    shown = "this run shows no difference" if change.chance >= MAX_CHANCE else "yet two seeds may differ as much"
    return f"The two recipes reach a pass@1 of {passed}: {counted}. {_sentence(_chance(change))}; {shown}."


def _chance(change: Change) -> str:
    odds = "less than 0.001" if change.chance < 0.001 else f"{change.chance:.2g}"
    return f"if nothing had changed, the probability of this would be {odds}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] if not text.startswith("pass@") else text


# ---- the table and the curves


COLUMNS = ("", "before", "corrected", "chapter 17")


def table_rows(progress: Progress) -> list[tuple[str, ...]]:
    """pass@k, entropy and length before rewards, and after them by both recipes."""
    tests = _first_and_last(progress)
    return [
        *((f"pass@{k}", *(f"{test.passed(k):.3f}" for test in tests)) for k in ATTEMPTS),
        ("entropy, nats", *(f"{test.entropy:.3f}" for test in tests)),
        ("length, tokens", *(f"{test.length:.1f}" for test in tests)),
    ]


def _first_and_last(progress: Progress) -> list[Evaluation]:
    assert progress.start is not None
    return [progress.start, *(made[-1] for made in progress.tests.values())]


def draw_charts(progress: Progress) -> list[str]:
    """The curves as SVG: rewards, pass@1 and pass@32, pass@k, entropy and length."""
    assert progress.start is not None
    start, steps = progress.start, "steps of training on rewards"
    charts = [curves({"loss": _means(progress.losses)}, "Training on right answers", x_name="steps", y_name="loss")]
    rewards = {SAID[name]: _means([one.reward for one in made]) for name, made in progress.outcomes.items()}
    charts.append(curves(rewards, "Right answers in training", x_name=steps, y_name="share"))

    def over_steps(value: Callable[[Evaluation], float]) -> dict[str, list[tuple[float, float]]]:
        return {SAID[name]: [(one.step, value(one)) for one in (start, *made)] for name, made in progress.tests.items()}

    passed = {f"pass@1, {name}": points for name, points in over_steps(lambda one: one.passed(1)).items()}
    often = over_steps(lambda one: one.passed(DRAWS))
    passed |= {f"pass@{DRAWS}, {name}": points for name, points in often.items()}
    looks = [(colour, dash) for dash in (0, 1) for colour in (0, 1)]
    title = f"Held-out questions: pass@1 and pass@{DRAWS}"
    charts.append(curves(passed, title, x_name=steps, y_name="share of the questions", looks=looks))
    tests = {"before rewards": start} | {SAID[name]: made[-1] for name, made in progress.tests.items()}
    by_attempts = {name: [(float(k), one.passed(k)) for k in ATTEMPTS] for name, one in tests.items()}
    charts.append(curves(by_attempts, "pass@k before and after", x_name="k, the answers", y_name="pass@k", log_x=True))
    charts.append(curves(over_steps(lambda one: one.entropy), "Entropy of the next token", x_name=steps, y_name="nats"))
    charts.append(curves(over_steps(lambda one: one.length), "Length of the answers", x_name=steps, y_name="tokens"))
    return charts


def _means(values: Sequence[float]) -> list[tuple[float, float]]:
    """At most MOST_POINTS points, each in the middle of the steps that it is the mean of."""
    size = math.ceil(len(values) / MOST_POINTS)
    ends = [*range(0, len(values), size), len(values)]
    return [((low + 1 + high) / 2, sum(values[low:high]) / (high - low)) for low, high in pairwise(ends)]


# ---- the page


PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>headway reason: {name}</title>
<style>
body {{ max-width: 800px; margin: 2em auto; padding: 0 1em; font: 16px/1.5 system-ui, sans-serif }}
svg {{ display: block; max-width: 100%; height: auto; margin: 1em 0 }}
.wide {{ overflow-x: auto }}
table {{ border-collapse: collapse }}
th, td {{ padding: 0.2em 0.6em; text-align: right; white-space: nowrap }}
th:first-child, td:first-child {{ text-align: left }}
code {{ overflow-wrap: anywhere }}
</style>
</head>
<body>
<h1>Did rewards teach something new?</h1>
<p><strong>{answer}</strong></p>
{sentences}
<h2>Before and after</h2>
<div class="wide" tabindex="0">
<table>
{table}
</table>
</div>
<p>{explained}</p>
<h2>Curves</h2>
{charts}
<h2>Answers</h2>
<p>The first answer to each of {samples_of}. The scratchpad stands before <code>&gt;</code>.</p>
<div class="wide" tabindex="0">
<table>
{samples}
</table>
</div>
<h2>How this was made</h2>
{made}
</body>
</html>
"""


def draw_page(run: Run) -> str:
    """The page as HTML, which needs no other file."""
    progress = run.progress
    assert progress.questions is not None
    answer, *sentences = conclusions(progress)
    asked = [one.question for one in held_out_sums(run.own.parts)]
    samples = [("question", *COLUMNS[1:]), *zip(asked, *(test.samples for test in _first_and_last(progress)))]
    questions = format_count(progress.questions, "held-out question")
    explained = (
        f"{questions} with {NEW_DIGITS} digits, {DRAWS} answers to each, at temperature 1. pass@k is the "
        "probability that at least one of k answers is right, estimated without bias from all of them."
    )
    return PAGE.format(
        name=escape(run.name), answer=escape(answer), sentences=_paragraphs(sentences),
        table=_rows([COLUMNS, *table_rows(progress)]), explained=escape(explained),
        charts="\n".join(draw_charts(progress)), samples=_rows(samples),
        samples_of=format_count(len(samples) - 1, "question"), made=_paragraphs(_how_it_was_made(run)),
    )  # fmt: skip


def _how_it_was_made(run: Run) -> list[str]:
    progress = run.progress
    minutes = sum(progress.seconds.values()) / 60
    return [
        f"{format_count(len(progress.losses), 'step')} on right answers with 1 to {NEW_DIGITS} digits, and "
        f"{format_count(progress.reward_steps_done, 'step')} of each recipe on rewards, seed {progress.seed}: "
        f"{minutes:.1f} minutes. Headway {progress.headway}.",
        "The recipe “with all corrections” has leave_one_out_advantages, informative_groups, asymmetric_policy_loss "
        "with the fixed average, kl_loss and long_answer_penalty. The other one has group_advantages, policy_loss and "
        "kl_estimate. Both began with the same model and got the same questions.",
        *run.own.sentences(),
    ]


def _paragraphs(sentences: Sequence[str]) -> str:
    return "\n".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _rows(rows: Sequence[Sequence[str]]) -> str:
    kinds = ["th", *["td"] * (len(rows) - 1)]
    cells = ("".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in row) for kind, row in zip(kinds, rows))
    return "\n".join(f"<tr>{row}</tr>" for row in cells)
