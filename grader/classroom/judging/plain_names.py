"""The names that a plain chapter may use, and those that it may not: modules, their functions, decorators, base classes."""

from __future__ import annotations

# Modules without state that a chapter could change, apart from torch's (below) and random's, which is seeded before every example.
MODULES = frozenset({
    "__future__", "torch", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.utils.rnn", "torch.utils.hooks", "math", "typing", "collections",
    "collections.abc", "dataclasses", "enum", "functools", "itertools", "operator", "re", "string", "heapq", "bisect", "copy", "random", "numbers", "hashlib",
    "contextlib",
})  # fmt: skip
PARTS = frozenset({"nn", "functional", "init", "linalg", "special"})  # modules of torch whose attributes may be used
OTHER_PARTS = frozenset({  # the others: some change torch for all code
    "amp", "ao", "autograd", "backends", "classes", "compiler", "cpu", "cuda", "distributed", "distributions", "export", "fft", "func", "futures", "fx",
    "grad", "hooks", "hub", "jit", "library", "masked", "math", "modules", "mps", "mtia", "multiprocessing", "nested", "ops", "optim", "os", "overrides",
    "package", "parallel", "parameter", "platform", "profiler", "qat", "quantization", "quantizable", "quantized", "random", "rnn", "serialization",
    "signal", "sparse", "storage", "sys", "testing", "torch", "types", "utils", "version", "warnings", "xpu",
})  # fmt: skip
# Functions of those modules that change what all code shares, or that keep something between calls.
CHANGING = frozenset({
    "autocast", "cache", "cached_property", "default_generator", "initial_seed", "lru_cache", "manual_seed", "purge", "seed", "setstate", "singledispatch",
    "singledispatchmethod", "use_deterministic_algorithms", "vmap", "wraps", "update_wrapper",
})  # fmt: skip
CHANGING_PREFIXES = ("_", "set_", "register_", "enable_", "disable_", "import_")
DECORATORS = frozenset({
    "classmethod", "contextmanager", "dataclass", "dataclasses.dataclass", "property", "staticmethod", "torch.inference_mode", "torch.no_grad",
})  # fmt: skip
BASES = frozenset({
    "object", "nn.Module", "torch.nn.Module", "Module", "NamedTuple", "typing.NamedTuple", "Protocol", "TypedDict", "Enum", "StrEnum", "IntEnum",
    "str", "int",
})  # fmt: skip
ENUMS = frozenset({"Enum", "StrEnum", "IntEnum"})
METHODS = frozenset({
    "__init__", "__post_init__", "__call__", "__len__", "__getitem__", "__iter__", "__next__", "__contains__", "__repr__", "__str__", "__eq__", "__bool__",
})  # fmt: skip
READING = frozenset({"get", "items", "keys", "values", "index", "count"})  # methods of a table that do not change it
READERS = frozenset({"len", "sorted", "list", "tuple", "set", "dict", "enumerate", "zip", "min", "max", "reversed", "frozenset", "any", "all"})
