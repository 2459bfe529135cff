# variant: a new state dict under our own names, checked, then loaded by torch
def load_gpt2(model, state_dict):
    if model.config.positions != "learned":
        raise ValueError(f"positions={model.config.positions} cannot hold GPT-2's table of positions")
    start = "transformer."
    given = {(name[len(start) :] if name.startswith(start) else name): value for name, value in state_dict.items()}
    numbers = [int(name.split(".")[1]) for name in given if name.split(".")[0] == "h"]
    layers, blocks = max(numbers, default=-1) + 1, model.config.n_layers
    if layers != blocks:
        raise ValueError(f"{layers} layers for a model with {blocks} blocks")

    def get(name, shape):
        try:
            value = given[name]
        except KeyError:
            raise ValueError(f"missing tensor: {name}") from None
        if list(value.shape) != list(shape):
            raise ValueError(f"{name}: {list(value.shape)} instead of {list(shape)}")
        return value

    config = model.config
    D, F = config.d_model, config.d_ff or 4 * config.d_model
    new = {"token_emb.weight": get("wte.weight", (config.vocab_size, D)), "pos_emb.weight": get("wpe.weight", (config.max_len, D))}
    for i in range(blocks):
        ours, their = f"blocks.{i}.", f"h.{i}."
        for kind in ("weight", "bias"):
            new[f"{ours}ln1.{kind}"] = get(f"{their}ln_1.{kind}", (D,))
            new[f"{ours}ln2.{kind}"] = get(f"{their}ln_2.{kind}", (D,))
        w, b = get(their + "attn.c_attn.weight", (D, 3 * D)), get(their + "attn.c_attn.bias", (3 * D,))
        for j, letter in enumerate("qkv"):
            new[f"{ours}attn.W_{letter}.weight"] = w[:, j * D : (j + 1) * D].t()
            new[f"{ours}attn.W_{letter}.bias"] = b[j * D : (j + 1) * D]
        for place, name, n_in, n_out in (("attn.W_out", "attn.c_proj", D, D), ("ffn.up", "mlp.c_fc", D, F), ("ffn.down", "mlp.c_proj", F, D)):
            new[f"{ours}{place}.weight"] = get(f"{their}{name}.weight", (n_in, n_out)).t()
            new[f"{ours}{place}.bias"] = get(f"{their}{name}.bias", (n_out,))
    new["ln_f.weight"], new["ln_f.bias"] = get("ln_f.weight", (D,)), get("ln_f.bias", (D,))
    if config.tie_weights:
        new["lm_head.weight"] = new["token_emb.weight"]
    else:
        new["lm_head.weight"] = get("lm_head.weight" if "lm_head.weight" in given else "wte.weight", (config.vocab_size, D))
    model.load_state_dict(new, strict=True)


