"""The page of a training: it fits every terminal, and its curves show the numbers."""

import io

import pytest
from grader.models.training.curves import draw_curves
from grader.models.training.live_page import PlainPage, View, page_lines
from grader.models.training.trainer import History
from rich.console import Console
from rich.text import Text


@pytest.fixture
def view():
    losses = [6 * 0.99**step + 0.5 for step in range(412)]
    samples = [(step, f"Word{step} " + "once there was a dog " * 12) for step in (0, 73, 146, 292)]
    history = History(losses, [1.0] * 412, [(step, losses[min(step, 411)] + 0.1) for step in range(0, 412, 73)], samples)
    return View("stories-rope", history, 1180, 72.4, "Control-C saves and stops.", [0.1], [1000])


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize(("width", "height"), [(80, 30), (80, 24), (60, 18), (40, 12), (30, 8), (24, 5)])
def test_the_page_fits_the_terminal(view, width, height, unicode):
    lines = page_lines(view, width, height, unicode)
    assert len(lines) < height and max(line.cell_len for line in lines) < width
    assert all(isinstance(line, Text) for line in lines)
    text = "\n".join(line.plain for line in lines)
    assert "step 412" in text or width < 30
    if height >= 18:
        assert "34 %" in text and "1:12 left" in text and "loss 0.6" in text and "10,000 tokens a second" in text
        assert "at step 292:" in text and "Control-C saves" in text
    if not unicode:
        assert "⣀" not in text


def test_a_falling_loss_falls_from_left_to_right():
    lines = draw_curves([([(step, 10 - step) for step in range(11)], "cyan")], 10, 40, 8, unicode=False)
    marks = [(row, line.plain.find("*")) for row, line in enumerate(lines) if "*" in line.plain]
    assert marks == sorted(marks) and [row for row, _ in marks] == list(range(8)) and marks[0][1] < 12 < 25 < marks[-1][1]
    assert lines[0].plain.split()[0].startswith("10.") and lines[-1].plain.split()[0].startswith("-0.")


def test_without_a_terminal_a_moment_is_a_line(view):
    page = PlainPage()
    page.console = Console(file=io.StringIO(), width=80)
    page.moment(view)
    page.moment(view)
    said = page.console.file.getvalue().splitlines()
    assert said[0].startswith("step 412 of 1180, loss 0.6") and said[0].endswith("1:12 left")
    assert len(said) == 6 and said[1].startswith("  at step 0: Word0 once")  # each sample once
