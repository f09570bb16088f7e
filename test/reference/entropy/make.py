"""Logprobs, entropies and gradients at temperatures, from PyTorch in float64, on models of ../models.

    python make.py OUT        # torch 2.13, transformers 5.23, peft 0.21, safetensors

OUT/CASE.safetensors holds, per row r of ../models/CASE (entry t predicts token t + 1): `row{r}.temperatures`, `row{r}.logprobs`,
`row{r}.entropies` of softmax(logits / temperature), `row{r}.by_logprob` and `row{r}.by_entropy`; then `lora_grad.*` and `grad.*`
(some of the weights), the gradients of sum(by_logprob * logprob + by_entropy * entropy), `entropy_grad.*` of the second half alone.
"""
import os, sys
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
HERE = os.path.dirname(os.path.abspath(__file__))
CASES = ["llama", "qwen3", "gemma2"]  # a head of its own, a tied one, and one whose logits are capped
WEIGHTS = ("embed_tokens", "lm_head", "model.norm", "layers.0.self_attn.q_proj", "layers.1.mlp.down_proj")
TEMPERATURES = [0.5, 1.0, 1.7, 0.85]


def values(model, row, temperatures):
    logp = (model(row[None]).logits[0, :-1] / temperatures[:, None]).log_softmax(-1)
    return logp.gather(1, row[1:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def main(out):
    os.makedirs(out, exist_ok=True)
    for case in CASES:
        folder = os.path.join(HERE, "..", "models", case)
        expected = load_file(os.path.join(folder, "expected.safetensors"))
        rows = [expected[f"row{r}.tokens"].long() for r in range(3)]
        tensors, settings, first = {}, [], 0
        for r, row in enumerate(rows):
            t = torch.arange(first, first + len(row) - 1, dtype=torch.float64)
            first += len(row) - 1
            # As float32 has them: the same numbers go into ours.
            settings.append([x.float().double() for x in (torch.tensor(TEMPERATURES, dtype=torch.float64)[t.long() % 4], torch.sin(1 + 3 * t) / 100, torch.cos(2 * t) / 100)])
            for name, x in zip(("temperatures", "by_logprob", "by_entropy"), settings[-1]):
                tensors[f"row{r}.{name}"] = x.float()

        def loss(model, with_logprobs=True):
            total = 0
            for row, (temperatures, by_logprob, by_entropy) in zip(rows, settings):
                logprobs, entropies = values(model, row, temperatures)
                total = total + (by_entropy * entropies).sum() + (with_logprobs * by_logprob * logprobs).sum()
            return total

        load = lambda: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").double()
        model = load()
        loss(model).backward()
        for key, p in model.named_parameters():
            if any(part in key for part in WEIGHTS):
                tensors[f"grad.{key}"] = p.grad.float()
        lora = PeftModel.from_pretrained(load(), os.path.join(folder, "adapter"), is_trainable=True).double()
        short = lambda key: key.replace(".default", "")
        for prefix, with_logprobs in (("lora_grad", True), ("entropy_grad", False)):
            lora.zero_grad()
            loss(lora, with_logprobs).backward()
            for key, p in lora.named_parameters():
                if p.requires_grad:
                    tensors[f"{prefix}.{short(key)}"] = p.grad.float()
        with torch.no_grad():
            for r, row in enumerate(rows):
                for name, x in zip(("logprobs", "entropies"), values(lora, row, settings[r][0])):
                    tensors[f"row{r}.{name}"] = x.float()
        save_file({key: x.detach().contiguous().clone() for key, x in tensors.items()}, os.path.join(out, f"{case}.safetensors"))


if __name__ == "__main__":
    main(sys.argv[1])
