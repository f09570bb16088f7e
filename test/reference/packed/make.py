"""Quantised matrices as Hugging Face folders have them: python make.py, with compressed-tensors 0.20, transformers 5.23, torch 2.13
and safetensors.

compressed_tensors, gptq, gptq_v2, awq: Llamas of random weights, their matrices rounded to the nearest code of their scheme. The first
is packed by the compressed-tensors package. The others are packed here by the published layouts: GPTQ's QuantLinear (qweight
[k / 8][n] along k, qzeros [groups][n / 8] along n, in its first version less 1 in each code) and AutoAWQ's WQLinear_GEMM (qweight [k][n / 8],
qzeros [groups][n / 8], both along n in the order 0 2 4 6 1 3 5 7).

expected.json and expected.f32: for each, what transformers computes with the dequantised weights in float32, once with
the inputs of quantised matrices rounded to 8 bits by the absolute maximum of each 32 numbers (and, backward, as if they had not been),
once ("exact") without: logprobs of a text; with an adapter on all projections, logprobs and gradients of the mean cross-entropy.

matrices: raw tensors of single matrices of all schemes, with the float32 numbers that they stand for; cases.txt has a line for each: name,
packing, format, outputs, inputs, group, type of scales, type of zero points.
"""
import json
import pathlib
import shutil

import numpy as np
import torch
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent
rng = np.random.default_rng(17)
torch.manual_seed(17)


