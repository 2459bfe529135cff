"""Chapter 13 of the reference where graded tests do not go: far from 0, where most correct code overflows, and 0 ** 0."""

from __future__ import annotations

import math

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve


@pytest.fixture(scope="module")
def ch13():
    chapter = load_syllabus().chapter("ch13_backward")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("approximate", [False, True])
def test_far_from_zero_the_slope_of_gelu_is_0_or_1(ch13, approximate, dtype):
    far = torch.tensor([100.0, 1e20, torch.finfo(dtype).max, math.inf], dtype=dtype)
    slope = ch13.gelu_backward(torch.cat([far, -far]), torch.ones(8, dtype=dtype), approximate)
    assert slope.tolist() == [1.0] * 4 + [0.0] * 4


def test_the_power_0_of_0_has_the_slope_0(ch13):
    x = ch13.Scalar(0.0)
    y = x**0 + x**1
    y.backward()
    assert (y.value, x.grad) == (1.0, 1.0)
