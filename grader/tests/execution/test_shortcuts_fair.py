"""Correct code in many styles: neither the reading of the source nor the recorder reports anything, forwards and backwards."""

import importlib
import math

import pytest
import torch
import torch.nn.functional as F
from grader.course.source_check import forbidden_calls
from grader.course.syllabus import load_syllabus
from grader.course.torch_operators import GRADER_STATE
from grader.execution.forbidden.shortcuts import watching
from torch import nn

X = torch.linspace(-3, 3, 24).reshape(2, 3, 4)
IDS = torch.tensor([[1, 0, 2], [2, 2, 1]])
TARGETS = torch.tensor([[1, 0, -100], [3, 2, 1]])

# Each exercise in styles beside those of tests/variants, which dev-check tries.
SOFTMAX = {
    "a fold of logaddexp": "import functools; s = functools.reduce(torch.logaddexp, x.unbind(dim)); return (x - s.unsqueeze(dim)).exp()",
    "the last of a running sum": "e = (x - x.amax(dim, True)).exp(); return e / e.cumsum(dim).narrow(dim, -1, 1)",
    "a norm of order one": "return F.normalize((x - x.amax(dim, True)).exp(), p=1.0, dim=dim)",
    "powers of two": "t = x * 1.4426950408889634; e = torch.exp2(t - t.amax(dim, True)); return e / e.sum(dim, True)",
    "vmap over rows": "g = lambda r: (r - r.max()).exp() / (r - r.max()).exp().sum(); y = x.movedim(dim, -1); "
    "return torch.vmap(g)(y.flatten(0, -2)).reshape(y.shape).movedim(-1, dim)",
    "a program of torch's interpreter": "return scripted(x, dim)",
    "a pool of threads": "from concurrent.futures import ThreadPoolExecutor as P\n    with P(1) as pool: return pool.submit(_plain, x, dim).result()",
    "numpy for the sizes": "import numpy as np; e = (x - x.amax(dim, True)).exp(); return e / e.sum(dim, True) * float(np.prod([1]))",
    "a graph compiled by torch.fx": "return traced(x.movedim(dim, -1)).movedim(-1, dim)",
}
NORM = "    def __init__(self, d_model, eps={eps}):\n        super().__init__()\n        self.eps, self.weight = eps, nn.Parameter(torch.ones(d_model))\n"
LAYER_NORM = {
    "var_mean": "v, m = torch.var_mean(x, -1, correction=0, keepdim=True); return (x - m) * torch.rsqrt(v + self.eps) * self.weight",
    "std_mean": "s, m = torch.std_mean(x, -1, correction=0, keepdim=True); return (x - m) / torch.sqrt(s**2 + self.eps) * self.weight",
    "a vector norm": "c = x - x.mean(-1, True); return c / (torch.linalg.vector_norm(c, dim=-1, keepdim=True) ** 2 / x.size(-1) + self.eps).sqrt() * self.weight",
    "einsum": "c = x - x.mean(-1, True); v = torch.einsum('...d,...d->...', c, c)[..., None] / x.shape[-1]; return c / (v + self.eps) ** 0.5 * self.weight",
}
GELU = {
    "torch.special.erf": "return x / 2 * (1 + torch.special.erf(x * 0.5**0.5))",
    "the normal distribution": "return x * torch.distributions.Normal(0.0, 1.0).cdf(x)",
    "ndtr": "return x * torch.special.ndtr(x)",
    "a sigmoid": "u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3); return x * torch.sigmoid(2 * u)",
    "lerp": "return torch.lerp(torch.zeros_like(x), x, 0.5 + 0.5 * torch.erf(x / 2**0.5))",
}
EMBEDDING = {
    "F.embedding": "return F.embedding(ids, self.weight)",
    "one_hot": "return F.one_hot(ids, len(self.weight)).to(self.weight.dtype) @ self.weight",
    "gather": "return self.weight.gather(0, ids.reshape(-1, 1).expand(-1, self.weight.shape[1])).reshape(*ids.shape, -1)",
    "take_along_dim": "return torch.take_along_dim(self.weight, ids.reshape(-1, 1), 0).reshape(*ids.shape, -1)",
    "a linear layer": "return F.linear(F.one_hot(ids, len(self.weight)).float(), self.weight.T)",
}
CROSS_ENTROPY = {
    "log_softmax and gather": "l = torch.log_softmax(logits, -1); p = l.gather(-1, t[..., None])[..., 0]; return -(p * k).sum() / k.sum()",
    "one_hot": "p = (F.log_softmax(logits, dim=-1) * F.one_hot(t, logits.shape[-1])).sum(-1); return -(p * k).sum() / k.sum()",
    "softmax and log": "p = logits.softmax(-1).log().take_along_dim(t[..., None], -1)[..., 0]; return -p[k].mean()",
    "kl_div": "l, h = F.log_softmax(logits, -1)[k], F.one_hot(t[k], logits.shape[-1]).float(); return F.kl_div(l, h, reduction='sum') / k.sum()",
}
ADAMW = {
    "lerp": "m.lerp_(g, 1 - b1); v.lerp_(g.square(), 1 - b2); p.sub_(lr * (m / c1) / ((v / c2).sqrt() + eps))",
    "foreach": "torch._foreach_lerp_([m], [g], 1 - b1); torch._foreach_mul_([v], b2); torch._foreach_addcmul_([v], [g], [g], 1 - b2); "
    "p.copy_(p - lr * (m / c1) / ((v / c2).sqrt() + eps))",
}
ATTENTION = {
    "einsum": "s = torch.einsum('...qd,...kd->...qk', q, k) / q.shape[-1] ** 0.5; w = s.masked_fill(~mask, -math.inf).softmax(-1); return w @ v",
    "a layer": "s = nn.Softmax(-1)((q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(mask.logical_not(), -1e9)); return s.matmul(v)",
}