def rounded_to_codes(weight, bits, group, symmetric, scale_type):
    """codes [n][k] and zeros [n][groups], from 0 to 2^bits - 1; scales [n][groups]"""
    n, k = weight.shape
    group = k if group == -1 else group
    w = weight.reshape(n, k // group, group).float()
    top = 2**bits - 1
    middle = 2 ** (bits - 1)
    if symmetric:
        scale = w.abs().amax(-1) / (middle - 0.5)
        zeros = torch.full_like(scale, middle)
    else:
        low, high = w.amin(-1).clamp(max=0), w.amax(-1).clamp(min=0)
        scale = (high - low) / top
        zeros = torch.round(-low / scale).clamp(0, top)
    scale = scale.to(scale_type)
    codes = torch.round(w / scale.float()[..., None] + zeros[..., None]).clamp(0, top)
    return codes.reshape(n, k).to(torch.int32), zeros.to(torch.int32), scale


def dequantised(codes, zeros, scale):
    n, k = codes.shape
    groups = scale.shape[1]
    return ((codes.reshape(n, groups, -1) - zeros[..., None]).float() * scale.float()[..., None]).reshape(n, k)


def words(codes, bits, dim, order=None):
    per = 32 // bits
    codes = codes.numpy().astype(np.uint32)
    if dim == 0:
        codes = codes.T
    codes = codes.reshape(codes.shape[0], -1, per)
    if order:
        codes = codes[..., order]
    packed = np.bitwise_or.reduce(codes << (bits * np.arange(per, dtype=np.uint32)), axis=-1).astype(np.uint32)
    packed = packed.view(np.int32)
    return torch.from_numpy(np.ascontiguousarray(packed.T if dim == 0 else packed))


AWQ = [0, 2, 4, 6, 1, 3, 5, 7]


def packed(packing, codes, zeros, scale, bits, symmetric):
    middle = 2 ** (bits - 1)
    if packing == "compressed_tensors":
        tensors = {
            "weight_packed": pack_to_int32((codes - middle).to(torch.int8), bits),
            "weight_scale": scale,
            "weight_shape": torch.tensor(codes.shape),
        }
        if not symmetric:
            tensors["weight_zero_point"] = pack_to_int32((zeros - middle).to(torch.int8), bits, packed_dim=0)
        return tensors
    scales = scale.T.contiguous()
    if packing == "awq":
        return {"qweight": words(codes.T, bits, 1, AWQ), "qzeros": words(zeros.T, bits, 1, AWQ), "scales": scales}
    stored = words(zeros.T, bits, 1)
    if packing == "gptq":
        less = 0x11111111 if bits == 4 else 0x01010101
        stored = torch.from_numpy((stored.numpy().view(np.uint32) - np.uint32(less)).view(np.int32))
    group = codes.shape[1] // scale.shape[1]
    order = torch.arange(codes.shape[1], dtype=torch.int32) // group
    return {"qweight": words(codes.T, bits, 0), "qzeros": stored, "scales": scales, "g_idx": order}


def raw(tensor):
    return (tensor.view(torch.int16) if tensor.element_size() == 2 else tensor).numpy().tobytes()


def make_matrices():
    folder = HERE / "matrices"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    lines = []
    cases = [("compressed_tensors", bits, group, symmetric) for bits in (4, 8) for group in (32, 64, 128, -1) for symmetric in (True, False)]
    cases += [(p, bits, group, s) for p in ("gptq", "gptq_v2") for bits, group, s in ((4, 128, True), (4, 32, False), (8, 64, False), (8, -1, True))]
    cases += [("awq", 4, group, False) for group in (32, 64, 128)]
    for i, (packing, bits, group, symmetric) in enumerate(cases):
        n, k = 16, 256
        scale_type = (torch.float16, torch.bfloat16, torch.float32)[i % 3]
        weight = torch.from_numpy(rng.standard_normal((n, k)).astype(np.float32)) * 0.05
        codes, zeros, scale = rounded_to_codes(weight, bits, group, symmetric, scale_type)
        tensors = packed(packing, codes, zeros, scale, bits, symmetric)
        parts = [tensors.get(a, tensors.get(b)) for a, b in (("weight_packed", "qweight"), ("weight_scale", "scales"), ("weight_zero_point", "qzeros"))]
        for part, tensor in zip(("codes", "scales", "zeros"), parts):
            if tensor is not None:
                (folder / f"{i}.{part}").write_bytes(raw(tensor))
        (folder / f"{i}.f32").write_bytes(dequantised(codes, zeros, scale).numpy().astype("<f4").tobytes())
        group = k if group == -1 else group
        block = next(size for size in (128, 64, 32) if group % size == 0)
        types = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32"}[scale_type], "-" if parts[2] is None else "I32"
        lines.append(f"{i} {packing} INT{bits}_{block} {n} {k} {group} {types[0]} {types[1]}\n")
    # Zero points as older versions of compressed-tensors have them.
    codes, zeros, scale = rounded_to_codes(torch.randn(16, 256), 4, 64, False, torch.bfloat16)
    i = len(cases)
    (folder / f"{i}.codes").write_bytes(pack_to_int32((codes - 8).to(torch.int8), 4).numpy().tobytes())
    (folder / f"{i}.scales").write_bytes(raw(scale))
    (folder / f"{i}.zeros").write_bytes((zeros - 8).to(torch.int8).numpy().tobytes())
    (folder / f"{i}.f32").write_bytes(dequantised(codes, zeros, scale).numpy().astype("<f4").tobytes())
    lines.append(f"{i} compressed_tensors INT4_64 16 256 64 BF16 I8\n")
    (folder / "cases.txt").write_text("".join(lines))


HIDDEN, HEADS, KV_HEADS, MIDDLE, VOCAB = 128, 4, 2, 256, 264
RANK, ALPHA = 2, 4
MODULES = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
# By layer and module: bits, group, symmetric; None: left as floats.
SCHEMES = {
    "compressed_tensors": [
        [(4, 32, True), (4, 64, False), (8, 128, False), (8, -1, True), (4, -1, False), (4, 128, True), (4, 128, False)],
        [(8, 32, False), (8, 64, True), (4, -1, True), None, (8, -1, False), (4, 64, True), (4, -1, True)],
    ],
    "gptq": [
        [(4, 128, True), (4, 64, True), (4, 32, True), (8, 128, True), (4, 128, True), (8, 32, True), (4, 128, True)],
        [(4, 128, False), (4, 64, False), (4, -1, False), (8, 64, False), (4, 32, False), None, (4, -1, False)],
    ],
    "gptq_v2": [[(4, 128, False), (4, 64, False), (8, 32, False), (4, 32, True), (4, 128, False), (8, -1, False), (4, 64, False)]],
    "awq": [[(4, 128, False), (4, 64, False), (4, 32, False), (4, 128, False), (4, 64, False), None, (4, 128, False)]],
}


def quantization_config(packing, scales):
    if packing == "awq":
        return {"quant_method": "awq", "version": "gemm", "bits": 4, "group_size": 128, "zero_point": True, "modules_to_not_convert": ["up_proj"]}
    if packing != "compressed_tensors":
        return {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": packing == "gptq", "desc_act": True, "static_groups": True,
                "checkpoint_format": packing, "lm_head": False, "dynamic": {"+:.*": {}}}
    groups, ignore = {}, ["lm_head"]
    for layer, schemes in enumerate(SCHEMES[packing]):
        for module, scheme in zip(MODULES, schemes):
            name = f"model.layers.{layer}.{module}"
            if scheme is None:
                ignore.append(name)
                continue
            bits, group, symmetric = scheme
            groups[f"group_{len(groups)}"] = {
                "targets": [name], "input_activations": None, "output_activations": None,
                "weights": {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": "channel" if group == -1 else "group",
                            "group_size": None if group == -1 else group, "actorder": "weight" if layer == 0 else None, "dynamic": False},
            }
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
            "config_groups": groups, "ignore": ignore, "kv_cache_scheme": None, "sparsity_config": {}, "transform_config": {}}


