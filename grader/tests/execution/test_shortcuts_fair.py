"""Correct code in many styles: neither the reading of the source nor the recorder reports anything, forwards and backwards."""

import importlib
import math

import pytest
import torch
import torch.nn.functional as F
from grader.course.source_check import forbidden_calls
from grader.course.syllabus import load_syllabus
from grader.execution.forbidden.shortcuts import watching
from torch import nn

X = torch.linspace(-3, 3, 24).reshape(2, 3, 4)
IDS = torch.tensor([[1, 0, 2], [2, 2, 1]])
TARGETS = torch.tensor([[1, 0, -100], [3, 2, 1]])

SOFTMAX = {
    "exponentials over their sum": "e = (x - x.amax(dim, keepdim=True)).exp(); return e / e.sum(dim, keepdim=True)",
    "max with indices": "e = torch.exp(x - x.max(dim, keepdim=True).values); return e.div(e.sum(dim, keepdim=True))",
    "a fold of logaddexp": "import functools; s = functools.reduce(torch.logaddexp, x.unbind(dim)); return (x - s.unsqueeze(dim)).exp()",
    "the last of a running sum": "e = (x - x.amax(dim, True)).exp(); return e / e.cumsum(dim).narrow(dim, -1, 1)",
    "a norm of order one": "return F.normalize((x - x.amax(dim, True)).exp(), p=1.0, dim=dim)",
    "a matrix product": "e = (x - x.amax(dim, True)).exp().movedim(dim, -1); n = e.size(-1); return (e / (e @ torch.ones(n, n))).movedim(-1, dim)",
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
    "mean and var": "m, v = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True); return (x - m) / (v + self.eps).sqrt() * self.weight",
    "var_mean": "v, m = torch.var_mean(x, -1, correction=0, keepdim=True); return (x - m) * torch.rsqrt(v + self.eps) * self.weight",
    "std_mean": "s, m = torch.std_mean(x, -1, correction=0, keepdim=True); return (x - m) / torch.sqrt(s**2 + self.eps) * self.weight",
    "a vector norm": "c = x - x.mean(-1, True); return c / (torch.linalg.vector_norm(c, dim=-1, keepdim=True) ** 2 / x.size(-1) + self.eps).sqrt() * self.weight",
    "einsum": "c = x - x.mean(-1, True); v = torch.einsum('...d,...d->...', c, c)[..., None] / x.shape[-1]; return c / (v + self.eps) ** 0.5 * self.weight",
    "the square of the mean": "m = x.mean(-1, True); return (x - m) * (x.square().mean(-1, True) - m * m + self.eps).rsqrt() * self.weight",
}
RMS_NORM = {
    "mean of squares": "return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight",
    "a norm": "return x / (x.norm(dim=-1, keepdim=True) ** 2 / x.shape[-1] + self.eps).sqrt() * self.weight",
    "a loss as a mean": "s = torch.stack([F.mse_loss(r, torch.zeros_like(r)) for r in x.flatten(0, -2)]).reshape(*x.shape[:-1], 1); "
    "return x * torch.rsqrt(s + self.eps) * self.weight",
    "hypot": "root = torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True) / x.shape[-1] ** 0.5, torch.tensor(self.eps**0.5)); return x / root * self.weight",
}
GELU = {
    "erf": "return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))",
    "torch.special.erf": "return x / 2 * (1 + torch.special.erf(x * 0.5**0.5))",
    "erfc": "return 0.5 * x * torch.erfc(-x / 2**0.5)",
    "the normal distribution": "return x * torch.distributions.Normal(0.0, 1.0).cdf(x)",
    "ndtr": "return x * torch.special.ndtr(x)",
    "tanh": "u = math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3)); return 0.5 * x * (1 + torch.tanh(u))",
    "a sigmoid": "u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3); return x * torch.sigmoid(2 * u)",
    "lerp": "return torch.lerp(torch.zeros_like(x), x, 0.5 + 0.5 * torch.erf(x / 2**0.5))",
}
DROPOUT = {
    "rand": "return x * (torch.rand(x.shape) >= p) / (1 - p)",
    "rand_like": "return torch.where(torch.rand_like(x) < p, 0.0, x / (1 - p))",
    "bernoulli": "return x * torch.bernoulli(torch.full_like(x, 1 - p)) / (1 - p)",
    "bernoulli_": "return x * torch.empty_like(x).bernoulli_(1 - p).div_(1 - p)",
    "a distribution": "return x * torch.distributions.Bernoulli(1 - p).sample(x.shape) / (1 - p)",
    "masked_fill": "return x.masked_fill(torch.empty(x.shape).uniform_() < p, 0).mul(1 / (1 - p))",
}
EMBEDDING = {
    "indexing": "return self.weight[ids]",
    "F.embedding": "return F.embedding(ids, self.weight)",
    "index_select": "return self.weight.index_select(0, ids.flatten()).reshape(*ids.shape, -1)",
    "one_hot": "return F.one_hot(ids, len(self.weight)).to(self.weight.dtype) @ self.weight",
    "gather": "return self.weight.gather(0, ids.reshape(-1, 1).expand(-1, self.weight.shape[1])).reshape(*ids.shape, -1)",
    "take_along_dim": "return torch.take_along_dim(self.weight, ids.reshape(-1, 1), 0).reshape(*ids.shape, -1)",
    "a linear layer": "return F.linear(F.one_hot(ids, len(self.weight)).float(), self.weight.T)",
}
CROSS_ENTROPY = {
    "log_softmax and gather": "l = torch.log_softmax(logits, -1); p = l.gather(-1, t[..., None])[..., 0]; return -(p * k).sum() / k.sum()",
    "logsumexp": "p = logits.gather(-1, t[..., None])[..., 0] - logits.logsumexp(-1); return -(p * k).sum() / k.sum()",
    "one_hot": "p = (F.log_softmax(logits, dim=-1) * F.one_hot(t, logits.shape[-1])).sum(-1); return -(p * k).sum() / k.sum()",
    "softmax and log": "p = logits.softmax(-1).log().take_along_dim(t[..., None], -1)[..., 0]; return -p[k].mean()",
    "indexing": "l = nn.LogSoftmax(-1)(logits)[k]; return -l[torch.arange(len(l)), t[k]].mean()",
    "kl_div": "l, h = F.log_softmax(logits, -1)[k], F.one_hot(t[k], logits.shape[-1]).float(); return F.kl_div(l, h, reduction='sum') / k.sum()",
}
CLIP = {
    "a stack of norms": "n = torch.stack([g.norm() for g in grads]).norm()",
    "vector_norm": "n = torch.linalg.vector_norm(torch.cat([g.flatten() for g in grads]))",
    "a sum of squares": "n = sum(g.square().sum() for g in grads) ** 0.5",
    "foreach": "n = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))",
    "parameters as a vector": "n = torch.nn.utils.parameters_to_vector(grads).norm()",
    "hypot": "import functools; n = functools.reduce(torch.hypot, [g.norm() for g in grads])",
}
ADAMW = {
    "in place": "m.mul_(b1).add_(g, alpha=1 - b1); v.mul_(b2).addcmul_(g, g, value=1 - b2); p.addcdiv_(m / c1, (v / c2).sqrt() + eps, value=-lr)",
    "lerp": "m.lerp_(g, 1 - b1); v.lerp_(g.square(), 1 - b2); p.sub_(lr * (m / c1) / ((v / c2).sqrt() + eps))",
    "foreach": "torch._foreach_lerp_([m], [g], 1 - b1); torch._foreach_mul_([v], b2); torch._foreach_addcmul_([v], [g], [g], 1 - b2); "
    "p.copy_(p - lr * (m / c1) / ((v / c2).sqrt() + eps))",
}
ATTENTION = {
    "einsum": "s = torch.einsum('...qd,...kd->...qk', q, k) / q.shape[-1] ** 0.5; w = s.masked_fill(~mask, -math.inf).softmax(-1); return w @ v",
    "baddbmm": "s = torch.baddbmm(torch.zeros(1, 1, 1), q, k.mT, alpha=q.shape[-1] ** -0.5); return torch.bmm(torch.softmax(s.where(mask, -math.inf), -1), v)",
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


def clipped(clip):
    p, q = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
    p.grad, q.grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    return torch.tensor([clip([p, q], 1.0), *p.grad, *q.grad])


def clipping(body):
    grads = "grads = [p.grad for p in parameters]; "
    return function("clip_gradients", "parameters, max_norm", f"{grads}{body}; [g.mul_(min(1.0, max_norm / float(n))) for g in grads]; return float(n)")


def losses(body):
    return function("cross_entropy", "logits, targets, ignore=-100", f"k = targets != ignore; t = targets.masked_fill(~k, 0); {body}")


# exercise -> its styles, the text of the chapter, a call of the exercise, and the expected result
CASES = {
    "softmax": (SOFTMAX, lambda body: function("softmax", "x, dim=-1", body, PLAIN), lambda f, x: f(x, 1), lambda x: torch.softmax(x, 1)),
    "LayerNorm": (LAYER_NORM, lambda body: layer("LayerNorm", body), lambda f, x: f(4)(x), nn.LayerNorm(4)),
    "RMSNorm": (RMS_NORM, lambda body: layer("RMSNorm", body), lambda f, x: f(4)(x), nn.RMSNorm(4, eps=1e-5)),
    "gelu": (GELU, lambda body: function("gelu", "x, approximate=False", body), lambda f, x: f(x), F.gelu),
    "dropout": (DROPOUT, lambda body: function("dropout", "x, p, training=True", body), lambda f, x: f(x, 0.25), None),
    "TokenEmbedding": (
        EMBEDDING, lambda body: layer("TokenEmbedding", body, "ids", "torch.arange(12.0).reshape(3, 4)"),
        lambda f, x: f(4)(IDS) + x[:, :, :1] * 0, lambda x: torch.arange(12.0).reshape(3, 4)[IDS],
    ),
    "cross_entropy": (CROSS_ENTROPY, losses, lambda f, x: f(x, TARGETS), lambda x: F.cross_entropy(x.flatten(0, 1), TARGETS.flatten())),
    "clip_gradients": (CLIP, clipping, lambda f, x: clipped(f), lambda x: torch.tensor([5.0, 0.6, 0.0, 0.8])),
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
    if expected is not None and not (name == "gelu" and "044715" in styles[style]):  # the tanh form is another function
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
