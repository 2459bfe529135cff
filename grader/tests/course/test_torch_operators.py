"""The lists of torch's operators: complete, without overlaps, and what they mean for the course's exercises."""

import collections

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.course.torch_operators import (
    ANOTHER_PACKAGE,
    TOOLS,
    chapter_rule,
    describe_forbidden,
    describe_shortcuts,
    families,
    families_of,
    family_of,
    forbidden_operators,
    may_import_anything,
    operators,
    reportable,
)

EXERCISES = load_syllabus().exercises
LISTED_FOR = "2.13"  # the torch whose operators the data file lists


def test_no_operator_is_in_two_families():
    count = collections.Counter(name for family in families() for name in family.operators)
    assert [name for name, times in count.items() if times > 1] == []


@pytest.mark.skipif(not torch.__version__.startswith(LISTED_FOR + "."), reason="the lists are of another torch")
def test_every_operator_of_this_torch_is_in_a_family():
    listed = {name for family in families() for name in family.operators}
    assert sorted(name for name in operators() if "::" not in name and name not in listed) == []


def test_an_operator_that_no_list_has_is_placed_by_its_name():
    assert family_of("_another_fused_softmax") == "softmax"
    assert family_of("quantized::layer_norm") == "normalization"
    assert family_of("_scaled_dot_product_new_attention") == "attention"
    assert family_of("mkldnn::_linear_pointwise") == "activation"
    assert family_of("_another_sum") == family_of("quantized::add") == TOOLS


def test_tools_of_the_course_are_tools():
    tools = ["exp", "sum", "amax", "cumsum", "mm", "_foreach_mul_", "bernoulli", "index", "gather", "var_mean", "linalg_vector_norm", "erf", "logaddexp", "relu"]
    assert {operators()[tool] for tool in tools} == {TOOLS}


def test_a_forbidden_name_means_its_family():
    assert {"softmax", "_softmax", "_masked_softmax", "logsumexp", "_softmax_backward_data"} <= set(forbidden_operators(("softmax",)))
    assert "_native_batch_norm_legit" in forbidden_operators(("LayerNorm",)) and "_fused_adamw_" in forbidden_operators(("AdamW",))
    assert forbidden_operators(("Embedding",)) == ()


def test_names_outside_all_families_mean_themselves():
    assert set(forbidden_operators(("cumsum",))) == {"cumsum", "cumsum_"} and families_of(("cumsum",)) == ()


def test_the_gradient_of_one_operator_means_only_that_operator():
    assert forbidden_operators(("gelu_backward",)) == ("gelu_backward",) and families_of(("_softmax_backward_data",)) == ()
    assert set(forbidden_operators(("layer_norm_backward",))) == {"native_layer_norm_backward"}
    assert describe_forbidden(("gelu_backward", "_softmax_backward_data")) == "torch's own `gelu_backward` and `_softmax_backward_data`"


def test_a_name_of_autograd_means_all_of_it():
    for name in ("backward", "grad", "autograd", "requires_grad_", "vjp", "inference_mode"):
        assert [family.name for family in families_of((name,))] == ["gradient"]
    assert "no_grad" not in reportable(("autograd",)) and "detach" not in reportable(("autograd",))


def test_a_chapter_says_what_its_learners_write_themselves():
    assert chapter_rule(("scaled_dot_product_attention",)).startswith("In this chapter, write attention yourself, without `F.scaled_dot_product_attention`")
    assert "; write gradients yourself, without `torch.autograd`" in chapter_rule(("scaled_dot_product_attention", "grad"))


def test_what_may_be_reported_is_bounded_and_includes_every_forbidden_name():
    for exercise in (exercise for exercise in EXERCISES if exercise.forbids):
        names = reportable(exercise.forbids)
        assert {*exercise.forbids, *forbidden_operators(exercise.forbids)} <= names and len(names) < 200 and max(map(len, names)) < 80, exercise.name
        assert (ANOTHER_PACKAGE in names) == bool(exercise.own_forbids) == (not may_import_anything(exercise.forbids)), exercise.name
        assert all(family.says for family in families_of(exercise.forbids)) and len(describe_forbidden(exercise.forbids)) < 400, exercise.name


def test_what_ran_is_described_in_words():
    (sentence,) = describe_shortcuts("softmax", {"_masked_softmax"})
    assert sentence.startswith("softmax ran torch's `_masked_softmax`, which is not allowed in this exercise; use arithmetic")
    assert "`softmax` and `logsumexp`" in describe_shortcuts("softmax", {"softmax", "_softmax", "logsumexp"})[0]
    assert "imports a package" in describe_shortcuts("softmax", {ANOTHER_PACKAGE})[0]
    assert describe_shortcuts("softmax", set()) == []
