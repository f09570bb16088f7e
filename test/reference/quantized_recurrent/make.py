"""GGUF files of dense Qwen3.5 models: python make.py, with gguf 0.19, torch 2.13, transformers 5.24 and peft 0.21. What differs
from the model's own tensors, as converters write them, says ../quantized_shared_experts/make.py.

bfloat16.gguf is ../models/qwen3_5, whose expected.safetensors holds for it, with the head of a further token behind its layers,
of random weights: a layer with attention, counted in block_count, and what nextn is called.

model.gguf is a Qwen3.5 of random weights, its matrices of other types from layer to layer, with a tokenizer; expected.json what
../quantized_shared_experts/make.py says, with an adapter on all projections.

The tokenizer is transformers' of Qwen3.5 with a vocabulary of its own: its own ids of `texts`.
"""
import importlib.util
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, Qwen3_5Tokenizer

HERE = pathlib.Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("qwen35", HERE.parent / "quantized_shared_experts" / "make.py")
qwen35 = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(qwen35)

torch.manual_seed(20)
qwen35.rng = rng = np.random.default_rng(20)

CONFIG = AutoConfig.for_model(
    "qwen3_5_text", hidden_size=256, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
    vocab_size=384, intermediate_size=256, linear_conv_kernel_dim=4, linear_key_head_dim=32, linear_value_head_dim=32,
    linear_num_key_heads=2, linear_num_value_heads=8, full_attention_interval=4, rms_norm_eps=1e-6, max_position_embeddings=256,
    tie_word_embeddings=False,
    rope_parameters=dict(rope_type="default", rope_theta=10000000.0, partial_rotary_factor=0.25, mrope_interleaved=True,
                         mrope_section=[2, 1, 1]),
    attn_implementation="eager",
)
TYPES = [
    {"in_proj_qkv": "Q4_K", "in_proj_z": "Q5_K", "in_proj_b": "Q8_0", "in_proj_a": "Q8_0", "out_proj": "Q8_0",
     "gate_proj": "Q4_K", "up_proj": "Q4_0", "down_proj": "Q6_K"},
    {"in_proj_qkv": "Q6_K", "in_proj_z": "Q4_0", "in_proj_b": "F32", "in_proj_a": "F32", "out_proj": "Q6_K",
     "gate_proj": "Q4_1", "up_proj": "Q6_K", "down_proj": "Q5_0"},
    {"in_proj_qkv": "Q5_1", "in_proj_z": "Q8_0", "in_proj_b": "Q5_K", "in_proj_a": "Q4_1", "out_proj": "Q4_0",
     "gate_proj": "Q5_0", "up_proj": "Q5_1", "down_proj": "Q4_K"},
    {"q_proj": "Q5_K", "k_proj": "Q4_1", "v_proj": "Q8_0", "o_proj": "Q4_0", "gate_proj": "Q6_K", "up_proj": "Q5_K",
     "down_proj": "Q5_0"},
]
WHOLE = {"model.embed_tokens.weight": "Q6_K", "lm_head.weight": "Q4_K"}
FURTHER = {"eh_proj": 2, "enorm": 0, "hnorm": 0, "shared_head_norm": 0}  # columns, in widths of the model; 0: a vector

# Letters with marks of several scripts, that compose and that do not.
TEXT = """The river's bank, 42 km from here: it's wide. We'll see; I'D go THERE.
नमस्ते दुनिया, यह एक छोटा वाक्य है। हिन्दी में लिखा हुआ। हिन्दी हिन्दी।
สวัสดีครับ ผมชื่ออเล็กซ์ ครับ ที่นี่ น้ำ น้ำ
தமிழ் மொழி இனிது. தமிழ் தமிழ்
بِسْمِ اللَّهِ الرَّحْمَٰنِ الرَّحِيمِ
Cafe\u0301 re\u0301sume\u0301, a\u0323\u0302 x\u030c x\u030cy z\u0336z\u0336
你好，世界！今天是2026年8月13日 🎉  \t two  spaces\r\n\r\nlines\n\n  indented
"""
CASES = [
    "हिन्दी में नमस्ते!", "น้ำ ที่นี่ครับ", "தமிழ்", "الرَّحْمَٰنِ", "x\u030cy (x\u030c)", "(\u030c) \u0301 a\u0301", "Cafe\u0301", "\u0323a 1\u030c2",
    "We'll, I'D: it's 1234", "  two   spaces\n\n lines ", "你好，世界 🎉", "<|im_start|>user\nहिन्दी<|im_end|>", "_\u0301j -\u0301- \u0301\u0301",
]