# variant: layer by layer into a deep copy, which is taken over when nothing went wrong
def load_gpt2(model, state_dict):
    import copy

    assert model.config.positions == "learned", f"learned positions are needed, not {model.config.positions}"
    pick = {}
    for name, tensor in state_dict.items():
        pick[name.replace("transformer.", "", 1) if name.startswith("transformer.") else name] = tensor.detach()
    theirs = len(set(name.split(".", 2)[1] for name in pick.keys() if name.startswith("h.")))
    assert theirs == len(model.blocks), f"{theirs} layers do not fill {len(model.blocks)} blocks"

    def fill(parameter, name, cut=lambda tensor: tensor):
        if name not in pick:
            raise ValueError(name + " is missing")
        try:
            tensor = cut(pick[name])
        except (RuntimeError, IndexError, ValueError):
            raise ValueError(name + " has a wrong size") from None
        if tensor.shape != parameter.shape:
            raise ValueError(f"{name} of size {tuple(pick[name].shape)} does not fit")
        parameter.data.copy_(tensor)

    def third(which, width):
        def cut(tensor):
            if tensor.size(-1) != 3 * width:
                raise ValueError
            return tensor.split(width, dim=-1)[which].t()

        return cut

    def turned(tensor):
        return tensor.t()

    draft = copy.deepcopy(model)
    fill(draft.token_emb.weight, "wte.weight")
    fill(draft.pos_emb.weight, "wpe.weight")
    for i, block in enumerate(draft.blocks):
        for norm, name in ((block.ln1, "ln_1"), (block.ln2, "ln_2")):
            fill(norm.weight, f"h.{i}.{name}.weight")
            fill(norm.bias, f"h.{i}.{name}.bias")
        for which, linear in enumerate((block.attn.W_q, block.attn.W_k, block.attn.W_v)):
            fill(linear.weight, f"h.{i}.attn.c_attn.weight", third(which, model.config.d_model))
            fill(linear.bias, f"h.{i}.attn.c_attn.bias", third(which, model.config.d_model))
        for linear, name in ((block.attn.W_out, "attn.c_proj"), (block.ffn.up, "mlp.c_fc"), (block.ffn.down, "mlp.c_proj")):
            fill(linear.weight, f"h.{i}.{name}.weight", turned)
            fill(linear.bias, f"h.{i}.{name}.bias")
    fill(draft.ln_f.weight, "ln_f.weight")
    fill(draft.ln_f.bias, "ln_f.bias")
    if not model.config.tie_weights:
        fill(draft.lm_head.weight, "lm_head.weight" if "lm_head.weight" in pick else "wte.weight")
    with torch.no_grad():
        for target, source in zip(model.parameters(), draft.parameters()):
            target.copy_(source)


# variant: names translated by regular expressions, parameter by parameter
def load_gpt2(model, state_dict):
    import re

    if model.config.positions in ("sinusoidal", "rope", "alibi"):
        raise ValueError(f"a model with {model.config.positions} positions has no place for wpe")
    source = {re.sub(r"^transformer\.", "", name): value for name, value in state_dict.items()}
    count = len({int(found[1]) for found in map(re.compile(r"h\.(\d+)\.").match, source) if found})
    if count != model.config.n_layers:
        raise ValueError(f"number of layers: {count} in the state dict, {model.config.n_layers} in the model")
    swaps = {
        r"^token_emb": "wte", r"^pos_emb": "wpe", r"^blocks": "h", r"\.ln([12])\.": r".ln_\1.", r"attn\.W_out": "attn.c_proj",
        r"attn\.W_[qkv]": "attn.c_attn", r"ffn\.up": "mlp.c_fc", r"ffn\.down": "mlp.c_proj",
    }  # fmt: skip
    ready = []
    for name, parameter in model.named_parameters():
        other = name
        for pattern, put in swaps.items():
            other = re.sub(pattern, put, other)
        if other == "lm_head.weight" and other not in source:
            other = "wte.weight"
        if other not in source:
            raise ValueError(f"{other} not found")
        value = source[other]
        wanted = list(parameter.shape)
        if re.search(r"\.c_(attn|proj|fc)\.", other):
            third = "qkv".find(name.split(".")[-2][-1]) if "c_attn" in other else 0
            if "c_attn" in other:
                wanted[0] *= 3
            if list(value.shape) != wanted[::-1]:
                raise ValueError(f"{other} has shape {list(value.shape)}, not {wanted[::-1]}")
            value = value.permute(*range(value.dim() - 1, -1, -1))
            value = value[third * parameter.size(0) : (third + 1) * parameter.size(0)]
        elif list(value.shape) != wanted:
            raise ValueError(f"{other} has shape {list(value.shape)}, not {wanted}")
        ready.append((parameter, value.clone()))
    for parameter, value in ready:
        parameter.data[...] = value


