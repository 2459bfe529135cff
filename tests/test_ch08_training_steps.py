"""Chapter 8, third part: one step on one batch, one step on a batch in pieces. Clipping is in test_ch08_training_clipping.py."""

import math
from types import SimpleNamespace

import torch
from changing_models import Additions, call_changing
from grader.execution.proxy import parameters, randomise
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, sizes
from hypothesis import example, given, settings
from pytest_check import check
from strategies import at, distinct, seeds, tensor, token_ids
from torch import nn

models = distinct("B", "T", "D", V=(8, 11))


# ---- a model and an optimizer to learn with


def model_and_optimizer(vocab, width, gives_tuple, lr, momentum):
    """A model and its optimizer, for `bring`. Its numbers differ with its mode and that of its part; `events` lists what happened.

    It refuses more than `room` positions in one call, and notes how many wait for the backward pass at most. If it is `changing`, each
    backward pass changes the numbers of the next forward pass (changing_models.py).
    """

    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(vocab, width), nn.Linear(width, vocab)
            self.part, self.spare, self.events = nn.Dropout(0.0), nn.Parameter(torch.ones(3)), []  # spare never gets a gradient
            self.room, self.waiting, self.most_waiting, self.changing = math.inf, 0, 0, False

        def forward(self, ids):
            if ids.numel() > self.room:
                raise RuntimeError(f"out of memory: the model was given {ids.numel()} positions at once; the largest piece has {self.room}")
            x = self.table(ids) * (2.0 if self.part.training else 1.0)
            logits = self.head(torch.tanh(x)) * (1.0 if self.training else 0.6)
            if self.changing:
                logits = logits + torch.special.bessel_y1(torch.zeros(2))
            if logits.requires_grad:
                self.waiting += ids.numel()
                self.most_waiting = max(self.most_waiting, self.waiting)
                logits.register_hook(lambda gradient: self.went_back(ids.numel()))
            return (logits, None) if gives_tuple else logits

        def went_back(self, positions):
            self.events.append("backward")
            if self.changing:
                torch.special.bessel_y1(torch.zeros(1))
            self.waiting -= positions

    class Descent:
        """Gradient descent with momentum, so that each update affects the next."""

        def __init__(self, model):
            self.param_groups, self.speed, self.events = [{"params": list(model.parameters()), "lr": lr}], {}, model.events

        def zero_grad(self, set_to_none=True):
            for parameter in self.param_groups[0]["params"]:
                parameter.grad = None if set_to_none or parameter.grad is None else torch.zeros_like(parameter.grad)

        def step(self, closure=None):
            self.events.append("step")
            with torch.no_grad():
                for parameter in self.param_groups[0]["params"]:
                    if parameter.grad is not None:
                        self.speed[parameter] = momentum * self.speed.get(parameter, 0.0) + parameter.grad
                        parameter -= self.param_groups[0]["lr"] * self.speed[parameter]

    model = Tiny()
    return model, Descent(model)


def batch(n, seed, *kept):
    """A batch of len(kept) rows of T ids, of which row b has kept[b] real targets; the last of them is followed by -100."""
    inputs, targets = token_ids(seed, len(kept), n.T, vocab=n.V), token_ids(seed + 1, len(kept), n.T, vocab=n.V)
    for row, count in enumerate(kept):
        targets[row, count:] = -100
    return inputs, targets


def batches(n, seed, many=3):
    """Batches of one shape, with padding in all rows but the first."""
    return [batch(n, seed + 10 * i, n.T, *[1 + (i + row) % n.T for row in range(n.B - 1)]) for i in range(many)]


def use(model):
    """Leave a gradient behind, as code does that ran backward before, and freeze a parameter; for `bring`."""
    model.head.bias.requires_grad_(False)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)


def put_part_in_eval_mode(model):
    """The model in train mode, a part of it in eval mode, as code leaves it that froze a part; for `bring`."""
    model.train()
    model.part.eval()


def set_room(model, room):
    """The largest number of positions in one call of the model; for `bring`."""
    model.room = room


