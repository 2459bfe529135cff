# variant: a FeedForward with other parts
class TensorParallelFeedForward(FeedForward):
    def __init__(self, feed_forward, group):
        super().__init__(feed_forward.up.in_features, feed_forward.up.out_features, feed_forward.activation)
        self.up = ColumnParallelLinear(feed_forward.up, group)
        self.down = RowParallelLinear(feed_forward.down, group)


# variant: torch's activations in a dict
from torch import nn
from torch.nn import functional


class TensorParallelFeedForward(nn.Module):
    def __init__(self, feed_forward, group):
        super().__init__()
        self.add_module("up", ColumnParallelLinear(feed_forward.up, group))
        self.add_module("down", RowParallelLinear(feed_forward.down, group))
        self.bend = {
            "relu": lambda h: h.clamp(min=0),
            "gelu": functional.gelu,
            "gelu_tanh": lambda h: functional.gelu(h, approximate="tanh"),
        }[feed_forward.activation]

    def forward(self, x):
        return self.down(self.bend(self.up(x)))


# variant: one copy and one sum, with the parts' weights
import torch
from torch import nn
from torch.nn import functional


class TensorParallelFeedForward(nn.Module):
    def __init__(self, feed_forward, group):
        super().__init__()
        self.group, self.kind = group, feed_forward.activation
        self.up, self.down = ColumnParallelLinear(feed_forward.up, group), RowParallelLinear(feed_forward.down, group)

    def forward(self, x):
        hidden = functional.linear(copy_to_ranks(x, self.group), self.up.weight, self.up.bias)
        match self.kind:
            case "relu":
                hidden = torch.relu(hidden)
            case "gelu" | "gelu_tanh" as kind:
                hidden = gelu(hidden, kind.endswith("tanh"))
        result = sum_over_ranks(functional.linear(hidden, self.down.weight), self.group)
        return result if self.down.bias is None else result + self.down.bias
