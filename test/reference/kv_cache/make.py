"""What a KV cache of 8 bits makes of the reference models: python make.py, with torch 2.13, transformers 5 and peft.

Of every case, with its adapter, in float32: keys (after norm and rope) and values of each position and head are rounded to the
nearest of 255 multiples of their absolute maximum / 127 (and, backward, as if they had not been); logprobs of row 0, and the
gradients of the adapter by the row's mean cross-entropy. expected.f32 holds the numbers, expected.json says where.
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AttentionInterface, AutoModelForCausalLM
from transformers.masking_utils import AttentionMaskInterface, eager_mask

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
CASES = ["qwen3", "gemma2", "ministral_odd"]


def rounded(x):
    most = x.detach().abs().amax(-1, keepdim=True)
    codes = torch.round(x.detach() * (127 / most))
    return x + (codes * (most / 127) - x.detach())


def attention(module, query, key, value, attention_mask, scaling, dropout=0.0, softcap=None, **_):
    groups = query.shape[1] // key.shape[1]
    key, value = (rounded(x).repeat_interleave(groups, dim=1) for x in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    probabilities = F.softmax(scores + attention_mask[:, :, :, : key.shape[2]], dim=-1)
    return (probabilities @ value).transpose(1, 2).contiguous(), probabilities


AttentionInterface.register("int8_kv", attention)
AttentionMaskInterface.register("int8_kv", eager_mask)

numbers, tensors, offset = [], {}, 0


def record(name, tensor):
    global offset
    data = tensor.detach().numpy().astype("<f4")
    tensors[name] = [offset, list(data.shape)]
    numbers.append(data.reshape(-1))
    offset += data.size


for case in CASES:
    tokens = load_file(MODELS / case / "expected.safetensors")["row0.tokens"].long()[None]
    model = AutoModelForCausalLM.from_pretrained(MODELS / case, dtype=torch.float32, attn_implementation="int8_kv")
    model = PeftModel.from_pretrained(model, MODELS / case / "adapter", is_trainable=True)
    logits = model(input_ids=tokens, use_cache=False).logits[0, :-1]
    logprobs = F.log_softmax(logits, dim=-1).gather(1, tokens[0, 1:, None])[:, 0]
    (-logprobs.mean()).backward()
    record(f"{case}.logprobs", logprobs)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            record(f"{case}.gradient.{name.replace('.default', '')}", parameter.grad)

np.concatenate(numbers).tofile(HERE / "expected.f32")
(HERE / "expected.json").write_text(json.dumps({"cases": CASES, "tensors": tensors}, separators=(",", ":")) + "\n")
