"""The proof that catching a mistake is never luck, on a small scale: it finds a mistake that only some seeds' examples show; a pinned example shows it at every seed."""

import re

import pytest
from grader.quality.benchmarks.workplace import copied_kit
from test_proof import prove

pytestmark = pytest.mark.thorough

SUITE, PIN = "test_ch03_attention.py", "@example(n=at(B=1, T=2, V=3), dim=1, seed=0)"
OF_LUCK = '''
[softmax.of_luck]
replace = "x.amax(dim, keepdim=True)"
with = "x.amax(dim, keepdim=True) + (x if x.dim() == 3 and x.size(0) == 3 else 0)"
says = "Batches of 3 texts come out wrong."
hint = "Which sizes do the tests draw?"
'''


@pytest.fixture
def kit():
    """A copy of the kit with a known mistake that shows at few sizes."""
    with copied_kit() as root:
        with (root / "tests" / "misconceptions" / "ch03_attention.toml").open("a", encoding="utf-8") as file:
            file.write(OF_LUCK)
        yield root


def count(root, *more):
    return prove("catches", "--exercise", "softmax", "--mistake", "of_luck", "--seeds", "20", "-j", "1", *more, root=root)


def test_a_mistake_that_some_seeds_miss_is_found_and_a_pinned_example_catches_it(kit):
    done = count(kit, "--mistake", "softmax_base_two")
    assert done.returncode == 1, done.stdout + done.stderr
    missed = re.search(r"^✗ softmax: of_luck is caught at (\d+) of 20 seeds; not at \d", done.stdout, re.M)
    assert missed and 0 < int(missed[1]) < 20, done.stdout
    assert "2 known mistakes: 1 are caught in the same way at every seed" in done.stdout
    assert f"The smallest catch rate is {100 * int(missed[1]) / 20:.4g} %" in done.stdout
    assert done.stdout.count("✗") == 1

    suite = kit / "tests" / SUITE
    text = suite.read_text(encoding="utf-8")
    assert text.count(PIN) == 1
    suite.write_text(text.replace(PIN, f"{PIN}\n{PIN.replace('B=1', 'B=3')}"), encoding="utf-8")
    done = count(kit)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 known mistakes: 1 are caught in the same way at every seed" in done.stdout
