"""GPT-OSS with experts in MXFP4: python make.py, with gguf 0.19, torch 2.13, transformers 5.24 and peft 0.21.

One model of random weights, twice: model.gguf, with names and metadata as llama.cpp has them, and folder/, as OpenAI publishes
its own, experts as blocks and scales; all else is in bfloat16. expected.json: what transformers and peft compute with its
dequantised weights in float32, the input of every product of an expert rounded to 8 bits by the absolute maximum of each 32 numbers
(and, backward, as if it had not been): logprobs of a text, greedy tokens after it, and the gradients of an adapter on attention by the
mean cross-entropy of the text. `least_lead` is what ../models/README.md says.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "models"), str(HERE.parent)]
from attention_adapter import record  # noqa: E402
from blocks import rounded  # noqa: E402
from make import part_choices  # noqa: E402

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
rng = np.random.default_rng(23)

CONFIG = AutoConfig.for_model(
    "gpt_oss", hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
    vocab_size=96, num_local_experts=5, num_experts_per_tok=2, rms_norm_eps=1e-5, max_position_embeddings=256, sliding_window=20,
    tie_word_embeddings=False, attn_implementation="eager", experts_implementation="eager",
    rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                         original_max_position_embeddings=32),
)
MXFP4 = gguf.GGMLQuantizationType.MXFP4
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm", "mlp.router": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
}
WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def stored_name(name):
    if name in WHOLE:
        return WHOLE[name]
    _, _, layer, rest = name.split(".", 3)
    if rest == "self_attn.sinks":
        return f"blk.{layer}.attn_sinks.weight"
    place, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{NAMES[place]}.{kind}"


def write_gguf(tensors):
    """`tensors`: name as elsewhere, experts without their number, and (numbers or blocks, type)."""
    writer = gguf.GGUFWriter(HERE / "model.gguf", "gpt-oss")
    writer.add_type("model")
    writer.add_name("random")
    writer.add_block_count(CONFIG.num_hidden_layers)
    writer.add_context_length(CONFIG.max_position_embeddings)
    writer.add_embedding_length(CONFIG.hidden_size)
    writer.add_feed_forward_length(CONFIG.intermediate_size)
    writer.add_head_count(CONFIG.num_attention_heads)
    writer.add_head_count_kv(CONFIG.num_key_value_heads)
    writer.add_rope_freq_base(CONFIG.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(CONFIG.rms_norm_eps)
    writer.add_expert_count(CONFIG.num_local_experts)
    writer.add_expert_used_count(CONFIG.num_experts_per_tok)
    writer.add_key_length(CONFIG.head_dim)
    writer.add_value_length(CONFIG.head_dim)
    writer.add_sliding_window(CONFIG.sliding_window)
    writer.add_expert_feed_forward_length(CONFIG.intermediate_size)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(CONFIG.rope_parameters["factor"])
    writer.add_rope_scaling_orig_ctx_len(CONFIG.rope_parameters["original_max_position_embeddings"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for name, (data, kind) in tensors.items():
        writer.add_tensor(stored_name(name), data, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def halves(blocks, rows):
    """Of GGUF's blocks [experts][rows][17 a block]: the scales, and bytes of neighbours where GGUF has numbers half a block apart."""
    experts = blocks.shape[0]
    each = blocks.reshape(experts, rows, -1, 17)
    codes = np.concatenate([each[..., 1:] & 15, each[..., 1:] >> 4], -1)
    return torch.from_numpy(codes[..., 0::2] | codes[..., 1::2] << 4), torch.from_numpy(each[..., 0].copy())


def experts_forward(experts):
    def forward(x, chosen, shares):
        out = torch.zeros_like(x)
        for expert in range(experts.num_experts):
            row, place = torch.where(chosen == expert)
            y = experts._apply_gate(rounded(x[row]) @ experts.gate_up_proj[expert] + experts.gate_up_proj_bias[expert])
            y = rounded(y) @ experts.down_proj[expert] + experts.down_proj_bias[expert]
            out = out.index_add(0, row, y * shares[row, place, None])
        return out

    return forward


def make_model():
    model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32).eval()
    stored, folder = {}, {}
    halve = lambda x: torch.from_numpy(np.asarray(x, np.float32)).to(torch.bfloat16)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("gate_up_proj", "down_proj")):
                experts, columns, rows = p.shape
                blocks = gguf.quants.quantize((0.08 * rng.standard_normal((experts, rows, columns))).astype(np.float32), MXFP4)
                p.copy_(torch.from_numpy(gguf.quants.dequantize(blocks, MXFP4)).transpose(1, 2))
                folder[f"{name}_blocks"], folder[f"{name}_scales"] = halves(blocks, rows)
                if name.endswith("down_proj"):
                    stored[f"{name}.weight"] = blocks, "MXFP4"
                else:
                    stored[name.replace("gate_up", "gate") + ".weight"] = blocks[:, 0::2], "MXFP4"
                    stored[name.replace("gate_up", "up") + ".weight"] = blocks[:, 1::2], "MXFP4"
                continue
            gain = 0.08 if p.dim() == 2 and "bias" not in name else 0.3 if "norm" not in name else 0.2
            p.copy_(halve(("norm" in name) + gain * rng.standard_normal(p.shape)).float())
    model.lm_head.weight.data *= 4
    for module in model.modules():
        if type(module).__name__ == "GptOssExperts":
            module.forward = experts_forward(module)
    tokens = torch.from_numpy(rng.integers(0, CONFIG.vocab_size, 80))
    part_choices(model, [tokens])
    for name, p in model.named_parameters():
        if name.endswith(("gate_up_proj", "down_proj")):
            continue
        folder[name] = p.detach().to(torch.bfloat16).contiguous()
        kind = "BF16" if name in WHOLE and p.dim() == 2 or name.endswith("_proj.weight") else "F32"
        data = gguf.quants.quantize(p.detach().numpy(), gguf.GGMLQuantizationType[kind])
        if name.endswith("gate_up_proj_bias"):
            for part, at in (("gate", 0), ("up", 1)):
                stored[name.replace("gate_up_proj_bias", f"{part}_proj.bias")] = np.ascontiguousarray(data[:, at::2]), kind
        else:
            stored[name.replace("down_proj_bias", "down_proj.bias")] = data, kind
    write_gguf(stored)
    (HERE / "folder").mkdir(exist_ok=True)
    save_file(folder, HERE / "folder/model.safetensors", {"format": "pt"})
    config = CONFIG.to_diff_dict() | {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}
    config["quantization_config"] = {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"],
    }
    (HERE / "folder/config.json").write_text(json.dumps(config, indent=1) + "\n")
    return model, tokens


record(HERE, *make_model())