def make_folder(packing):
    layers = SCHEMES[packing]
    tied = packing != "compressed_tensors"
    config = LlamaConfig(hidden_size=HIDDEN, intermediate_size=MIDDLE, num_hidden_layers=len(layers), num_attention_heads=HEADS,
                         num_key_value_heads=KV_HEADS, vocab_size=VOCAB, max_position_embeddings=512, rms_norm_eps=1e-5,
                         tie_word_embeddings=tied, bos_token_id=None, eos_token_id=258, pad_token_id=None)
    model = LlamaForCausalLM(config).float().eval()
    scale_type = torch.bfloat16 if packing == "compressed_tensors" else torch.float16
    tensors = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.08 if parameter.ndim == 2 else 0.2) + (0 if parameter.ndim == 2 else 1))
            parameter.copy_(parameter.to(scale_type).float())
            if not (tied and name == "lm_head.weight"):
                tensors[name] = parameter.to(scale_type)
        for layer, schemes in enumerate(layers):
            for module, scheme in zip(MODULES, schemes):
                if scheme is None:
                    continue
                name = f"model.layers.{layer}.{module}"
                weight = model.get_submodule(name).weight
                # A few large columns, as trained models have them.
                weight[:, 3] *= 3
                bits, group, symmetric = scheme
                codes, zeros, scale = rounded_to_codes(weight, bits, group, symmetric, scale_type)
                weight.copy_(dequantised(codes, zeros, scale))
                del tensors[f"{name}.weight"]
                for part, tensor in packed(packing, codes, zeros, scale, bits, symmetric).items():
                    tensors[f"{name}.{part}"] = tensor
                if packing == "gptq":  # as its older programs have them
                    tensors[f"{name}.bias"] = torch.zeros(weight.shape[0], dtype=scale_type)
    if packing == "compressed_tensors":
        tensors["model.layers.0.mlp.down_proj.weight_g_idx"] = torch.arange(MIDDLE, dtype=torch.int32) // 128
    folder = HERE / packing
    folder.mkdir(exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    told = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": str(scale_type).removeprefix("torch."),
            "rope_theta": 10000.0, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False}
    for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size",
                "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "eos_token_id"):
        told[key] = getattr(config, key)
    told["quantization_config"] = quantization_config(packing, scale_type)
    (folder / "config.json").write_text(json.dumps(told, indent=1) + "\n")
    return model


def rounded(x):
    groups = x.detach().reshape(*x.shape[:-1], -1, 32)
    most = groups.abs().amax(-1, keepdim=True)
    codes = torch.round(groups * torch.where(most > 1e-35, 127 / most, torch.zeros(())))
    return x + ((codes * (most / 127)).reshape(x.shape) - x.detach())


class Product(torch.nn.Module):
    def __init__(self, weight, rounds, a, b):
        super().__init__()
        self.weight, self.rounds, self.a, self.b = weight, rounds, a, b

    def forward(self, x):
        y = (rounded(x) if self.rounds and EXACT is False else x) @ self.weight.T
        return y if self.a is None or not ADAPTED else y + (ALPHA / RANK) * (x @ self.a.T) @ self.b.T


EXACT = ADAPTED = False


def make_expected():
    global EXACT, ADAPTED
    tokens = rng.integers(0, 256, 40).tolist()
    target = torch.tensor(tokens[1:])
    blob, places = [], {}

    def keep(name, tensor):
        places[name] = [sum(map(len, blob)), list(tensor.shape)]
        blob.append(np.asarray(tensor.detach(), "<f4").ravel())

    for packing, layers in SCHEMES.items():
        model = make_folder(packing)
        model.requires_grad_(False)
        adapter = {}
        for layer, schemes in enumerate(layers):
            for module, scheme in zip(MODULES, schemes):
                name = f"model.layers.{layer}.{module}"
                linear = model.get_submodule(name)
                n, k = linear.weight.shape
                a, b = (0.1 * torch.randn(RANK, k)).requires_grad_(), (0.1 * torch.randn(n, RANK)).requires_grad_()
                adapter[name] = (a, b)
                parent, _, child = name.rpartition(".")
                setattr(model.get_submodule(parent), child, Product(linear.weight, scheme is not None, a, b))

        def logprobs():
            return model(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1).gather(1, target[:, None])[:, 0]

        with torch.no_grad():
            for EXACT in (True, False):
                keep(f"{packing}.exact" if EXACT else f"{packing}.logprobs", logprobs())
        ADAPTED = True
        chosen = logprobs()
        (-chosen.mean()).backward()
        ADAPTED = False
        keep(f"{packing}.adapted", chosen)
        for name, pair in adapter.items():
            for part, tensor in zip(("lora_A", "lora_B"), pair):
                keep(f"{packing}.base_model.model.{name}.{part}.weight", tensor)
                keep(f"{packing}.gradient.base_model.model.{name}.{part}.weight", tensor.grad)
        print(packing, -chosen.mean().item())
    np.concatenate(blob).tofile(HERE / "expected.f32")
    facts = {"tokens": tokens, "rank": RANK, "alpha": ALPHA, "tensors": places}
    (HERE / "expected.json").write_text(json.dumps(facts) + "\n")


make_matrices()
make_expected()
