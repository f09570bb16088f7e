"""GGUF files of Qwen3.5 models with experts: python make.py, with gguf 0.19, torch 2.13, transformers 5.24 and peft 0.21.

bfloat16.gguf is ../models/qwen3_5_moe_tower without what it sees with, whose expected.safetensors holds for it. It has one key
head, so its value heads stand in one order everywhere.

model.gguf is a Qwen3.5 MoE of random weights, its matrices of other types from layer to layer; expected.json what transformers
and peft compute with its dequantised weights in float32: logprobs of a text, and the gradients of an adapter on attention and the
delta rule by the mean cross-entropy of the text. `rounded.` are those with the input of every quantised product rounded to 8 bits by
the absolute maximum of each 32 numbers (and, backward, as if it had not been). Heads of values are 32 wide: where blocks of ssm_out
are larger, the order of its columns cannot be changed in codes; it is a product of floats, whose input is not rounded. `least_lead` is
what ../models/README.md says.

What differs from the model's own tensors, as converters write them:
- value heads of the delta rule stand by their place within a key head, and not by key head: rows of attn_gate, ssm_alpha, ssm_beta,
  ssm_a, ssm_dt.bias, of attn_qkv and ssm_conv1d those after queries and keys, and columns of ssm_out;
- ssm_a is -exp(A_log);
- norms hold what they multiply by, 1 + weight, except ssm_norm, which does anyway;
- ssm_conv1d lacks the middle dimension, ffn_gate_inp_shexp the first;
- there is no feed_forward_length; widths of value heads are ssm.inner_size / ssm.time_step_rank.
"""
import json
import pathlib
import sys
import types

import gguf
import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
sys.path[:0] = [str(MODELS), str(HERE.parent)]
import blocks  # noqa: E402
from make import FAMILY_TARGETS, PARTED, Choices, part_choices  # noqa: E402

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
rng = np.random.default_rng(18)

CONFIG = AutoConfig.for_model(
    "qwen3_5_moe_text", hidden_size=256, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
    vocab_size=96, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=64,
    linear_conv_kernel_dim=4, linear_key_head_dim=32, linear_value_head_dim=32, linear_num_key_heads=2, linear_num_value_heads=8,
    full_attention_interval=3, rms_norm_eps=1e-6, max_position_embeddings=256, tie_word_embeddings=True,
    rope_parameters=dict(rope_type="default", rope_theta=10000000.0, partial_rotary_factor=0.25, mrope_interleaved=True,
                         mrope_section=[2, 1, 1]),
    attn_implementation="eager", experts_implementation="eager",
)
# By the last part of a tensor's name; of the shared expert's, with "shared" before.
TYPES = [
    {"in_proj_qkv": "Q4_K", "in_proj_z": "Q5_K", "in_proj_b": "Q8_0", "in_proj_a": "Q8_0", "out_proj": "Q8_0", "gate_proj": "Q4_K",
     "up_proj": "Q4_K", "down_proj": "Q8_0", "shared gate_proj": "Q8_0", "shared up_proj": "Q5_1", "shared down_proj": "Q8_0"},
    {"in_proj_qkv": "Q6_K", "in_proj_z": "Q4_0", "in_proj_b": "F32", "in_proj_a": "F32", "out_proj": "Q6_K", "gate_proj": "Q4_1",
     "up_proj": "Q6_K", "down_proj": "Q4_0", "shared gate_proj": "Q4_K", "shared up_proj": "Q6_K", "shared down_proj": "Q5_0"},
    {"q_proj": "Q5_K", "k_proj": "Q4_1", "v_proj": "Q8_0", "o_proj": "Q4_0", "gate_proj": "Q6_K", "up_proj": "Q5_K",
     "down_proj": "Q5_0", "shared gate_proj": "Q5_K", "shared up_proj": "Q4_0", "shared down_proj": "Q4_1"},
]
RANK, ALPHA, ADAPTER_SEED = 2, 4, 1

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm", "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.out_proj": "ssm_out",
    "linear_attn.norm": "ssm_norm", "linear_attn.conv1d": "ssm_conv1d", "mlp.gate": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp",
}
WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
BARE = {"linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias"}

def stored_name(name):
    if name in WHOLE:
        return WHOLE[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}." + (BARE.get(rest) or f"{NAMES[rest.removesuffix('.weight')]}.weight")


