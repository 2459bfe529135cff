"""A small model of random weights in a GGUF file, stored as the published one is: matrices as Q4_1, the embedding as Q8_0."""

from __future__ import annotations

import struct
from pathlib import Path

import torch

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
BYTES = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]  # written as vocabulary files do
MERGES = ["h e", "t he", "Ġ the", "i n", "a s", "as s", "e r", "us er", "i s", "Ġ is"]
TOKENS = [*SPECIAL, *BYTES, *(merge.replace(" ", "") for merge in MERGES)]
WIDTH, HEADS, KEY_HEADS, LAYERS, D_FF, ALIGNMENT = 64, 4, 2, 2, 96, 32
F32, Q4_1, Q8_0 = 0, 3, 8
SCALE, MINIMUM = 0.04, -0.3
EMBEDDING_SCALE = 0.002  # small: otherwise a tied model repeats its last token


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _entry(name: str, value: str | int | float | list) -> bytes:
    if isinstance(value, str):
        kind, data = 8, _string(value)
    elif isinstance(value, float):
        kind, data = 6, struct.pack("<f", value)
    elif isinstance(value, int):
        kind, data = 4, struct.pack("<I", value)
    elif isinstance(value[0], str):
        kind, data = 9, struct.pack("<IQ", 8, len(value)) + b"".join(map(_string, value))
    else:
        kind, data = 9, struct.pack(f"<IQ{len(value)}i", 5, len(value), *value)
    return _string(name) + struct.pack("<I", kind) + data


def _blocks(shape: tuple[int, ...], kind: int, generator: torch.Generator) -> bytes:
    if kind == F32:
        return struct.pack(f"<{shape[0]}f", *[1.0] * shape[0])
    count = torch.Size(shape).numel() // 32
    head = struct.pack("<ee", SCALE, MINIMUM) if kind == Q4_1 else struct.pack("<e", EMBEDDING_SCALE)
    numbers = torch.randint(256, (count, 16 if kind == Q4_1 else 32), generator=generator).tolist()
    return b"".join(head + bytes(block) for block in numbers)


def write_gguf(path: Path, seed: int = 0) -> Path:
    keys = WIDTH // HEADS * KEY_HEADS
    sizes = {
        "context_length": 512, "embedding_length": WIDTH, "block_count": LAYERS, "feed_forward_length": D_FF, "vocab_size": len(TOKENS),
        "attention.head_count": HEADS, "attention.head_count_kv": KEY_HEADS, "rope.freq_base": 10_000.0, "attention.layer_norm_rms_epsilon": 1e-5,
    }  # fmt: skip
    entries = {"general.architecture": "llama"} | {f"llama.{name}": value for name, value in sizes.items()}
    entries |= {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": TOKENS, "tokenizer.ggml.merges": MERGES}
    entries["tokenizer.ggml.token_type"] = [3 if token in SPECIAL else 1 for token in TOKENS]
    shapes = {"token_embd": ((len(TOKENS), WIDTH), Q8_0), "output_norm": ((WIDTH,), F32)}
    for i in range(LAYERS):
        matrices = {
            "attn_q": (WIDTH, WIDTH), "attn_k": (keys, WIDTH), "attn_v": (keys, WIDTH), "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (D_FF, WIDTH), "ffn_up": (D_FF, WIDTH), "ffn_down": (WIDTH, D_FF),
        }  # fmt: skip
        shapes |= {f"blk.{i}.{name}": (shape, Q4_1) for name, shape in matrices.items()}
        shapes |= {f"blk.{i}.{name}": ((WIDTH,), F32) for name in ("attn_norm", "ffn_norm")}
    head, data, generator = b"", b"", torch.Generator().manual_seed(seed)
    for name, (shape, kind) in shapes.items():
        head += _string(f"{name}.weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, len(data))
        data += _blocks(shape, kind, generator)
        data += bytes(-len(data) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(entries)) + b"".join(_entry(*entry) for entry in entries.items()) + head
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)
    return path
