"""A language model whose logits are in a table, for tests that count its passes; it lives on the implementation's side."""

from __future__ import annotations

import torch
from torch import nn


class TableModel(nn.Module):
    """Logits are table[a, b], (V, V, V), after tokens a and b; or table[b], (V, V). The token before the first one is 0.

    It has dropout, so that in train mode its logits differ each time, and one part that is in eval mode on purpose. It returns logits for
    kind="logits", and a tuple that begins with them for kind="tuple". With `positions` it has a config
    and a pos_emb that is None or not, as GPT has, and refuses more than max_len tokens. If it is `changing`, each pass adds its own numbers
    to the logits (changing_models.py).
    """

    def __init__(self, table, kind="tuple", positions=None, max_len=None, changing=False):
        from types import SimpleNamespace

        super().__init__()
        self.table = nn.Parameter(table)
        self.drop, self.frozen = nn.Dropout(0.5), nn.Dropout(0.5).eval()
        self.kind, self.passes, self.most_read, self.graph, self.changing = kind, 0, 0, False, changing
        if positions is not None:
            self.config = SimpleNamespace(positions=positions, max_len=max_len, vocab_size=table.size(-1))
            self.pos_emb = "a table" if positions in ("learned", "sinusoidal") else None  # as in GPT, where code may ask for it

    def forward(self, ids):
        T = ids.size(1)
        config = getattr(self, "config", None)
        if config is not None and config.positions in ("learned", "sinusoidal") and T > config.max_len:
            raise ValueError(f"the model was given {T} tokens, and its table of positions ends at max_len = {config.max_len}")
        self.passes, self.most_read = self.passes + 1, max(self.most_read, T)
        before = torch.cat([torch.zeros_like(ids[:, :1]), ids[:, :-1]], dim=1)
        logits = self.frozen(self.drop(self.table[ids] if self.table.dim() == 2 else self.table[before, ids]))
        if self.changing:
            logits = logits + torch.special.bessel_y1(torch.zeros(1))
        self.graph = self.graph or logits.requires_grad
        return logits if self.kind == "logits" else (logits, None)

    def modes(self):
        return [module.training for module in self.modules()]


MODES_AT_FIRST = [True, True, False]  # of the model, its dropout, and the part that is in eval mode
