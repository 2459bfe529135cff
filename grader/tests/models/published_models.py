"""Small published models with random weights: a folder that Hugging Face's own libraries write, and a GGUF file with the same numbers."""

from __future__ import annotations

import json
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch16_published_model.published import gguf as gguf_files
from grader.chapters.ch16_published_model.published import hub_folder
from grader.chapters.ch16_published_model.published.opening import EARLIER, EXERCISES
from grader.course.syllabus import EXERCISES as LESSONS
from grader.models.own_parts import OwnParts
from grader.teaching.walks.parts import MixedChapters
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
from tokenizers import decoders as byte_decoders
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCAB_SIZE = 320  # most tokens are single bytes, so a random model writes control characters
BASE, CONTEXT = 50_000.0, 4096
SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5)
F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8
PARTS = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip


@contextmanager
def reference_parts():
    """The parts that run a published model, all of the reference."""
    parts = MixedChapters((*EARLIER, *EXERCISES, *gguf_files.LOADING, *hub_folder.LOADING), ())
    try:
        yield OwnParts(parts)
    finally:
        parts.close()


@dataclass(frozen=True)
class Written:
    """A model on disk, and what Hugging Face's libraries make of it."""

    folder: Path
    gguf: Path
    theirs: LlamaForCausalLM
    their_tokenizer: Tokenizer
    tensors: dict[str, tuple[int, tuple[int, ...], bytes]]  # of the GGUF file


def gguf_parts(written: Written) -> tuple[dict[str, Any], dict[str, tuple[int, tuple[int, ...], bytes]]]:
    """What `gguf_bytes` writes the file from."""
    return metadata_of(written.theirs.config, written.folder), written.tensors


def write_model(place: Path, tied: bool = True, **sizes: int) -> Written:
    """Write a folder and a GGUF file of one random model into `place`."""
    torch.manual_seed(7)
    folder, gguf = place / "Tiny-Llama", place / "Tiny-Llama.Q4_1.gguf"
    config = LlamaConfig(
        **SIZES | sizes, vocab_size=VOCAB_SIZE, max_position_embeddings=CONTEXT, tie_word_embeddings=tied, rope_parameters={"rope_type": "default", "rope_theta": BASE},
        bos_token_id=None, eos_token_id=2, attn_implementation="eager",
    )  # fmt: skip
    theirs = LlamaForCausalLM(config).eval()
    state = theirs.state_dict()
    tensors: dict[str, tuple[int, tuple[int, ...], bytes]] = {}

    def put(name: str, theirs_name: str, kind: int, heads: int = 0) -> None:
        weight = state[f"{theirs_name}.weight"]
        values, data = _stored(kind, weight.shape)
        tensors[f"{name}.weight"] = kind, tuple(weight.shape), data
        weight.copy_(_halves(values, heads) if heads else values)

    with torch.no_grad():
        put("token_embd", "model.embed_tokens", Q8_0)
        put("output_norm", "model.norm", F32)
        if not tied:
            put("output", "lm_head", F16)
        for block in range(config.num_hidden_layers):
            heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
            for name, other in PARTS.items():
                kind = F32 if "norm" in name else Q4_1
                put(f"blk.{block}.{name}", f"model.layers.{block}.{other}", kind, heads.get(name, 0))
    theirs.save_pretrained(folder)
    tokenizer = _write_tokenizer(folder)
    gguf.write_bytes(gguf_bytes(metadata_of(config, folder), tensors))
    return Written(folder, gguf, theirs, tokenizer, tensors)


def _stored(kind: int, shape: torch.Size) -> tuple[Tensor, bytes]:
    """Random values that this kind can store exactly, and how it stores them."""
    count = shape.numel()
    if kind in (F32, F16):
        values = (torch.randn(shape) * 0.3 + (len(shape) == 1)).to(torch.float32 if kind == F32 else torch.float16)
        return values.float(), values.numpy().tobytes()
    scales = (torch.rand(count // 32, 1) * 0.02 + 0.005).half()
    if kind == Q8_0:
        whole = torch.randint(-127, 128, (count // 32, 32), dtype=torch.int8)
        data = torch.cat([scales.view(torch.uint8), whole.view(torch.uint8)], 1)
        return (whole.float() * scales.float()).view(shape), data.numpy().tobytes()
    lowest = -scales * 7
    whole = torch.randint(0, 16, (count // 32, 32), dtype=torch.uint8)
    data = torch.cat([scales.view(torch.uint8), lowest.view(torch.uint8), whole[:, :16] | whole[:, 16:] << 4], 1)
    return (whole.float() * scales.float() + lowest.float()).view(shape), data.numpy().tobytes()


def _halves(rows: Tensor, heads: int) -> Tensor:
    """The rows of neighbouring pairs, which a GGUF file has, in the order of halves, which Hugging Face has."""
    return torch.cat([torch.cat([head[0::2], head[1::2]]) for head in rows.chunk(heads)])


def _write_tokenizer(folder: Path) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = byte_decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=[AddedToken(token, special=True) for token in SPECIAL], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator([path.read_text(encoding="utf-8") for path in sorted(LESSONS.glob("ch0*.md"))], trainer)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def metadata_of(config: LlamaConfig, folder: Path) -> dict[str, Any]:
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return {
        "general.architecture": "llama", "general.alignment": 32, "llama.vocab_size": VOCAB_SIZE, "llama.context_length": CONTEXT,
        "llama.embedding_length": config.hidden_size, "llama.block_count": config.num_hidden_layers, "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads, "llama.attention.head_count_kv": config.num_key_value_heads, "llama.rope.freq_base": BASE,
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps, "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]],
        "tokenizer.ggml.token_type": [3 if token in SPECIAL else 1 for token in tokens],
    }  # fmt: skip


def gguf_bytes(metadata: dict[str, Any], tensors: dict[str, tuple[int, tuple[int, ...], bytes]], version: int = 3) -> bytes:
    """A GGUF file, written from its published description."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(_string(name) + _value(value) for name, value in metadata.items())
    body = b""
    for name, (kind, shape, data) in tensors.items():
        head += _string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape)) + struct.pack("<IQ", kind, len(body))
        body += data + bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + body


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value) if 0 <= value < 2**32 else struct.pack("<Iq", 11, value)
    if isinstance(value[0], list):
        return struct.pack("<IIQ", 9, 9, len(value)) + b"".join(_value(each)[4:] for each in value)
    if isinstance(value[0], float):
        return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
    return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
