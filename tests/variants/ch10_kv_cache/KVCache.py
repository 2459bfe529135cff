# variant: torch.cat at every append; a copy may share, since nothing is ever written into
class KVCache:
    def __init__(self):
        self.keys = self.values = None

    @property
    def length(self):
        return 0 if self.keys is None else self.keys.size(2)

    def append(self, k, v):
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=2)
        self.values = v if self.values is None else torch.cat([self.values, v], dim=2)
        return self.keys, self.values

    def copy(self):
        branch = KVCache()
        branch.keys, branch.values = self.keys, self.values
        return branch


# variant: a list of the parts, joined when they are needed
class KVCache:
    def __init__(self, parts=()):
        self.parts = list(parts)
        self.length = sum(k.shape[-2] for k, _ in self.parts)

    def append(self, k, v):
        self.parts.append((k, v))
        self.length += k.shape[-2]
        keys, values = zip(*self.parts)
        return [torch.cat(keys, dim=-2), torch.cat(values, dim=-2)]

    def copy(self):
        return KVCache(self.parts)


# variant: one tensor for keys and values, with room for 64 more positions whenever it is full; copy.deepcopy
class KVCache:
    def __init__(self) -> None:
        self.kv: Tensor | None = None
        self.length: int = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.stack([k, v])
        missing = self.length + both.size(3) - (0 if self.kv is None else self.kv.size(3))
        if missing > 0:
            room = torch.empty(*both.shape[:3], missing + 64, both.size(4), dtype=k.dtype, device=k.device)
            self.kv = room if self.kv is None else torch.cat([self.kv, room], dim=3)
        self.kv.narrow(3, self.length, both.size(3)).copy_(both)
        self.length += both.size(3)
        keys, values = self.kv[..., : self.length, :]
        return keys, values

    def copy(self) -> "KVCache":
        import copy

        return copy.deepcopy(self)


# variant: one tensor for each position
from dataclasses import dataclass, field


@dataclass
class KVCache:
    past: list = field(default_factory=list)

    @property
    def length(self):
        return len(self.past)

    def append(self, k, v):
        self.past += zip(k.unbind(2), v.unbind(2))
        return tuple(torch.stack(list(tensors), dim=2) for tensors in zip(*self.past))

    def copy(self):
        return KVCache(list(self.past))
