"""Quantised weights as other programs have them: python make.py, with gguf 0.19, torch 2.13 and numpy.

blocks/TYPE.bin holds rows of blocks, blocks/TYPE.f32 the float32 numbers that gguf.quants gives for them.

model.gguf is a Llama of random weights, every matrix of another type, with the tokenizer of ../tokenizers/llama3; expected.json
what PyTorch computes with its dequantised weights in float32, the input of every quantised product rounded to 8 bits by the
absolute maximum of each 32 numbers (and, backward, as if it had not been): logprobs of a text, greedy tokens after it, and the
gradients of an adapter on all projections by the mean cross-entropy of the text.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from blocks import quantized, rounded  # noqa: E402

TYPES = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
rng = np.random.default_rng(16)

def make_blocks():
    (HERE / "blocks").mkdir(exist_ok=True)
    for name in TYPES:
        rows = quantized(rng, name, 2, 512, scale=1.0)
        rows.tofile(HERE / "blocks" / f"{name}.bin")
        gguf.quants.dequantize(rows, gguf.GGMLQuantizationType[name]).astype("<f4").tofile(HERE / "blocks" / f"{name}.f32")


HIDDEN, HEADS, KV_HEADS, HEAD, MIDDLE, LAYERS, BASE, EPS = 256, 4, 2, 64, 256, 2, 10000.0, 1e-5
SHAPES = {
    "attn_q": (HEADS * HEAD, HIDDEN), "attn_k": (KV_HEADS * HEAD, HIDDEN), "attn_v": (KV_HEADS * HEAD, HIDDEN),
    "attn_output": (HIDDEN, HEADS * HEAD), "ffn_gate": (MIDDLE, HIDDEN), "ffn_up": (MIDDLE, HIDDEN), "ffn_down": (HIDDEN, MIDDLE),
}
PEFT = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
RANK, ALPHA = 4, 8


def make_model():
    folder = HERE.parent / "tokenizers" / "llama3"
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokens = dict(tokenizer["model"]["vocab"])
    added = {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
    texts = [text for text, _ in sorted({**tokens, **added}.items(), key=lambda item: item[1])]
    writer = gguf.GGUFWriter(HERE / "model.gguf", "llama")
    writer.add_name("random")
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(MIDDLE)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(BASE)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_vocab_size(len(texts))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(texts)
    writer.add_token_types([3 if text in added else 1 for text in texts])
    writer.add_token_merges([" ".join(m) if isinstance(m, list) else m for m in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(added["<|begin_of_text|>"])
    writer.add_eos_token_id(added["<|eot_id|>"])
    writer.add_add_bos_token(True)
    writer.add_chat_template(
        "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}<|eot_id|>{% endfor %}assistant:"
    )
    weights = {}

    def add(name, kind, shape):
        data = quantized(rng, kind, *shape)
        weights[name] = torch.from_numpy(gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind]).astype(np.float32))
        writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType[kind])

    def add_vector(name, size):
        data = (1 + 0.2 * rng.standard_normal(size)).astype(np.float32)
        weights[name] = torch.from_numpy(data)
        writer.add_tensor(name, data)

    add("token_embd.weight", "Q6_K", (len(texts), HIDDEN))
    for layer in range(LAYERS):
        for i, (name, shape) in enumerate(SHAPES.items()):
            add(f"blk.{layer}.{name}.weight", TYPES[(i + 3 * layer) % 8], shape)
        add_vector(f"blk.{layer}.attn_norm.weight", HIDDEN)
        add_vector(f"blk.{layer}.ffn_norm.weight", HIDDEN)
    add_vector("output_norm.weight", HIDDEN)
    add("output.weight", "Q4_K", (len(texts), HIDDEN))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def norm(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * weight


def rope(x):  # [tokens][heads][HEAD], pairs side by side as in the file
    angles = torch.arange(x.shape[0])[:, None] * BASE ** (-torch.arange(0, HEAD, 2) / HEAD)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def forward(weights, adapter, tokens):
    def product(x, layer, name):
        at = f"blk.{layer}.{name}"
        y = rounded(x) @ weights[f"{at}.weight"].T
        if adapter:
            a, b = adapter[at]
            y = y + (ALPHA / RANK) * (x @ a.T) @ b.T
        return y

    n = len(tokens)
    x = weights["token_embd.weight"][tokens]
    for layer in range(LAYERS):
        h = norm(x, weights[f"blk.{layer}.attn_norm.weight"])
        q = rope(product(h, layer, "attn_q").reshape(n, HEADS, HEAD))
        k = rope(product(h, layer, "attn_k").reshape(n, KV_HEADS, HEAD)).repeat_interleave(HEADS // KV_HEADS, 1)
        v = product(h, layer, "attn_v").reshape(n, KV_HEADS, HEAD).repeat_interleave(HEADS // KV_HEADS, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / HEAD**0.5
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
        out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(n, -1)
        x = x + product(out, layer, "attn_output")
        h = norm(x, weights[f"blk.{layer}.ffn_norm.weight"])
        gate = torch.nn.functional.silu(product(h, layer, "ffn_gate"))
        x = x + product(gate * product(h, layer, "ffn_up"), layer, "ffn_down")
    return rounded(norm(x, weights["output_norm.weight"])) @ weights["output.weight"].T


def unpaired(b, heads):  # rows of B in the order of Hugging Face: halves of a head
    return b.reshape(heads, HEAD // 2, 2, -1).transpose(1, 2).reshape(b.shape)


def make_expected(weights):
    vocab = len(weights["token_embd.weight"])
    tokens = rng.integers(0, vocab - 3, 48).tolist()
    torch.manual_seed(1)
    adapter, order = {}, []
    for layer in range(LAYERS):
        for name, (rows, cols) in SHAPES.items():
            a, b = 0.1 * torch.randn(RANK, cols), 0.1 * torch.randn(rows, RANK)
            adapter[f"blk.{layer}.{name}"] = (a.requires_grad_(), b.requires_grad_())
    with torch.no_grad():
        logprobs = forward(weights, None, tokens).log_softmax(-1)
        greedy = list(tokens)
        margins = []
        for _ in range(16):
            best = forward(weights, None, greedy)[-1].topk(2)
            margins.append((best.values[0] - best.values[1]).item())
            greedy.append(best.indices[0].item())
    adapted = forward(weights, adapter, tokens).log_softmax(-1)
    target = torch.tensor(tokens[1:])
    chosen = adapted[:-1].gather(1, target[:, None])[:, 0]
    (-chosen.mean()).backward()
    numbers = lambda t: np.asarray(t.detach(), "<f4").ravel()
    blob, places = [], {}

    def keep(name, tensor):
        places[name] = [sum(map(len, blob)), list(tensor.shape)]
        blob.append(numbers(tensor))

    keep("logprobs", logprobs[:-1].gather(1, target[:, None])[:, 0])
    keep("adapted.logprobs", chosen)
    for at, (a, b) in adapter.items():
        _, layer, name = at.split(".")
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name)
        order = (lambda x: unpaired(x, heads)) if heads else (lambda x: x)
        module = f"base_model.model.model.layers.{layer}.{PEFT[name]}"
        for part, tensor in (("lora_A", a), ("lora_B", b)):
            turn = order if part == "lora_B" else (lambda x: x)
            keep(f"{module}.{part}.weight", turn(tensor.detach()))
            keep(f"gradient.{module}.{part}.weight", turn(tensor.grad))
    np.concatenate(blob).tofile(HERE / "expected.f32")
    facts = {"tokens": tokens, "greedy": greedy[len(tokens):], "margins": margins, "rank": RANK, "alpha": ALPHA, "tensors": places}
    (HERE / "expected.json").write_text(json.dumps(facts, indent=1) + "\n")
    print("smallest margin", min(margins), "loss", -chosen.mean().item())


make_blocks()
make_expected(make_model())
