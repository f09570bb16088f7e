"""GGUF files of models with experts: python make.py, with gguf 0.19, torch 2.13, transformers 5.23 and peft 0.21.

bfloat16.gguf is ../models/qwen3_moe, whose expected.safetensors holds for it.

model.gguf is a Qwen3 MoE of random weights, its matrices of other types from layer to layer, routers in float32; expected.json
what transformers and peft compute with its dequantised weights in float32, the input of every quantised product rounded to 8 bits
by the absolute maximum of each 32 numbers (and, backward, as if it had not been): logprobs of a text, greedy tokens after it, and
the gradients of an adapter on attention by the mean cross-entropy of the text. `least_lead` is what ../models/README.md says.
"""
import pathlib
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
sys.path[:0] = [str(MODELS), str(HERE.parent)]
from attention_adapter import record  # noqa: E402
from blocks import experts_forward, quantized, rounded  # noqa: E402
from make import part_choices  # noqa: E402

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
rng = np.random.default_rng(17)

CONFIG = AutoConfig.for_model(
    "qwen3_moe", hidden_size=256, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=32, vocab_size=96, num_experts=5, num_experts_per_tok=2, norm_topk_prob=True,
    rms_norm_eps=1e-6, max_position_embeddings=256, tie_word_embeddings=True,
    rope_parameters=dict(rope_type="default", rope_theta=1000000.0), attn_implementation="eager", experts_implementation="eager",
)
TYPES = [
    {"q_proj": "Q4_0", "k_proj": "Q8_0", "v_proj": "Q6_K", "o_proj": "Q5_1", "gate_proj": "Q4_K", "up_proj": "Q4_K", "down_proj": "Q8_0"},
    {"q_proj": "Q5_K", "k_proj": "Q4_1", "v_proj": "Q8_0", "o_proj": "Q4_0", "gate_proj": "Q6_K", "up_proj": "Q5_K", "down_proj": "Q5_0"},
]

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate": "ffn_gate_inp", "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
}
WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}

def dequantized(data, kind):
    return torch.from_numpy(gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind]))


def stored_name(name):
    if name in WHOLE:
        return WHOLE[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def write(file, config, tensors):
    """`tensors`: name as published, experts without their number, and (numbers or blocks, type)."""
    writer = gguf.GGUFWriter(file, "qwen3moe")
    writer.add_type("model")
    writer.add_name("random")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for name, (data, kind) in tensors.items():
        writer.add_tensor(stored_name(name), data, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_bfloat16():
    folder = MODELS / "qwen3_moe"
    config, published, tensors = AutoConfig.from_pretrained(folder), load_file(folder / "model.safetensors"), {}
    for name, value in published.items():
        if ".experts.0." in name:
            each = [published[name.replace(".experts.0.", f".experts.{i}.")] for i in range(config.num_experts)]
            name, value = name.replace(".experts.0.", ".experts."), torch.stack(each)
        elif ".experts." in name:
            continue
        kind = "F32" if value.dim() == 1 or name.endswith("mlp.gate.weight") else "BF16"
        tensors[name] = (gguf.quants.quantize(value.float().numpy(), gguf.GGMLQuantizationType[kind]), kind)
    write(HERE / "bfloat16.gguf", config, tensors)


def make_model():
    tensors = {"model.embed_tokens.weight": (quantized(rng, "Q6_K", CONFIG.vocab_size, CONFIG.hidden_size), "Q6_K")}
    model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32).eval()
    numbers = lambda name: dequantized(*tensors[name])
    for name, p in model.named_parameters():
        if "norm" in name:
            tensors[name] = ((1 + 0.2 * rng.standard_normal(p.shape)).astype(np.float32), "F32")
        elif name.endswith("mlp.gate.weight"):
            tensors[name] = ((0.08 * rng.standard_normal(p.shape)).astype(np.float32), "F32")
        elif name.endswith("experts.gate_up_proj"):
            for part in ("gate_proj", "up_proj"):
                kind = TYPES[int(name.split(".")[2])][part]
                shape = p.shape[0], p.shape[1] // 2, p.shape[2]
                tensors[name.replace("gate_up_proj", f"{part}.weight")] = (quantized(rng, kind, *shape), kind)
        elif name != "model.embed_tokens.weight":
            part = name.removesuffix(".weight").split(".")[-1]
            kind = TYPES[int(name.split(".")[2])][part]
            tensors[name if name.endswith(".weight") else f"{name}.weight"] = (quantized(rng, kind, *p.shape), kind)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("gate_up_proj"):
                p.copy_(torch.cat([numbers(name.replace("gate_up_proj", f"{part}.weight")) for part in ("gate_proj", "up_proj")], 1))
            else:
                p.copy_(numbers(name if name in tensors else f"{name}.weight"))
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.forward = lambda x, linear=module: rounded(x) @ linear.weight.T
        elif type(module).__name__ == "Qwen3MoeExperts":
            module.forward = experts_forward(module)
    tokens = torch.from_numpy(rng.integers(0, CONFIG.vocab_size, 48))
    part_choices(model, [tokens])
    for name, p in model.named_parameters():
        if name.endswith("mlp.gate.weight"):
            tensors[name] = (p.detach().numpy(), "F32")
    write(HERE / "model.gguf", CONFIG, tensors)
    return model, tokens


make_bfloat16()
record(HERE, *make_model())