class Taught:
    """A model of `side` with known parameters, and what each step on it gave."""

    def __init__(self, side, n, seed, lr=0.8, momentum=0.0, gives_tuple=False):
        self.side, self.losses = side, []
        self.model, self.optimizer = side.bring(model_and_optimizer)(n.V, n.D, gives_tuple, lr, momentum)
        randomise(self.model, seed, scale=2.0)

    def train(self, every, **options):
        for inputs, targets in every:
            self.losses.append(self.side.train_step(self.model, self.optimizer, inputs, targets, **options))
        return self

    def used(self):
        self.side.bring(use)(self.model)
        return self

    def make_room(self, *updates):
        """Just enough for the largest piece."""
        self.side.bring(set_room)(self.model, max(inputs.numel() for pieces in updates for inputs, _ in pieces))

    def accumulate(self, *updates, **options):
        self.make_room(*updates)
        for pieces in updates:
            self.losses.append(self.side.accumulated_step(self.model, self.optimizer, pieces, **options))
        return self

    def left_behind(self):
        """The length of the gradient now. It is not checked; it distinguishes mistakes."""
        return self.side.bring(left_over)(self.model)


def left_over(model):
    return math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None))


def same_steps(mine, model, when=""):
    """Compare losses and parameters. All are computed before anything is compared; the model's events distinguish mistakes."""
    got, expected, _ = parameters(mine.model), parameters(model.model), mine.model.events
    for i, (loss, wanted) in enumerate(zip(mine.losses, model.losses)):
        close(loss, wanted, f"the loss of step {i + 1}{when}" if len(model.losses) > 1 else f"the returned loss{when}", tol=1e-4)
    for name, value in expected.items():
        with check:
            close(got[name], value, f"the parameter {name} {'after ' + str(len(model.losses)) + ' steps' if len(model.losses) > 1 else 'after the step'}{when}", tol=1e-4)


# ---- train_step


@exercise("train_step", weight=3)
@settings(max_examples=2)
@given(n=models, seed=seeds)
def test_one_step_follows_the_gradient(learner, reference, n, seed):
    """One train_step updates the parameters once, along the gradient of the batch's loss; the returned loss is from before the update."""
    mine, model = (Taught(side, n, seed).train(batches(n, seed, 1)) for side in (learner, reference))
    same_steps(mine, model)


@exercise("train_step", weight=3)
@settings(max_examples=2)
@given(n=models, seed=seeds)
def test_each_step_uses_the_gradient_of_its_own_batch(learner, reference, n, seed):
    """Each step uses only the gradient of its own batch: those of earlier batches, and those from before the first step, are cleared. A frozen parameter stays."""
    mine, model = (Taught(side, n, seed, momentum=0.5).used().train(batches(n, seed, 3)) for side in (learner, reference))
    same_steps(mine, model)


@exercise("train_step", weight=2)
@settings(max_examples=2)
@given(n=models, seed=seeds)
def test_a_step_runs_in_train_mode(learner, reference, n, seed):
    """The model and all its parts are in train mode in a step, also if the model, or only a part of it, was in eval mode before."""
    mine, model = Taught(learner, n, seed), Taught(reference, n, seed)
    in_part, whole = Taught(learner, n, seed), Taught(reference, n, seed)
    for taught in (in_part, whole):
        taught.side.bring(put_part_in_eval_mode)(taught.model)
        taught.train(batches(n, seed, 1))
    for taught in (mine, model):
        taught.model.eval()
        taught.train(batches(n, seed, 2))
    same_steps(mine, model, " (the model was in eval mode before)")
    same_steps(in_part, whole, " (a part of the model was in eval mode before)")


@exercise("train_step", weight=2)
@settings(max_examples=2)
@example(n=at(B=2, T=4, D=3, V=8), seed=0)  # word 0 is among the targets
@given(n=models, seed=seeds)
def test_logits_may_come_first_in_a_tuple(learner, reference, n, seed):
    """If the model returns a tuple, its first element is the logits."""
    mine, model = (Taught(side, n, seed, gives_tuple=True).train(batches(n, seed, 2)) for side in (learner, reference))
    same_steps(mine, model, ", where the model returns (logits, None)")


