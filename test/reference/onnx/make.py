"""Remakes the folders beside it: tiny random decoders exported by others' tools, and what PyTorch computes on them.

Made with torch 2.13.0, transformers 4.57.6, optimum 2.1.0, optimum-onnx 0.1.0, onnx 1.23.2.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from optimum.exporters.onnx import main_export
from tokenizers import BertWordPieceTokenizer
from transformers import (AutoConfig, AutoModelForCausalLM, BertConfig, BertForSequenceClassification, BertModel,
                          BertTokenizerFast, GenerationConfig)

HERE = Path(__file__).parent
TOKENIZER = HERE.parents[2] / "models" / "tiny"
VOCAB = 704
PROMPTS = [[300, 41, 77, 12, 500], [9, 8, 7, 6, 5, 4, 3, 300, 301, 302, 303, 304], [640]]
SIZES = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=256,
             bos_token_id=None, eos_token_id=2, pad_token_id=0)


def random_model(kind, **more):
    torch.manual_seed(7)
    config = AutoConfig.for_model(kind, **{**SIZES, **more})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    # As initialised, every token would be nearly as likely as any other.
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() > 1:
                value.mul_(12 if "embed" not in name else 20)
    return model


def expected(model, folder):
    cases = []
    for prompt in PROMPTS:
        tokens = list(prompt)
        with torch.no_grad():
            for _ in range(70):
                tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
            logprobs = torch.log_softmax(model(torch.tensor([tokens])).logits[0].double(), -1)
        chosen = [float(logprobs[i, token]) for i, token in enumerate(tokens[1:])]
        cases.append({"prompt": prompt, "tokens": tokens[len(prompt):], "logprobs": [round(x, 6) for x in chosen]})
    (folder / "expected.json").write_text(json.dumps(cases) + "\n")


def with_text(folder):
    for name in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(TOKENIZER / name, folder / name)
    for name in ["special_tokens_map.json", "generation_config.json", "chat_template.jinja"]:
        (folder / name).unlink(missing_ok=True)


def by_optimum(name, kind, **more):
    """optimum's own export: model.onnx in the folder itself."""
    source, folder = HERE / "source", HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model = random_model(kind, **more)
    model.generation_config = GenerationConfig(eos_token_id=2, pad_token_id=0)
    model.save_pretrained(source)
    for text in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(TOKENIZER / text, source / text)
    main_export(str(source), output=folder, task="text-generation-with-past", do_validation=False)
    expected(model, folder)
    with_text(folder)
    shutil.rmtree(source)


def grouped(name, positions):
    """A Llama as the exporters for ONNX Runtime write it: GroupQueryAttention, which turns queries and keys itself."""
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "onnx").mkdir(parents=True)
    # Heads that turn in this operator are a multiple of 16 wide.
    model = random_model("llama", num_attention_heads=4, num_key_value_heads=2, hidden_size=64, intermediate_size=48,
                         tie_word_embeddings=False)
    c = model.config
    head = c.hidden_size // c.num_attention_heads
    weights = {k: v.detach().numpy() for k, v in model.state_dict().items()}
    nodes, constants = [], {}

    def const(key, value):
        constants[key] = np.ascontiguousarray(value)
        return key

    def op(kind, inputs, outputs=1, domain="", **attributes):
        made = [f"{kind}_{len(nodes)}_{i}" for i in range(outputs)]
        nodes.append(helper.make_node(kind, inputs, made, domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    one = const("one", np.array([1], np.int64))
    lengths = op("Sub", [op("ReduceSum", ["attention_mask", one]), one])
    seqlens = op("Cast", [op("Squeeze", [lengths, one])], to=TensorProto.INT32)
    total = op("Cast", [op("Gather", [op("Shape", ["attention_mask"]), const("one_scalar", np.array(1, np.int64))])],
               to=TensorProto.INT32)
    angles = np.outer(np.arange(c.max_position_embeddings), 1 / c.rope_theta ** (np.arange(0, head, 2) / head))
    cos, sin = const("cos", np.cos(angles).astype(np.float32)), const("sin", np.sin(angles).astype(np.float32))

    def norm(x, key):
        return op("SimplifiedLayerNormalization", [x, const(key, weights[key])], epsilon=c.rms_norm_eps, axis=-1)

    def linear(x, key):
        return op("MatMul", [x, const(key, weights[key].T)])

    x = op("Gather", [const("embed", weights["model.embed_tokens.weight"]), "input_ids"])
    caches_in, caches_out = [], []
    for layer in range(c.num_hidden_layers):
        at = f"model.layers.{layer}."
        h = norm(x, at + "input_layernorm.weight")
        q, k, v = (linear(h, f"{at}self_attn.{p}_proj.weight") for p in "qkv")
        pasts = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        attributes = dict(num_heads=4, kv_num_heads=2)
        rest = [*pasts, seqlens, total]
        if positions:
            q = op("RotaryEmbedding", [q, "position_ids", cos, sin], domain="com.microsoft", num_heads=4)
            k = op("RotaryEmbedding", [k, "position_ids", cos, sin], domain="com.microsoft", num_heads=2)
        else:
            attributes["do_rotary"] = 1
            rest += [cos, sin]
        a, key, value = op("GroupQueryAttention", [q, k, v, *rest], 3, domain="com.microsoft", **attributes)
        for part, made, past in zip(("key", "value"), (key, value), pasts):
            name_out = f"present.{layer}.{part}"
            nodes.append(helper.make_node("Identity", [made], [name_out]))
            caches_in.append(helper.make_tensor_value_info(past, TensorProto.FLOAT, ["batch", 2, "past", head]))
            caches_out.append(helper.make_tensor_value_info(name_out, TensorProto.FLOAT, ["batch", 2, "total", head]))
        x = op("Add", [x, linear(a, at + "self_attn.o_proj.weight")])
        h = norm(x, at + "post_attention_layernorm.weight")
        gate, up = linear(h, at + "mlp.gate_proj.weight"), linear(h, at + "mlp.up_proj.weight")
        x = op("Add", [x, linear(op("Mul", [op("Mul", [gate, op("Sigmoid", [gate])]), up]), at + "mlp.down_proj.weight")])
    h = norm(x, "model.norm.weight")
    # The last tokens only, as many as asked for.
    if positions:
        start = op("Unsqueeze", [op("Neg", ["num_logits_to_keep"]), const("zero", np.array([0], np.int64))])
        h = op("Slice", [h, start, const("end", np.array([2**31], np.int64)), one])
    nodes.append(helper.make_node("MatMul", [h, const("lm_head", weights["lm_head.weight"].T)], ["logits"]))
    long = lambda key, shape: helper.make_tensor_value_info(key, TensorProto.INT64, shape)
    inputs = [long("input_ids", ["batch", "tokens"]), long("attention_mask", ["batch", "total"])]
    if positions:
        inputs += [long("position_ids", ["batch", "tokens"]), long("num_logits_to_keep", [])]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "kept", VOCAB])
    graph = helper.make_graph(nodes, "decoder", inputs + caches_in, [logits] + caches_out,
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "onnx" / "model.onnx")
    c.save_pretrained(folder)
    expected(model, folder)
    with_text(folder)


