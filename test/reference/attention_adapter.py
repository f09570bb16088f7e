"""What the scripts that record GGUF models with experts have transformers and peft compute."""
import json
import pathlib
import sys

import numpy as np
import torch
from peft import LoraConfig, get_peft_model

sys.path.insert(0, str(pathlib.Path(__file__).parent / "models"))
from make import Choices  # noqa: E402

RANK, ALPHA = 2, 4


def record(folder, model, tokens):
    """Logprobs of a text, greedy tokens after it, and of an adapter on attention the logprobs and the gradients of its mean cross-entropy."""
    choices = Choices(model)
    target = tokens[1:, None]
    with torch.no_grad():
        logprobs = model(tokens[None]).logits[0, :-1].log_softmax(-1).gather(1, target)[:, 0]
        lead = {"rows": choices.taken()[1]}
        greedy, margins = tokens, []
        for _ in range(16):
            best = model(greedy[None]).logits[0, -1].topk(2)
            margins.append((best.values[0] - best.values[1]).item())
            greedy = torch.cat([greedy, best.indices[:1]])
    lead["greedy"] = choices.taken()[1]
    attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
    lora = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=attention, lora_dropout=0.0, bias="none"))
    torch.manual_seed(1)
    trained = {name.replace(".default", ""): p for name, p in lora.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for p in trained.values():
            p.copy_(0.1 * torch.randn_like(p))
    adapted = lora(tokens[None]).logits[0, :-1].log_softmax(-1).gather(1, target)[:, 0]
    lead["adapter"] = choices.taken()[1]
    (-adapted.mean()).backward()
    blob, places = [], {}

    def keep(name, tensor):
        places[name] = [sum(map(len, blob)), list(tensor.shape)]
        blob.append(np.asarray(tensor.detach(), "<f4").ravel())

    keep("logprobs", logprobs)
    keep("adapted.logprobs", adapted)
    for name, p in trained.items():
        keep(name, p)
        keep(f"gradient.{name}", p.grad)
    np.concatenate(blob).tofile(folder / "expected.f32")
    facts = {"tokens": tokens.tolist(), "greedy": greedy[len(tokens):].tolist(), "margins": margins, "least_lead": lead, "rank": RANK, "alpha": ALPHA, "tensors": places}
    (folder / "expected.json").write_text(json.dumps(facts, indent=1) + "\n")
    print("smallest margin", min(margins), "leads", lead, "loss", -adapted.mean().item(), -logprobs.mean().item())