@exercise("train_step", weight=3)
@settings(max_examples=2)
@given(n=models, seed=seeds)
def test_gradients_are_clipped_before_the_update(learner, reference, n, seed):
    """With max_norm the whole gradient is clipped after backward and before the update: a max_norm far above it changes nothing, and one of 0 stops the update."""
    every = batches(n, seed, 2)
    mine, model = (Taught(side, n, seed).train(every, max_norm=0.1) for side in (learner, reference))
    mine.left_behind()
    free, plain = (Taught(side, n, seed).train(every, max_norm=1e3) for side in (learner, reference))
    still, stopped = (Taught(side, n, seed).train(every[:1], max_norm=0.0) for side in (learner, reference))
    same_steps(mine, model, " with max_norm = 0.1")
    same_steps(still, stopped, " with max_norm = 0")
    same_steps(free, plain, " with max_norm = 1000")


@exercise("train_step")
@settings(max_examples=2)
@given(n=models, seed=seeds)
def test_the_loss_of_a_step_is_a_float(learner, reference, n, seed):
    """The loss is returned as a float, without a graph; it is the loss before the update. A model in float64 keeps its digits."""
    mine, model = (Taught(side, n, seed, lr=30.0).train(batches(n, seed, 1)) for side in (learner, reference))
    exact, right = Taught(learner, n, seed), Taught(reference, n, seed)
    for taught in (exact, right):
        taught.model.double()
        taught.train(batches(n, seed, 1))
    close(exact.losses[0], right.losses[0], "the loss of a model in float64", tol=1e-10)
    close(mine.losses[0], model.losses[0], "the loss that comes back", tol=1e-4)
    holds(isinstance(mine.losses[0], float), "the loss should be a float; a tensor keeps its whole graph in memory")


def step_of_views(step, model, optimizer, inputs, targets):
    """One step on the same batch as views, whose axes were exchanged in memory; for `bring`."""
    return step(model, optimizer, inputs.t().contiguous().t(), targets.t().contiguous().t())


@exercise("train_step")
@settings(max_examples=2)
@given(n=models, seed=seeds)
def test_a_batch_may_be_views(learner, reference, n, seed):
    """Inputs and targets may be views, such as transposed tensors."""
    mine, model = Taught(learner, n, seed), Taught(reference, n, seed)
    for taught, side in ((mine, learner), (model, reference)):
        taught.losses.append(side.bring(step_of_views)(side.train_step, taught.model, taught.optimizer, *batches(n, seed, 1)[0]))
    same_steps(mine, model, " on views")


# ---- accumulated_step


def pieces_of(n, seed):
    """Two pieces of one shape, with about 3 and 9 targets that are not ignored: the first has few, the second many."""
    first, second = batch(n, seed, 1, 2), batch(n, seed + 20, n.T, n.T)
    sizes(kept_in_piece_1=3, kept_in_piece_2=2 * n.T)
    return [first, second]


accumulated = distinct("D", T=(4, 6), V=(8, 11))


@exercise("accumulated_step", weight=4)
@settings(max_examples=2)
@given(n=accumulated, seed=seeds)
def test_pieces_give_the_update_of_the_whole_batch(learner, reference, n, seed):
    """One accumulated_step is one train_step on all pieces at once, including the loss, even if the pieces have different numbers of targets."""
    pieces = pieces_of(n, seed)
    mine = Taught(learner, n, seed).accumulate(pieces)
    model = Taught(reference, n, seed).train([(torch.cat([x for x, _ in pieces]), torch.cat([y for _, y in pieces]))])
    same_steps(mine, model)


