"""Which definitions a definition reaches, in its module and in those that it imports."""

from __future__ import annotations

import pytest
from grader.execution.names_used import names_reached, names_used, reachable

OTHER = "def softmax(x): return _shifted(x)\ndef _shifted(x): return x\ndef unused(x): return x\n"
REACHED = {("mine", "head"), ("other", "softmax"), ("other", "_shifted")}


@pytest.mark.parametrize(
    "text",
    [
        "from .other import softmax\ndef head(x): return softmax(x)\n",
        "from .other import softmax as weights\ndef head(x): return weights(x)\n",
        "from . import other\ndef head(x): return other.softmax(x)\n",
        "from . import other as o\nclass head:\n    def forward(self, x): return o.softmax(x)\n",
        "import other\ndef head(x): return other.softmax(x)\n",
        "import course.other as o\ndef head(x): return o.softmax(x)\n",
        "from .other import *\ndef head(x): return softmax(x)\n",
    ],
)
def test_a_name_is_followed_into_the_module_that_it_is_imported_from(text):
    modules = {"mine": names_used(text), "other": names_used(OTHER)}
    assert reachable([("mine", "head")], modules.get) == REACHED


@pytest.mark.parametrize("text", ["import torch\ndef head(x): return torch.softmax(x, -1)\n", "from torch import softmax\ndef head(x): return softmax(x, -1)\n"])
def test_a_function_of_a_library_is_not_the_exercise_of_that_name(text):
    modules = {"mine": names_used(text), "other": names_used(OTHER)}
    assert reachable([("mine", "head")], modules.get) == {("mine", "head")}


def test_annotations_and_local_names_are_written_but_not_used():
    names = names_used("class Config: ...\ndef mask(x): ...\ndef head(x: Config):\n    mask = x\n    return gone(mask)\n")
    assert reachable([("", "head")], {"": names}.get) == {("", "head")}
    assert reachable([("", "head")], {"": names}.get, written=True) == {("", "head"), ("", "Config"), ("", "mask")}
    assert names_reached(names, "head") >= {"Config", "mask", "gone", "x"}