# variant: copied straight in, and put back when something is wrong
def load_gpt2(model: GPT, state_dict: Mapping[str, Tensor]) -> None:
    if not isinstance(model.pos_emb, LearnedPositions):
        raise ValueError("no learned positions, but " + model.config.positions)
    sd = {}
    for key, value in state_dict.items():
        sd[key.split("transformer.")[-1]] = value
    found = sorted({int(key.split(".")[1]) for key in sd if key.startswith("h.")})
    if len(found) != len(model.blocks):
        raise ValueError("expected %d layers, found %d" % (len(model.blocks), len(found)))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def put(linear, name, columns=None):
        for kind in ("weight", "bias"):
            if not hasattr(linear, kind) or getattr(linear, kind) is None:
                continue
            key = f"{name}.{kind}"
            if key not in sd:
                raise ValueError(f"no tensor {key}")
            value, parameter = sd[key], getattr(linear, kind)
            if columns is not None:
                if value.size(-1) % (columns[1] * parameter.size(0)) or value.size(-1) // parameter.size(0) != columns[1]:
                    raise ValueError(f"bad size of {key}: {value.size(-1)}")
                value = torch.chunk(value, columns[1], dim=-1)[columns[0]]
                value = value.mT if value.ndim == 2 else value
            if value.shape != parameter.shape:
                raise ValueError(f"bad size of {key}: {value.shape}")
            parameter.copy_(value)

    try:
        put(model.token_emb, "wte")
        put(model.pos_emb, "wpe")
        put(model.ln_f, "ln_f")
        for i in range(len(model.blocks)):
            block = model.blocks[i]
            put(block.ln1, f"h.{i}.ln_1")
            put(block.ln2, f"h.{i}.ln_2")
            put(block.attn.W_q, f"h.{i}.attn.c_attn", (0, 3))
            put(block.attn.W_k, f"h.{i}.attn.c_attn", (1, 3))
            put(block.attn.W_v, f"h.{i}.attn.c_attn", (2, 3))
            put(block.attn.W_out, f"h.{i}.attn.c_proj", (0, 1))
            put(block.ffn.up, f"h.{i}.mlp.c_fc", (0, 1))
            put(block.ffn.down, f"h.{i}.mlp.c_proj", (0, 1))
        if not model.config.tie_weights:
            put(model.lm_head, "lm_head" if "lm_head.weight" in sd else "wte")
    except ValueError:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(before[name])
        raise


# variant: its own exception class, and a list of copies made at the end
class CheckpointError(ValueError):
    pass


def load_gpt2(model, state_dict):
    if model.config.positions != "learned":
        raise CheckpointError(f"this needs learned positions, not {model.config.positions}")
    prefix = "transformer."
    theirs = {name[len(prefix) :] if name.startswith(prefix) else name: tensor for name, tensor in state_dict.items()}
    layers = 1 + max((int(name.split(".")[1]) for name in theirs if name.startswith("h.")), default=-1)
    if layers != len(model.blocks):
        raise CheckpointError(f"checkpoint: {layers} layers; model: {len(model.blocks)} layers")
    copies = []

    def take(name, parameters, turned=False):
        if name not in theirs:
            raise CheckpointError(f"missing: {name}")
        tensor = theirs[name].t() if turned else theirs[name]
        rows = sum(parameter.size(0) for parameter in parameters)
        if tensor.shape != (rows, *parameters[0].shape[1:]):
            raise CheckpointError(f"{name}: {list(tensor.shape)} does not fit")
        copies.extend(zip(parameters, tensor.split([parameter.size(0) for parameter in parameters])))

    def take_layer(name, *modules, turned=False):
        take(f"{name}.weight", [module.weight for module in modules], turned)
        take(f"{name}.bias", [module.bias for module in modules])

    take("wte.weight", [model.token_emb.weight])
    take("wpe.weight", [model.pos_emb.weight])
    for i, block in enumerate(model.blocks):
        take_layer(f"h.{i}.ln_1", block.ln1)
        take_layer(f"h.{i}.attn.c_attn", block.attn.W_q, block.attn.W_k, block.attn.W_v, turned=True)
        take_layer(f"h.{i}.attn.c_proj", block.attn.W_out, turned=True)
        take_layer(f"h.{i}.ln_2", block.ln2)
        take_layer(f"h.{i}.mlp.c_fc", block.ffn.up, turned=True)
        take_layer(f"h.{i}.mlp.c_proj", block.ffn.down, turned=True)
    take_layer("ln_f", model.ln_f)
    if model.lm_head.weight is not model.token_emb.weight:
        take("lm_head.weight" if "lm_head.weight" in theirs else "wte.weight", [model.lm_head.weight])
    for parameter, tensor in copies:
        parameter.data.copy_(tensor)
