"""A package made of several authors' chapters."""

import importlib
import sys

import pytest
from grader.course.chapter_source import ChapterSource
from grader.course.torch_operators import ANOTHER_PACKAGE
from grader.execution.chapter_package import LEARNER, ChapterPackage
from grader.tests.shortcuts_seen import seen

ONE = ChapterSource("ch01_one", "def double(x):\n    return 2 * x\n", "somewhere/ch01_one.py")
TWO = ChapterSource("ch02_two", "from .ch01_one import double\n\ndef quadruple(x):\n    return double(double(x))\n", "elsewhere/ch02_two.py")


@pytest.fixture
def make_package():
    made = []

    def make(*sources, label=LEARNER):
        made.append(ChapterPackage(list(sources), label))
        return made[-1]

    yield make
    for package in made:
        package.close()
        assert not [name for name in sys.modules if name.startswith(package.name)]


def test_a_chapter_finds_its_neighbour_whoever_wrote_it_and_packages_share_nothing(make_package):
    first = make_package(ONE, TWO)
    assert first.module("ch02_two").quadruple(3) == 12
    tripled = ChapterSource("ch01_one", "def double(x):\n    return 3 * x\n", "mine/ch01_one.py")
    assert make_package(tripled, TWO).module("ch02_two").quadruple(3) == 27
    first.module("ch01_one").double = None
    assert make_package(ONE).module("ch01_one").double(1) == 2


def test_a_later_chapter_is_missing_and_the_message_lists_the_others(make_package):
    early = ChapterSource("ch01_one", "from .ch02_two import quadruple\n", "mine/ch01_one.py")
    with pytest.raises(ModuleNotFoundError, match="no chapter ch02_two .* no earlier chapter is here"):
        make_package(early).module("ch01_one")


@pytest.mark.parametrize("name", ["solutions.ch03_attention", "exercises.ch03_attention", "tests.strategies"])
def test_the_reference_cannot_be_imported(make_package, monkeypatch, name):
    monkeypatch.delitem(sys.modules, name, raising=False)  # another test of this process may have imported it
    peeking = ChapterSource("ch01_one", f"import importlib\nimportlib.import_module('{name}')\n", "mine/ch01_one.py")
    for _ in range(2):  # a failed import fails again
        with pytest.raises(ModuleNotFoundError, match="contains the answers"):
            make_package(peeking).module("ch01_one")


def test_a_package_of_the_kits_own_code_closes_nothing_to_others(make_package, monkeypatch):
    """A walk, a picture and the tests keep one open while the process goes on."""
    make_package(ONE, label="walk").module("ch01_one")
    monkeypatch.delitem(sys.modules, "solutions", raising=False)
    assert importlib.import_module("solutions").__name__ == "solutions"


@pytest.mark.filterwarnings("error")
def test_odd_code_is_compiled_without_a_warning(make_package):
    """Two known mistakes in one text can look odd; a learner's report would show Python's warning about it."""
    assert make_package(ChapterSource("ch01_one", "x = 0if 1 else 2\n", "known mistakes/ch01_one.py")).module("ch01_one").x == 0


def test_the_import_of_an_earlier_chapter_is_not_looked_for_among_the_installed_packages(make_package, tmp_path, monkeypatch):
    """Looking there takes a hundredth of a second, and found one that is called so."""
    monkeypatch.syspath_prepend(tmp_path)

    def reported(package):
        (tmp_path / package.name).mkdir()
        (tmp_path / package.name / "__init__.py").touch()
        return seen(lambda: package.module("ch02_two"), "softmax", importing=True)[1]

    assert reported(make_package(ONE, TWO, label="installed")) == [ANOTHER_PACKAGE]
    assert reported(make_package(ONE, TWO)) == []
