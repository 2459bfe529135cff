"""A module that is used without gradient, trained, and used again, with other parameters and longer input in between."""

from __future__ import annotations

from calls import call_in_mode
from grader.execution.proxy import gradients, load
from grader.verdict.comparing import close, holds
from module_pairs import compare_gradient
from pytest_check import check


def results_in_every_order(learner, module, rounds):
    """In each round: new parameters, a pass in inference mode, a training pass, a pass under no_grad; after all of them, a training pass of the first input.

    A round is (parameters, inputs); None as parameters leaves them as they are. What a module keeps from one pass is then read by a pass in each other mode.
    """
    quiet, found = learner.bring(call_in_mode), []
    for values, inputs in rounds:
        if values is not None:
            load(module, values)
        first = quiet(module.eval(), "inference_mode", *inputs)
        trained = gradients(module.train(), *inputs)
        found.append((first, trained, quiet(module.eval(), "no_grad", *inputs)))
    found.append((None, gradients(module.train(), *rounds[0][1]), None))
    return found


def compare_in_every_order(found, model, rounds, names, what="the output", tol=5e-5):
    """`names` are those of the inputs, of which some may be ids, without a gradient."""
    where = ("", " for longer input", " for the first input once more")
    for (first, trained, last), (values, inputs), when in zip(found, [*rounds, (rounds[-1][0], rounds[0][1])], where):
        if values is not None:
            load(model, values)
        expected = gradients(model, *inputs)
        for result, mode in ((first, f"{what} under torch.inference_mode"), (trained.output, f"{what} in training"), (last, f"{what} under torch.no_grad")):
            if result is not None:
                close(first_of(result), first_of(expected.output), f"{mode}{when}", tol)
        for name, got, gradient in zip(names, trained.inputs, expected.inputs):
            if gradient is not None:
                with check:
                    compare_gradient(got, gradient, f"{name}{when}", tol=1e-4)
        for name, gradient in expected.parameters.items():
            with check:
                holds(gradient is None or trained.parameters.get(name) is not None, f"after passes without gradient, no gradient reaches {name}{when}")


def first_of(result):
    """The logits, where there is a loss too."""
    return result[0] if isinstance(result, tuple | list) else result