def value_order(name, config):
    """A dimension of a tensor, and which of the model's indices stands at each of the file's: None where both are the same."""
    if ".linear_attn." not in name or name.endswith("linear_attn.norm.weight"):
        return None
    keys, values = config.linear_num_key_heads, config.linear_num_value_heads
    part = name.split(".linear_attn.")[1].removesuffix(".weight")
    width = 1 if part in ("in_proj_b", "in_proj_a", "A_log", "dt_bias") else config.linear_value_head_dim
    heads = torch.arange(values).reshape(keys, values // keys).T.reshape(-1, 1)
    order = (heads * width + torch.arange(width)).flatten()
    if part in ("in_proj_qkv", "conv1d"):
        before = 2 * keys * config.linear_key_head_dim
        order = torch.cat([torch.arange(before), before + order])
    return (1 if part == "out_proj" else 0), order


def stored_numbers(name, value, config):
    """Of the model's numbers, the file's."""
    if place := value_order(name, config):
        value = value.index_select(*place)
    if name.endswith("A_log"):
        return -value.exp()
    if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
        return value + 1
    return value.squeeze() if "conv1d" in name or "shared_expert_gate" in name else value


def read_numbers(name, data, kind, shape, config):
    """Of the file's, the model's, where they are quantised or F32 matrices."""
    value = torch.from_numpy(gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])).reshape(shape)
    if place := value_order(name, config):
        value = value.index_select(place[0], place[1].argsort())
    return value


def write(file, config, tensors, add_more=lambda writer: None, further=0):
    """`tensors`: name as in the model, experts without their number, and (numbers or blocks, type). `further`: layers of a
    further token's head."""
    has_experts = config.model_type == "qwen3_5_moe_text"
    writer = gguf.GGUFWriter(file, "qwen35moe" if has_experts else "qwen35")
    rope = config.rope_parameters
    writer.add_type("model")
    writer.add_name("random")
    writer.add_block_count(config.num_hidden_layers + further)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_sections([*rope["mrope_section"], 0])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if has_experts:
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    if has_experts:
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_ssm_time_step_rank(config.linear_num_value_heads)
    writer.add_ssm_inner_size(config.linear_value_head_dim * config.linear_num_value_heads)
    writer.add_full_attention_interval(1 + config.layer_types.index("full_attention"))
    writer.add_rope_dimension_count(int(config.head_dim * rope["partial_rotary_factor"]))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    add_more(writer)
    for name, (data, kind) in tensors.items():
        writer.add_tensor(stored_name(name), data, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def is_float(name):
    return any(part in name for part in ("norm.weight", "mlp.gate.", "shared_expert_gate", "conv1d", "A_log", "dt_bias"))


def blocks_of(value, kind):
    return gguf.quants.quantize(value.contiguous().float().numpy(), gguf.GGMLQuantizationType[kind])


def make_bfloat16():
    folder = MODELS / "qwen3_5_moe_tower"
    config, tensors = AutoConfig.from_pretrained(folder).text_config, {}
    for name, value in load_file(folder / "model.safetensors").items():
        name = name.replace("language_model.", "")
        if name.startswith(("mtp.", "model.visual.")):
            continue
        kind = "F32" if is_float(name) else "BF16"
        if name.endswith("gate_up_proj"):
            for part, half in zip(("gate_proj", "up_proj"), value.chunk(2, 1)):
                tensors[name.replace("gate_up_proj", part)] = (blocks_of(half, kind), kind)
        else:
            tensors[name] = (blocks_of(stored_numbers(name, value.float(), config), kind), kind)
    write(HERE / "bfloat16.gguf", config, tensors)


rounding = types.SimpleNamespace(on=True)


def rounded(x):
    return blocks.rounded(x) if rounding.on else x


def is_code(name, kind, config):
    """Whether a matrix of a model that is read is quantised."""
    numbers, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return kind != "F32" and (not name.endswith("out_proj.weight") or config.linear_value_head_dim % numbers == 0)


def round_inputs(model, kinds):
    """`kinds`: types by name."""
    for name, module in model.named_modules():
        weight = "model.embed_tokens.weight" if name == "lm_head" and model.config.tie_word_embeddings else f"{name}.weight"
        if isinstance(module, torch.nn.Linear) and is_code(weight, kinds.get(weight, "F32"), model.config):
            module.forward = lambda x, linear=module: rounded(x) @ linear.weight.T
        elif type(module).__name__ == "Qwen3_5MoeExperts":
            module.forward = blocks.experts_forward(module, rounded)


def random_float(name, p):
    """Numbers that bfloat16 holds."""
    x = torch.from_numpy(rng.standard_normal(tuple(p.shape))).float()
    if name.endswith("A_log"):  # some heads forget within a token, some remember hundreds
        x = torch.from_numpy(rng.uniform(np.log(0.005), np.log(2.0), tuple(p.shape))).float()
    elif name.endswith("linear_attn.norm.weight"):
        x = 1 + 0.2 * x
    elif "conv1d" in name:
        x = 0.5 * x
    else:
        x = (0.2 if "norm" in name else 0.3 if "dt_bias" in name else 0.08) * x
    return x.to(torch.bfloat16).float()


def make_model():
    model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32).eval()
    tensors, kinds = {}, {}

    def fill(name, kind, shape):
        kinds[name] = kind
        if kind == "F32":
            data = random_float(name, torch.empty(shape)).numpy()
        else:
            data = blocks.quantized(rng, kind, *shape)
        tensors[name] = (data, kind)
        return read_numbers(name, data, kind, shape, CONFIG)

    with torch.no_grad():
        for name, p in model.named_parameters():
            if name == "model.embed_tokens.weight":
                p.copy_(fill(name, "Q6_K", tuple(p.shape)))
                continue
            if is_float(name):
                p.copy_(random_float(name, p))
                continue
            types = TYPES[int(name.split(".")[2])]
            part = name.removesuffix(".weight").split(".")[-1]
            if part == "gate_up_proj":
                half = p.shape[0], p.shape[1] // 2, p.shape[2]
                p.copy_(torch.cat([fill(name.replace(part, each), types[each], half) for each in ("gate_proj", "up_proj")], 1))
            else:
                p.copy_(fill(name, types[f"shared {part}" if "shared_expert." in name else part], tuple(p.shape)))
    round_inputs(model, kinds)
    tokens = torch.from_numpy(rng.integers(0, CONFIG.vocab_size, 80))
    part_choices(model, [tokens], **PARTED[CONFIG.model_type])
    for name, p in model.named_parameters():
        if is_float(name):
            tensors[name] = (stored_numbers(name, p.detach(), CONFIG).contiguous().numpy(), "F32")
    write(HERE / "model.gguf", CONFIG, tensors)
    return model, tokens


