# variant: names rewritten by regular expressions
import re

import torch

_RULES = [
    (r"^model\.embed_tokens\.", "token_emb."), (r"^model\.norm\.", "ln_f."), (r"^model\.layers\.", "blocks."), (r"\.input_layernorm\.", ".ln1."),
    (r"\.post_attention_layernorm\.", ".ln2."), (r"\.self_attn\.([qkv])_proj\.", r".attn.W_\1."), (r"\.self_attn\.o_proj\.", ".attn.W_out."),
    (r"\.mlp\.(gate|up|down)_proj\.", r".ffn.\1."),
]


def _ours(name):
    for pattern, new in _RULES:
        name = re.sub(pattern, new, name)
    return name


def load_llama(model, state):
    tied = model.lm_head.weight is model.token_emb.weight
    wanted = {name: parameter for name, parameter in model.named_parameters(remove_duplicate=False) if not (tied and name == "lm_head.weight")}
    theirs = {_ours(name): (name, tensor) for name, tensor in state.items()}
    if tied and "lm_head.weight" in theirs:
        name, tensor = theirs.pop("lm_head.weight")
        if tensor.shape != model.lm_head.weight.shape:
            raise ValueError(f"{name}: {tuple(tensor.shape)}")
    spare = theirs.keys() - wanted.keys()
    if spare:
        raise ValueError("no place for " + ", ".join(theirs[name][0] for name in sorted(spare)))
    back = {"token_emb": "model.embed_tokens", "ln_f": "model.norm", "ln1": "input_layernorm", "ln2": "post_attention_layernorm"}
    back |= {"attn.W_q": "self_attn.q_proj", "attn.W_k": "self_attn.k_proj", "attn.W_v": "self_attn.v_proj", "attn.W_out": "self_attn.o_proj"}
    back |= {"ffn.gate": "mlp.gate_proj", "ffn.up": "mlp.up_proj", "ffn.down": "mlp.down_proj"}
    for name, parameter in wanted.items():
        if name not in theirs:
            whole = "model.layers." + name.removeprefix("blocks.") if name.startswith("blocks.") else name
            for mine, other in back.items():
                whole = whole.replace(f".{mine}.", f".{other}.") if f".{mine}." in whole else whole
                whole = whole.replace(f"{mine}.weight", f"{other}.weight") if whole == f"{mine}.weight" else whole
            raise ValueError(f"missing: {whole}")
        if theirs[name][1].shape != parameter.shape:
            raise ValueError(f"{theirs[name][0]} has shape {tuple(theirs[name][1].shape)} instead of {tuple(parameter.shape)}")
    with torch.no_grad():
        for name, parameter in wanted.items():
            tensor = theirs[name][1]
            if name.endswith("W_q.weight"):
                tensor = interleave_rows(tensor, model.blocks[0].attn.n_heads)
            elif name.endswith("W_k.weight"):
                tensor = interleave_rows(tensor, model.blocks[0].attn.n_kv_heads)
            parameter.copy_(tensor)


# variant: load_state_dict after everything was checked
import torch


def load_llama(model, state):
    left, new = dict(state), {}
    places = [("model.embed_tokens.weight", "token_emb.weight", 0), ("model.norm.weight", "ln_f.weight", 0)]
    for i, block in enumerate(model.blocks):
        t, o = f"model.layers.{i}.", f"blocks.{i}."
        places += [(t + "input_layernorm.weight", o + "ln1.weight", 0), (t + "post_attention_layernorm.weight", o + "ln2.weight", 0)]
        places += [(t + "self_attn.q_proj.weight", o + "attn.W_q.weight", block.attn.n_heads)]
        places += [(t + "self_attn.k_proj.weight", o + "attn.W_k.weight", block.attn.n_kv_heads)]
        places += [(t + "self_attn.v_proj.weight", o + "attn.W_v.weight", 0), (t + "self_attn.o_proj.weight", o + "attn.W_out.weight", 0)]
        places += [(t + f"mlp.{part}_proj.weight", o + f"ffn.{part}.weight", 0) for part in ("gate", "up", "down")]
    own = model.state_dict()
    if model.lm_head.weight is model.token_emb.weight:
        head = left.pop("lm_head.weight", None)
        if head is not None and head.shape != own["lm_head.weight"].shape:
            raise ValueError("lm_head.weight does not fit")
    else:
        places.append(("lm_head.weight", "lm_head.weight", 0))
    for theirs, ours, heads in places:
        if theirs not in left:
            raise ValueError(f"{theirs} is missing")
        tensor = left.pop(theirs)
        if tuple(tensor.shape) != tuple(own[ours].shape):
            raise ValueError(f"{theirs}: shape {list(tensor.shape)}, needed {list(own[ours].shape)}")
        new[ours] = interleave_rows(tensor, heads) if heads else tensor
    if left:
        raise ValueError(f"left over: {sorted(left)}")
    if model.lm_head.weight is model.token_emb.weight:
        new["lm_head.weight"] = new["token_emb.weight"]
    model.load_state_dict(new)


# variant: a generator of (parameter, name), data written in place
def load_llama(model, state):
    def places():
        yield "model.embed_tokens", model.token_emb
        yield "model.norm", model.ln_f
        for i, block in enumerate(model.blocks):
            attn, ffn = block.attn, block.ffn
            for name, module in {
                "input_layernorm": block.ln1, "post_attention_layernorm": block.ln2, "self_attn.q_proj": attn.W_q, "self_attn.k_proj": attn.W_k,
                "self_attn.v_proj": attn.W_v, "self_attn.o_proj": attn.W_out, "mlp.gate_proj": ffn.gate, "mlp.up_proj": ffn.up, "mlp.down_proj": ffn.down,
            }.items():  # fmt: skip
                yield f"model.layers.{i}.{name}", module
        if model.lm_head.weight is not model.token_emb.weight:
            yield "lm_head", model.lm_head

    found = {f"{name}.weight": module.weight for name, module in places()}
    known = {**found, "lm_head.weight": model.lm_head.weight}
    problems = [f"no {name}" for name in found if name not in state] + [f"unknown {name}" for name in state if name not in known]
    problems += [f"{name} has another shape" for name, tensor in state.items() if name in known and tensor.shape != known[name].shape]
    if problems:
        raise ValueError("; ".join(problems))
    heads = {"q_proj": "n_heads", "k_proj": "n_kv_heads"}
    for name, parameter in found.items():
        tensor = state[name]
        for part, attribute in heads.items():
            if part in name:
                tensor = interleave_rows(tensor, getattr(model.blocks[int(name.split(".")[2])].attn, attribute))
        parameter.data.copy_(tensor)