@exercise("accumulated_step", weight=2)
@settings(max_examples=2)
@given(n=accumulated, seed=seeds)
def test_pieces_of_any_shape_and_number(learner, reference, n, seed):
    """There may be one piece or many, of different numbers of rows and different lengths: each target that is not ignored has the same weight."""
    short = SimpleNamespace(T=3, V=n.V)
    many = [batch(n, seed, 2), batch(short, seed + 30, 3, 3, 1), batch(n, seed + 60, n.T, 1), batch(short, seed + 90, 1, 0)]
    mine, model = (Taught(side, n, seed).accumulate(many) for side in (learner, reference))
    one, alone = (Taught(side, n, seed).accumulate(many[:1]) for side in (learner, reference))
    same_steps(mine, model, " on four pieces")
    same_steps(one, alone, " on one piece")


@exercise("accumulated_step", weight=2)
@settings(max_examples=2)
@given(n=accumulated, seed=seeds)
def test_one_update_for_all_pieces_without_old_gradients(learner, reference, n, seed):
    """Each accumulated_step is one update, and does not use the gradients of the previous one, or those from before the first. A frozen parameter stays."""
    updates = [pieces_of(n, seed), [*pieces_of(n, seed + 40), batch(n, seed + 80, n.T, 3)], pieces_of(n, seed + 120)[::-1]]
    mine, model = (Taught(side, n, seed, momentum=0.5).used().accumulate(*updates) for side in (learner, reference))
    same_steps(mine, model)


@exercise("accumulated_step", weight=2)
@settings(max_examples=2)
@given(n=accumulated, seed=seeds)
def test_each_piece_goes_back_before_the_next_goes_in(learner, reference, n, seed):
    """The backward pass of a piece comes before the forward pass of the next, so that the memory for one piece is enough."""
    pieces = [*pieces_of(n, seed), batch(n, seed + 40, n.T, 2)]
    mine, model = (Taught(side, n, seed).accumulate(pieces) for side in (learner, reference))
    waiting, room = mine.model.most_waiting, model.model.most_waiting
    same_steps(mine, model, " on three pieces")
    holds(waiting <= room, f"{waiting} positions waited for the backward pass at the same time; the largest piece has {room}")


def set_changing(model):
    """From now on each backward pass changes the numbers of the next forward pass; for `bring`."""
    model.changing = True


@exercise("accumulated_step", weight=2)
@settings(max_examples=2)
@given(n=accumulated, seed=seeds)
def test_each_piece_meets_the_model_after_the_backward_pass_of_the_piece_before(learner, reference, n, seed):
    """If the model's numbers change with each backward pass, the loss of a piece is the one after the backward passes of the pieces before it."""
    pieces, rows = [*pieces_of(n, seed), batch(n, seed + 40, n.T, 2)], tensor(seed + 3, 3, n.V)
    mine, model = Taught(learner, n, seed), Taught(reference, n, seed)
    for taught, side in ((mine, learner), (model, reference)):
        side.bring(set_changing)(taught.model)
        step = side.bring(call_changing)(side.bring(Additions), rows, side.accumulated_step, taught.model, taught.optimizer, pieces)
        taught.losses.append(step)
    same_steps(mine, model, " of a model that changes with each backward pass, on three pieces")


def from_a_generator(step, model, optimizer, pieces):
    """A step on pieces from a generator; for `bring`."""
    return step(model, optimizer, ((inputs, targets) for inputs, targets in pieces))


@exercise("accumulated_step")
@settings(max_examples=2)
@given(n=accumulated, seed=seeds)
def test_pieces_may_come_from_a_generator(learner, reference, n, seed):
    """The pieces may come from a generator, which yields each of them once."""
    mine, model = Taught(learner, n, seed), Taught(reference, n, seed)
    for taught, side in ((mine, learner), (model, reference)):
        taught.make_room(pieces_of(n, seed))
        taught.losses.append(side.bring(from_a_generator)(side.accumulated_step, taught.model, taught.optimizer, pieces_of(n, seed)))
    same_steps(mine, model, " on pieces from a generator")


def step_of_view_pieces(step, model, optimizer, pieces):
    """One step on the same pieces as views, whose axes were exchanged in memory; for `bring`."""
    return step(model, optimizer, [tuple(part.t().contiguous().t() for part in piece) for piece in pieces])