TEXTS = ["hello world", "The quick brown fox, jumping.", "", "Caf\u00e9 na\u00efve \u00c5ngstr\u00f6m", "\u4f60\u597d world",
         "tabs\tand\nlines\u00a0\u200b", "unbelievable!!! (3.14) [SEP] x", "\U0001f600 ok", "word " * 60]
PAIRS = [["what is 3 + 4?", "seven"], ["hello", "the quick brown fox " * 12], ["caf\u00e9", ""]]


def word_pieces(folder):
    """BERT's own tokenizer over a vocabulary of a few texts."""
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(TEXTS + sum(PAIRS, []), vocab_size=200, min_frequency=1, show_progress=False)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_model(str(folder))
    made = BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), do_lower_case=True, model_max_length=32)
    made.save_pretrained(folder)
    (folder / "vocab.txt").unlink()
    return made


def encoder(name, task, **more):
    source, folder = HERE / "source", HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(source, ignore_errors=True)
    tokenizer = word_pieces(source)
    torch.manual_seed(11)
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=48, max_position_embeddings=32, **more)
    kind = BertForSequenceClassification if task == "text-classification" else BertModel
    model = kind(config).eval()
    with torch.no_grad():
        for key, value in model.named_parameters():
            if value.dim() > 1:
                value.mul_(8)
    model.save_pretrained(source)
    main_export(str(source), output=folder, task=task, do_validation=False)
    inputs = TEXTS if task == "feature-extraction" else TEXTS + PAIRS
    cases = []
    for text in inputs:
        pair = (text, None) if isinstance(text, str) else tuple(text)
        encoded = tokenizer(*pair, return_tensors="pt", truncation="longest_first" if pair[1] is None else "only_second")
        with torch.no_grad():
            out = model(**encoded)
        case = {"text": text, "ids": encoded["input_ids"][0].tolist()}
        if task == "feature-extraction":
            h = out.last_hidden_state[0]
            for pooling, vector in [("mean", h.mean(0)), ("cls", h[0]), ("last", h[-1])]:
                case[pooling] = [round(float(x), 6) for x in vector]
        else:
            case["logits"] = [round(float(x), 6) for x in out.logits[0]]
        cases.append(case)
    (folder / "expected.json").write_text(json.dumps(cases) + "\n")
    shutil.rmtree(source)


def counting():
    """A classifier without a network: it counts the tokens of the embedded model's tokenizer that are digits."""
    folder = HERE / "digits"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    vocabulary = json.loads((TOKENIZER / "tokenizer.json").read_text())["model"]["vocab"]
    table = np.zeros((VOCAB, 1), np.float32)
    for token, index in vocabulary.items():
        table[index] = sum(letter.isdigit() for letter in token)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["values"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["values", "column"], ["counted"]),
        helper.make_node("ReduceSum", ["counted", "one"], ["logits"], keepdims=0),
    ]
    constants = {"table": table, "last": np.array([-1], np.int64), "one": np.array([1], np.int64)}
    long = lambda key: helper.make_tensor_value_info(key, TensorProto.INT64, ["batch", "tokens"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])
    graph = helper.make_graph(nodes, "digits", [long("input_ids"), long("attention_mask")], [logits],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "id2label": {"0": "digits"}}) + "\n")
    shutil.copy(TOKENIZER / "tokenizer.json", folder / "tokenizer.json")


if __name__ == "__main__":
    by_optimum("gpt_neox", "gpt_neox", intermediate_size=48, tie_word_embeddings=False)
    by_optimum("llama", "llama", num_key_value_heads=2, intermediate_size=48, tie_word_embeddings=True)
    by_optimum("opt", "opt", ffn_dim=48, word_embed_proj_dim=32)
    by_optimum("bloom", "bloom")
    grouped("grouped", positions=False)
    grouped("grouped_positions", positions=True)
    encoder("bert", "feature-extraction")
    encoder("bert_reward", "text-classification", num_labels=1)
    encoder("bert_classes", "text-classification", num_labels=3, id2label={0: "bad", 1: "fair", 2: "good"},
            label2id={"bad": 0, "fair": 1, "good": 2})
    counting()