def function(name, arguments, body, before=""):
    return f"import math\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n{before}\ndef {name}({arguments}):\n    {body}\n"


def layer(name, body, argument="x", weight="torch.ones(d_model)"):
    init = NORM.format(eps=1e-5).replace("torch.ones(d_model)", weight)
    return function("_unused", "", "pass") + f"class {name}(nn.Module):\n{init}    def forward(self, {argument}):\n        {body}\n"


PLAIN = "def _plain(x, dim: int):\n    e = (x - x.amax(dim, True)).exp()\n    return e / e.sum(dim, True)\nimport torch.fx\n"
PLAIN += "scripted = torch.jit.CompilationUnit('def run(x, dim: int):\\n    return x.exp() / x.exp().sum(dim, True)\\n').run\n"
PLAIN += "traced = torch.fx.symbolic_trace(lambda x: x.exp() / x.exp().sum(-1, keepdim=True))\n"
OPTIMIZER = """class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group['params']:
                s = self.state[p]
                if not s: s.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                s['t'] += 1; m, v, g, b1, b2, eps = s['m'], s['v'], p.grad, 0.9, 0.999, 1e-8
                c1, c2, lr = 1 - b1 ** s['t'], 1 - b2 ** s['t'], group['lr']; p.mul_(1 - lr * 0.01)
                """
MASK = torch.ones(3, 3, dtype=torch.bool).tril()


def trained(make):
    p = nn.Parameter(torch.ones(3))
    optimizer = make([p], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (p * torch.tensor([1.0, 2.0, -3.0])).square().sum().backward()
        optimizer.step()
    return p


def losses(body):
    return function("cross_entropy", "logits, targets, ignore=-100", f"k = targets != ignore; t = targets.masked_fill(~k, 0); {body}")


# exercise -> its styles, the text of the chapter, a call of the exercise, and the expected result
CASES = {
    "softmax": (SOFTMAX, lambda body: function("softmax", "x, dim=-1", body, PLAIN), lambda f, x: f(x, 1), lambda x: torch.softmax(x, 1)),
    "LayerNorm": (LAYER_NORM, lambda body: layer("LayerNorm", body), lambda f, x: f(4)(x), nn.LayerNorm(4)),
    "gelu": (GELU, lambda body: function("gelu", "x, approximate=False", body), lambda f, x: f(x), F.gelu),
    "TokenEmbedding": (
        EMBEDDING, lambda body: layer("TokenEmbedding", body, "ids", "torch.arange(12.0).reshape(3, 4)"),
        lambda f, x: f(4)(IDS) + x[:, :, :1] * 0, lambda x: torch.arange(12.0).reshape(3, 4)[IDS],
    ),
    "cross_entropy": (CROSS_ENTROPY, losses, lambda f, x: f(x, TARGETS), lambda x: F.cross_entropy(x.flatten(0, 1), TARGETS.flatten())),
    "AdamW": (ADAMW, lambda body: function("_unused", "", "pass") + OPTIMIZER + body + "\n", lambda f, x: trained(f), lambda x: trained(torch.optim.AdamW)),
    "scaled_dot_product_attention": (
        ATTENTION, lambda body: function("scaled_dot_product_attention", "q, k, v, mask", body), lambda f, x: f(x, x, x, MASK),
        lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=MASK),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "style"), [(name, style) for name, (styles, *_) in CASES.items() for style in styles])
