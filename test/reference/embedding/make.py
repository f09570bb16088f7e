"""Remakes `model` (a tiny random Qwen3 encoder in the layout of sentence-transformers) and `expected.json`: what transformers
computes on it. Made with torch 2.13, transformers 5.23, tokenizers 0.23, float32, one thread."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3Model

here = Path(__file__).parent
folder = here / "model"
torch.manual_seed(5)
torch.set_num_threads(1)

alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
vocab = {character: i for i, character in enumerate(alphabet)}
vocab["Ġt"], vocab["he"] = 256, 257
tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[("Ġ", "t"), ("h", "e")]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens(["<|endoftext|>"])
end = tokenizer.token_to_id("<|endoftext|>")
# As Qwen3-Embedding's: every text ends in the token whose state is read.
tokenizer.post_processor = processors.Sequence(
    [
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", end)]),
    ]
)
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>")
fast.save_pretrained(folder)

config = Qwen3Config(
    vocab_size=len(fast), hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, max_position_embeddings=512, rope_theta=1e6, tie_word_embeddings=True,
    initializer_range=0.2, eos_token_id=end, bos_token_id=end,
)
model = Qwen3Model(config).eval()
for name, parameter in model.named_parameters():
    if "norm" in name:
        torch.nn.init.uniform_(parameter, 0.5, 1.5)
model.save_pretrained(folder)

st = "sentence_transformers.models"
(folder / "modules.json").write_text(json.dumps([
    {"idx": 0, "name": "0", "path": "", "type": f"{st}.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{st}.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{st}.Normalize"},
], indent=2))
(folder / "1_Pooling").mkdir(exist_ok=True)
modes = ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
(folder / "1_Pooling" / "config.json").write_text(json.dumps(
    {"word_embedding_dimension": 64} | {f"pooling_mode_{mode}": mode == "lasttoken" for mode in modes}
    | {"include_prompt": True}, indent=2))

texts = ["The capital of Norway is Oslo.", "a", "Ünïcödé, 日本語 and 🙂", "x" * 300, "the the the"]
model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
expected = []
for text in texts:
    ids = fast(text)["input_ids"]
    with torch.no_grad():
        states = model(torch.tensor([ids])).last_hidden_state[0]
    expected.append({
        "text": text, "ids": ids, "last": states[-1].tolist(), "mean": states.mean(0).tolist(), "cls": states[0].tolist(),
    })
(here / "expected.json").write_text(json.dumps(expected))
