"""Folders of families that `--shape` does not know, with random weights, for `npm run bench -- --model`: family_folders.py FOLDER NAME...

Needs torch and transformers. Shapes of published models; those named "-cut" have fewer layers or a smaller vocabulary than theirs, so that
PyTorch in float32 fits 16 GiB.
"""
import sys

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

SHAPES = {
    "gemma-3-1b": ("gemma3_text", {
        "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26, "num_attention_heads": 4,
        "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144, "sliding_window": 512,
    }),
    "gemma-4-e2b-cut": ("gemma4_text", {
        "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 15, "num_attention_heads": 8,
        "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "vocab_size": 65536,
        "vocab_size_per_layer_input": 65536, "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 5,
        "sliding_window": 512, "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 3,
    }),
    "granite-3.1-1b-a400m": ("granitemoe", {
        "hidden_size": 1024, "intermediate_size": 512, "num_hidden_layers": 24, "num_attention_heads": 16,
        "num_key_value_heads": 8, "vocab_size": 49155, "num_local_experts": 32, "num_experts_per_tok": 8,
        "embedding_multiplier": 12.0, "logits_scaling": 6.0, "residual_multiplier": 0.22,
        "attention_multiplier": 0.015625,
    }),
    "lfm2-350m": ("lfm2", {
        "hidden_size": 1024, "block_ff_dim": 6656, "num_hidden_layers": 16, "num_attention_heads": 16,
        "num_key_value_heads": 8, "vocab_size": 65536,
        "layer_types": ["full_attention" if layer in (2, 5, 8, 10, 12, 14) else "conv" for layer in range(16)],
    }),
    "lfm2-8b-a1b-cut": ("lfm2_moe", {
        "hidden_size": 2048, "intermediate_size": 7168, "moe_intermediate_size": 1792, "num_hidden_layers": 6,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536, "num_experts": 32,
        "num_experts_per_tok": 4, "num_dense_layers": 2, "layer_types": ["conv", "conv", "full_attention"] * 2,
    }),
    "qwen3.5-0.8b": ("qwen3_5_text", {
        "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 248320, "linear_num_key_heads": 16,
        "linear_num_value_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    }),
}


def make(folder, name):
    kind, values = SHAPES[name]
    config = CONFIG_MAPPING[kind](**values, tie_word_embeddings=True, max_position_embeddings=8192)
    config.dtype = torch.bfloat16
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    # Buffers that a config makes, as frequencies, are made again where the folder is loaded.
    model = model.to(torch.bfloat16).to_empty(device="cpu")
    model.tie_weights()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.02)
            else:
                parameter.fill_(1 if "norm" in parameter_name else 0.01)
        for buffer in model.buffers():
            buffer.fill_(1)
    model.save_pretrained(f"{folder}/{name}")
    print(name, f"{sum(parameter.numel() for parameter in model.parameters()) / 1e6:.0f} million weights")


if len(sys.argv) < 3 or any(name not in SHAPES for name in sys.argv[2:]):
    sys.exit(f"family_folders.py FOLDER NAME..., of {', '.join(SHAPES)}")
for name in sys.argv[2:]:
    make(sys.argv[1], name)
