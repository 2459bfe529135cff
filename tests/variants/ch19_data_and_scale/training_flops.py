# variant: all products of one row, then the rows' share
def training_flops(config, n_tokens, length):
    D, F = config.d_model, config.d_ff or 4 * config.d_model
    products = [(length, D, D)] * 4 + [(length, D, length), (length, length, D), (length, D, F), (length, F, D)]
    row = config.n_layers * sum(2 * m * k * n for m, k, n in products) + 2 * length * D * config.vocab_size
    weights = 4 * (D * D + D) + (D * F + F) + (F * D + D) + 4 * D
    n_parameters = config.n_layers * weights + 2 * D + config.vocab_size * D
    n_parameters += 0 if config.tie_weights else config.vocab_size * D
    n_parameters += config.max_len * D if config.positions == "learned" else 0
    return row * 3 * n_tokens // length, 6 * n_parameters * n_tokens


# variant: the parameters of a real model
from .ch07_models import GPT, count_parameters


def training_flops(config, n_tokens, length):
    model = GPT(config)
    linear = sum(weight.numel() for name, weight in model.blocks.named_parameters() if weight.dim() == 2)
    head = config.vocab_size * config.d_model
    attention = 2 * config.n_layers * length * config.d_model
    return 6 * (linear + head + attention) * n_tokens, 6 * count_parameters(model) * n_tokens


# variant: forward and backward apart
def training_flops(config, n_tokens, length):
    D = config.d_model
    wide = 4 * D if config.d_ff is None else config.d_ff
    forward = backward = n = 0
    for layer in range(config.n_layers + 1):
        linear = [(D, D), (D, D), (D, D), (D, D), (D, wide), (wide, D)] if layer < config.n_layers else []
        cost = sum(2 * a * b for a, b in linear) + (4 * D * length if linear else 2 * D * config.vocab_size)
        n += sum(a * b + b for a, b in linear) + (4 * D if linear else 2 * D)
        forward += cost
        backward += 2 * cost
    n += config.vocab_size * D * (2 - int(config.tie_weights)) + config.max_len * D * int(config.positions == "learned")
    return (forward + backward) * n_tokens, 6 * n * n_tokens