@exercise("accumulated_step")
@settings(max_examples=2)
@given(n=accumulated, seed=seeds)
def test_pieces_may_be_views_and_a_model_in_float64_keeps_its_digits(learner, reference, n, seed):
    """Inputs and targets may be views, such as transposed tensors. A model in float64 keeps its digits."""
    mine, model = Taught(learner, n, seed), Taught(reference, n, seed)
    for taught, side in ((mine, learner), (model, reference)):
        taught.make_room(pieces_of(n, seed))
        taught.losses.append(side.bring(step_of_view_pieces)(side.accumulated_step, taught.model, taught.optimizer, pieces_of(n, seed)))
    exact, right = Taught(learner, n, seed), Taught(reference, n, seed)
    for taught in (exact, right):
        taught.model.double()
        taught.accumulate(pieces_of(n, seed))
    close(exact.losses[0], right.losses[0], "the loss of a model in float64", tol=1e-10)
    same_steps(mine, model, " on views")


@exercise("accumulated_step", weight=2)
@settings(max_examples=2)
@given(n=accumulated, seed=seeds)
def test_a_piece_without_targets_changes_nothing(learner, reference, n, seed):
    """A piece whose targets are all -100 adds nothing: no loss, no gradient, no NaN; next to a single target, and if there is no target at all."""
    (first, second), nothing, single = pieces_of(n, seed), batch(n, seed + 50, 0, 0), batch(n, seed + 70, 1)
    mine = Taught(learner, n, seed).accumulate([first, nothing, second])
    model = Taught(reference, n, seed).accumulate([first, second])
    few, one = Taught(learner, n, seed).accumulate([single, nothing]), Taught(reference, n, seed).train([single])
    none, zero = Taught(learner, n, seed).accumulate([nothing, nothing]), Taught(reference, n, seed).train([nothing])
    same_steps(mine, model, " with a piece among them whose targets are all -100")
    same_steps(few, one, " with a single target in all pieces")
    same_steps(none, zero, " with no target in any piece")


@exercise("accumulated_step", weight=3)
@settings(max_examples=2)
@given(n=accumulated, seed=seeds)
def test_the_whole_gradient_is_clipped_once(learner, reference, n, seed):
    """With max_norm the gradient of all pieces together is clipped, once, before the update; a large max_norm changes nothing, and one of 0 stops the update."""
    updates = [pieces_of(n, seed), pieces_of(n, seed + 40)]
    mine, model = (Taught(side, n, seed).accumulate(*updates, max_norm=0.1) for side in (learner, reference))
    mine.left_behind()
    loose, plain = (Taught(side, n, seed).accumulate(*updates, max_norm=1e3) for side in (learner, reference))
    still, stopped = (Taught(side, n, seed).accumulate(updates[0], max_norm=0.0) for side in (learner, reference))
    same_steps(mine, model, " with max_norm = 0.1")
    same_steps(loose, plain, " with max_norm = 1000")
    same_steps(still, stopped, " with max_norm = 0")


@exercise("accumulated_step", weight=2)
@settings(max_examples=2)
@given(n=accumulated, seed=seeds)
def test_pieces_run_in_train_mode(learner, reference, n, seed):
    """The model and its parts are in train mode for every piece, and it may return a tuple that begins with the logits; the loss comes back as a float."""
    mine, model = Taught(learner, n, seed, gives_tuple=True), Taught(reference, n, seed, gives_tuple=True)
    in_part, whole = Taught(learner, n, seed), Taught(reference, n, seed)
    for taught in (in_part, whole):
        taught.side.bring(put_part_in_eval_mode)(taught.model)
        taught.accumulate(pieces_of(n, seed))
    for taught in (mine, model):
        for pieces in (pieces_of(n, seed), pieces_of(n, seed + 40)):
            taught.model.eval()
            taught.accumulate(pieces)
    same_steps(mine, model, " (the model was in eval mode before, and returns (logits, None))")
    same_steps(in_part, whole, " (a part of the model was in eval mode before)")
    holds(isinstance(mine.losses[0], float), "the loss should be a float; a tensor keeps its whole graph in memory")
