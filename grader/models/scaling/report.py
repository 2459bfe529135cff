"""What the experiment found: tables and sentences, and the curves as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from grader.models.scaling.experiment import Law, scatter, tests_of
from grader.models.scaling.plan import budgets_of
from grader.models.scaling.record import Record, Trained
from grader.models.scaling.trainings import Trainings
from grader.teaching.drawing.charts import Points, curves
from grader.teaching.measurements import result_table
from rich.table import Table

PIECES = 40  # of a drawn parabola


def describe(record: Record, law: Law, trainings: Trainings) -> Iterator[Table | str]:
    columns = ("FLOPs", "parameters", "tokens", "loss", "bits a byte")

    def row(trained: Trained) -> tuple[str, ...]:
        bits = f"{trainings.bits_per_byte(trained.loss):.3f}"
        return f"{trained.budget:.1e}", f"{trained.parameters:,}", f"{trained.tokens:,}", f"{trained.loss:.3f}", bits

    budgets = budgets_of(record.first)[:3]
    trained = sorted((one for budget in budgets for one in record.of_seed(budget)), key=lambda one: one.budget)
    yield result_table("Held-out loss at three budgets", columns, map(row, trained))
    lowest = [(f"{c.budget:.1e}", f"{math.exp(c.best):,.0f}", f"{c.lowest:.3f}") for c in law.curves]
    yield result_table("The lowest point of each parabola", ("FLOPs", "parameters", "loss"), lowest)
    for curve in law.curves:
        if not curve.is_inside(record.of_seed(curve.budget)):
            yield f"At {curve.budget:.1e} FLOPs, the lowest point is outside of the sizes that were trained."
    a, b = law.exponents
    yield f"The best number of parameters grows like C^{a:.2f}, that of tokens like C^{b:.2f}; C is the FLOPs."
    start, factor, power = law.power_law
    yield f"The lowest losses are on {start:.3f} + {factor:.3g} · C^(-{power:.3f})."
    sizes = trainings.sizes
    test, *beside = tests_of(record, law, sizes)
    yield (
        f"The prediction for {test.budget:.1e} FLOPs: {law.parameters:,.0f} parameters and {law.tokens:,.0f} tokens "
        f"are best, with the loss {law.loss:.3f}."
    )
    yield result_table("The test", columns, map(row, (test, *beside)))
    yield from _judge(test, beside, law, scatter(record, sizes))


def _judge(test: Trained, beside: Sequence[Trained], law: Law, deviation: float) -> Iterator[str]:
    off = test.loss - law.loss
    verdict = "hardly more than" if abs(off) <= 2 * deviation else "much more than"
    verdict = "less than" if abs(off) <= deviation else verdict
    yield (
        f"The loss is {test.loss:.3f}, {abs(off):.3f} {'above' if off > 0 else 'below'} the prediction: {verdict} the "
        f"{deviation:.3f} by which trainings with other random numbers differ (standard deviation of a small model)."
    )
    for other in beside:
        share, difference = other.parameters / test.parameters, other.loss - test.loss
        how = "no real difference" if abs(difference) <= deviation else "worse" if difference > 0 else "better"
        yield f"With {share:.2g} times as many parameters, the loss differs by {difference:+.3f}: {how}."


def draw(record: Record, law: Law, tests: Sequence[Trained]) -> str:
    """The trained models as points, a parabola for each budget, and the larger trainings."""
    lines: dict[str, Points] = {}
    looks: list[tuple[int, int]] = []
    for number, curve in enumerate(law.curves):
        points = _points(record.of_seed(curve.budget))
        low, high = points[0][0], points[-1][0]
        way = [low + (high - low) * i / PIECES for i in range(PIECES + 1)]
        lines[f"{curve.budget:.1e} FLOPs"] = [(x, curve.loss(10**x)) for x in way]
        lines[f"trained, {curve.budget:.1e}"] = points
        looks += [(number, 0), (number, 0)]
    lines["lowest points"] = [(curve.best / math.log(10), curve.lowest) for curve in law.curves]
    lines["prediction"] = [(math.log10(law.parameters), law.loss)]
    lines[f"trained, {tests[0].budget:.1e}"] = _points(tests)
    looks += [(4, 2), (4, 0), (3, 0)]
    dots = [name for name in lines if name.startswith(("trained", "prediction"))]
    title = "Loss by the size of the model, at equal FLOPs"
    x_name, y_name = "parameters, as a power of 10", "held-out loss, in nats a token"
    return curves(lines, title, x_name=x_name, y_name=y_name, looks=looks, dots=dots)


def _points(trained: Sequence[Trained]) -> list[tuple[float, float]]:
    return sorted((math.log10(one.parameters), one.loss) for one in trained)