def make_expected(folder, model, tokens, **facts):
    blob, places, choices, lead = [], {}, Choices(model), {}

    def keep(name, tensor):
        places[name] = [sum(map(len, blob)), list(tensor.shape)]
        blob.append(np.asarray(tensor.detach(), "<f4").ravel())

    def passes():
        for rounding.on, kind in ((False, ""), (True, "rounded.")):
            yield kind

    def logprobs(model, name):
        result = model(tokens[None]).logits[0, :-1].log_softmax(-1).gather(1, tokens[1:, None])[:, 0]
        keep(name, result)
        lead[name] = choices.taken()[1]
        return result

    for kind in passes():
        logprobs(model, f"{kind}logprobs")
    targets = FAMILY_TARGETS[model.config.model_type]
    lora = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, lora_dropout=0.0, bias="none"))
    torch.manual_seed(ADAPTER_SEED)
    trained = {name.replace(".default", ""): p for name, p in lora.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for name, p in trained.items():
            p.copy_(0.1 * torch.randn_like(p))
            keep(name, p)
    for kind in passes():
        lora.zero_grad()
        adapted = logprobs(lora, f"{kind}adapted.logprobs")
        (-adapted.mean()).backward()
        for name, p in trained.items():
            keep(f"{kind}gradient.{name}", p.grad)
        print(kind, "loss", -adapted.mean().item())
    np.concatenate(blob).tofile(folder / "expected.f32")
    if any(share < 1 for share in lead.values()):
        facts["least_lead"] = lead
    facts = {"tokens": tokens.tolist(), "rank": RANK, "alpha": ALPHA, **facts, "tensors": places}
    (folder / "expected.json").write_text(json.dumps(facts, indent=1) + "\n")
    print("leads", lead)


if __name__ == "__main__":
    make_bfloat16()
    make_expected(HERE, *make_model())
