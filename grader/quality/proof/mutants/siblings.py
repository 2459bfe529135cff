"""Names of the library that are easily confused with each other."""

from __future__ import annotations

_PAIRS = [
    ("ones", "zeros"), ("ones_like", "zeros_like"), ("ones_", "zeros_"), ("max", "min"), ("amax", "amin"), ("argmax", "argmin"), ("cos", "sin"),
    ("triu", "tril"), ("sum", "mean"), ("any", "all"), ("add_", "sub_"), ("append", "extend"), ("items", "keys"), ("softmax", "log_softmax"),
    ("named_parameters", "named_buffers"), ("parameters", "buffers"), ("modules", "children"), ("rand", "randn"),
]  # fmt: skip
_OTHERS = {
    "exp": ["expm1"], "sqrt": ["exp"], "square": ["abs"], "abs": ["square"], "tanh": ["sigmoid"], "sigmoid": ["tanh"], "erf": ["tanh"], "relu": ["abs"],
    "cumsum": ["cumprod"], "argsort": ["sort"], "amax": ["mean"], "mean": ["amax"], "repeat_interleave": ["repeat"], "repeat": ["repeat_interleave"],
    "stack": ["cat"], "cat": ["stack"], "lower": ["upper"], "normal_": ["uniform_"], "mul_": ["div_"], "copy_": ["add_"], "randperm": ["arange"],
    "sorted": ["list"], "empty": ["ones"], "float": ["double"], "bool": ["int64"], "float32": ["float64"], "pi": ["e"], "inf": ["pi"],
    "flatten": ["squeeze"], "register_forward_hook": ["register_forward_pre_hook"], "register_forward_pre_hook": ["register_forward_hook"],
    "LayerNorm": ["RMSNorm"], "PreNormBlock": ["PostNormBlock"], "topk": ["sort"],
}  # fmt: skip

SIBLINGS: dict[str, list[str]] = {name: list(others) for name, others in _OTHERS.items()}
for _one, _other in _PAIRS:
    SIBLINGS.setdefault(_one, []).append(_other)
    SIBLINGS.setdefault(_other, []).append(_one)