def make_bfloat16():
    folder = qwen35.MODELS / "qwen3_5"
    config, tensors = AutoConfig.from_pretrained(folder), {}
    stored = {name: value for file in sorted(folder.glob("*.safetensors")) if file.name != "expected.safetensors"
              for name, value in load_file(file).items()}
    for name, value in stored.items():
        kind = "F32" if qwen35.is_float(name) else "BF16"
        tensors[name] = (qwen35.blocks_of(qwen35.stored_numbers(name, value.float(), config), kind), kind)
    layers, hidden = config.num_hidden_layers, config.hidden_size
    attending = f"model.layers.{config.layer_types.index('full_attention')}."
    for name in [name for name in tensors if name.startswith(attending)]:
        data, kind = tensors[name]
        tensors[f"model.layers.{layers}.{name.removeprefix(attending)}"] = (data, kind)

    def add_further(writer):
        writer.add_nextn_predict_layers(1)
        for name, columns in FURTHER.items():
            shape = (hidden, columns * hidden) if columns else (hidden,)
            writer.add_tensor(f"blk.{layers}.nextn.{name}.weight", rng.standard_normal(shape).astype(np.float32))

    qwen35.write(HERE / "bfloat16.gguf", config, tensors, add_further, further=1)


def make_tokenizer():
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trained = Qwen3_5Tokenizer().train_new_from_iterator(TEXT.splitlines(keepends=True) * 3, 370, new_special_tokens=special[1:])
    model = json.loads(trained.backend_tokenizer.to_str())["model"]
    # Special tokens last, as they are published.
    texts = [text for text, _ in sorted(model["vocab"].items(), key=lambda item: item[1]) if text not in special]
    tokenizer = Qwen3_5Tokenizer(
        vocab={text: i for i, text in enumerate(texts + special)}, merges=[tuple(merge) for merge in model["merges"]])
    tokenizer.add_special_tokens({"additional_special_tokens": special[1:]})
    return tokenizer, texts, special, [" ".join(merge) for merge in model["merges"]]


def make_model():
    config = CONFIG
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    tokenizer, texts, special, merges = make_tokenizer()

    def add_tokenizer(writer):
        padding = [f"[PAD{i}]" for i in range(len(texts) + len(special), config.vocab_size)]
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen35")
        writer.add_token_list(texts + special + padding)
        writer.add_token_types([1] * len(texts) + [3] * len(special) + [5] * len(padding))
        writer.add_token_merges(merges)
        writer.add_eos_token_id(len(texts) + 2)
        writer.add_pad_token_id(len(texts))
        writer.add_add_bos_token(False)
        writer.add_chat_template(
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n")

    tensors, kinds = {}, {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            part = name.removesuffix(".weight").split(".")[-1]
            kind = "F32" if qwen35.is_float(name) else WHOLE.get(name) or TYPES[int(name.split(".")[2])][part]
            if kind == "F32":
                p.copy_(qwen35.random_float(name, p))
                data = qwen35.stored_numbers(name, p.detach(), config).contiguous().numpy()
            else:
                data = qwen35.blocks.quantized(rng, kind, *p.shape)
                p.copy_(qwen35.read_numbers(name, data, kind, tuple(p.shape), config))
            tensors[name], kinds[name] = (data, kind), kind
    qwen35.round_inputs(model, kinds)
    qwen35.write(HERE / "model.gguf", config, tensors, add_tokenizer)
    texts = [{"text": text, "ids": tokenizer.encode(text)} for text in CASES]
    return model, torch.from_numpy(rng.integers(0, config.vocab_size, 80)), texts


make_bfloat16()
model, tokens, texts = make_model()
qwen35.make_expected(HERE, model, tokens, texts=texts)
