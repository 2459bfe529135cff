"""My tests of softmax. To run them: headway try-test softmax

Turn scores into weights that sum to 1, without overflow, and into zeros if every score is -inf.
"""

import torch
from hypothesis import given
from hypothesis import strategies as st


def test_one_example(learner):
    """One example finds little. What holds for every input?"""
    weights = learner.softmax(torch.tensor([1.0, 1.0]))
    assert torch.allclose(weights, torch.tensor([0.5, 0.5]))
