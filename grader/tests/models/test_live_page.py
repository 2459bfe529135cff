"""The page of a training fits every terminal and shows the numbers."""

import io

import pytest
from grader.models.training.live_page import Page, View, page_lines
from grader.models.training.trainer import History
from rich.console import Console


@pytest.fixture
def view():
    losses = [6 * 0.99**step + 0.5 for step in range(412)]
    samples = [(step, f"Word{step} " + "once there was a dog " * 12) for step in (0, 73, 146, 292)]
    history = History(losses, [1.0] * 412, [(step, losses[min(step, 411)] + 0.1) for step in range(0, 412, 73)], samples)
    return View("stories-rope", history, 1180, 72.4, "Control-C saves and stops.", [0.1], [1000])


@pytest.mark.parametrize("width", [80, 30])
def test_the_page_fits_the_terminal(view, width):
    lines = page_lines(view, width)
    assert max(line.cell_len for line in lines) < width
    text = "\n".join(line.plain for line in lines)
    assert "step 412" in text and "34 %" in text and "1:12 left" in text and "loss 0.6" in text
    assert "10,000 tokens a second" in text.replace(",\n", ", ").replace("\n", " ") and "Control-C saves" in text
    assert ("validation  6.60" in text and "loss        6.50" in text) or width < 40



def test_without_a_terminal_a_moment_is_a_line(view):
    page = Page()
    page.console = Console(file=io.StringIO(), width=80)
    page.moment(view)
    page.moment(view)
    said = page.console.file.getvalue().splitlines()
    assert said[0].startswith("step 412 of 1180, loss 0.6") and said[0].endswith("1:12 left")
    assert len(said) == 6 and said[1].startswith("  at step 0: Word0 once")  # each sample once