def test_right_code_is_no_shortcut_in_any_style(name, style):
    styles, chapter, call, expected = CASES[name]
    exercise, text, found = load_syllabus().exercise(name), chapter(styles[style]), []
    assert forbidden_calls(text, name, exercise.forbids) == []
    space = {"torch": torch, "nn": nn, "F": F, "math": math}
    with watching(exercise.forbids, found.append, importing=True):
        exec(compile(text, "<chapter>", "exec"), space)
    x = X.clone().requires_grad_()
    with watching(exercise.forbids, found.append):
        got = call(space[name], x)
        if got.requires_grad and name != "AdamW":
            got.sum().backward()
    assert found == []
    if not (name == "gelu" and "044715" in styles[style]):  # the tanh form is another function
        torch.testing.assert_close(got, expected(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("module", [chapter.name for chapter in load_syllabus().chapters if chapter.id in ("ch03", "ch05")])
def test_a_comparison_with_torch_at_the_end_of_a_chapter_is_no_shortcut(module):
    """Learners leave such lines at the top level of a chapter."""
    exercise, found = next(e for e in load_syllabus().exercises if e.module == module), []
    lines = "import torch\ntorch.softmax(torch.ones(3), -1)\ntorch.nn.functional.layer_norm(torch.ones(3), (3,))\ntorch.nn.GELU()(torch.ones(3))\n"
    with watching(exercise.forbids, found.append, importing=True):
        exec(lines, {})
        importlib.import_module("torch.masked")
    assert found == []


ORDINARY = """
import collections, contextlib, copy, dataclasses, enum, functools, gc, inspect, io, logging, random, traceback, typing, warnings, weakref
import torch
from torch import nn

Pair = collections.namedtuple("Pair", "a b")
Kind = enum.Enum("Kind", "one two")

class Record(typing.NamedTuple):
    a: int = 0

@dataclasses.dataclass
class Options:
    width: int = 3
    rates: list = dataclasses.field(default_factory=list)

@functools.lru_cache
def cached(n):
    return n

@contextlib.contextmanager
def quiet():
    with contextlib.redirect_stderr(io.StringIO()):
        yield

def run(x):
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("a warning", stacklevel=2)
        logging.getLogger("headway test").warning("a line with its place")
        try:
            raise ValueError("of my own")
        except ValueError as problem:
            traceback.print_exc()
            traceback.format_exception(problem)
        traceback.format_stack()
        traceback.print_stack()
    inspect.signature(run), inspect.getsource(nn.Linear), gc.collect(), weakref.ref(x)
    layer = copy.deepcopy(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    layer.register_forward_hook(lambda module, inputs, output: output)
    y = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
    torch.vmap(torch.sin)(y).sum().backward()
    return Pair(1, 2), Kind.one, Record(), dataclasses.replace(Options(), width=cached(4)), random.random()
"""


def test_ordinary_python_is_no_look_at_the_graders_state_where_nothing_is_forbidden():
    found, space = [], {"__name__": "chapter"}
    with watching((), found.append, importing=True):
        exec(compile(ORDINARY, "<chapter>", "exec"), space)
    with watching((), found.append):
        space["run"](X.clone().requires_grad_())
    assert found == []


@pytest.mark.parametrize("look", ["sys._getframe()", "inspect.stack()", "inspect.currentframe()", "gc.get_objects()", "gc.get_referrers(x)", "sys._current_frames()"])
def test_a_look_at_callers_or_at_all_objects_is_seen_where_nothing_is_forbidden(look):
    found, space = [], {"__name__": "chapter"}
    exec(compile(f"import gc, inspect, sys\nimport torch\ndef run(x):\n    torch.softmax(x, -1)\n    return {look}\n", "<chapter>", "exec"), space)
    with watching((), found.append):
        space["run"](X)
    assert found == [GRADER_STATE]
