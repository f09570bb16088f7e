"""PyTorch, transformers and peft as a program that is measured: torch_peer.py FOLDER THREADS [DEVICE [TYPE]]."""
import copy
import json
import os
import resource
import sys
import time

import peft
import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.cache_utils import DynamicLayer

folder, threads = sys.argv[1], int(sys.argv[2])
device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
kind = sys.argv[4] if len(sys.argv) > 4 else "bfloat16"
if device == "cuda" and not torch.cuda.is_available():
    sys.exit(f"error: torch {torch.__version__} finds no GPU")
torch.set_num_threads(threads)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, kind), attn_implementation="sdpa").to(device).eval()
vocabulary = model.config.vocab_size
trained = None
kept = None  # the prompts of the latest work, which its next run goes on from again
# An error in place of a machine without memory.
if device == "cpu":
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    resource.setrlimit(resource.RLIMIT_DATA, (int(0.6 * memory),) * 2)


def now():
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def spread(count, salt):
    return [((((i + 1) * 2654435761) & 0xFFFFFFFF) + (salt + 1) * 40503 & 0xFFFFFFFF) % vocabulary for i in range(count)]


def decode(work):
    global kept
    began = now()
    count, context, tokens = work["count"], work["context"], work["tokens"]
    with torch.inference_mode():
        if kept is None or kept[0] != work:
            kept = None
            prompts = torch.tensor([spread(context, 0 if work["shared"] else i) for i in range(count)]).to(device)
            out = model(prompts, use_cache=True, logits_to_keep=1)
            kept = work, out.past_key_values, out.logits[:, -1:].argmax(-1)
        _, cache, ids = kept
        # Recurrent states and sliding windows cannot be cropped.
        if all(type(layer) is DynamicLayer for layer in cache.layers):
            further = cache.get_seq_length() - context
            if further > 0:
                cache.crop(-further)
        else:
            cache = copy.deepcopy(cache)
        start = now()
        for _ in range(tokens):
            out = model(ids, past_key_values=cache, use_cache=True)
            cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
        end = now()
    return {"seconds": end - start, "share": (end - start) / (end - began)}


def prefill(work):
    global kept
    kept = None
    prompt = torch.tensor([spread(work["context"], 0)]).to(device)
    with torch.inference_mode():
        start = now()
        model(prompt, use_cache=True, logits_to_keep=1)
        return {"seconds": now() - start}


def adapted(work):
    global kept, trained
    kept = None
    if trained is None:
        targets = ["q_proj", "k_proj", "v_proj", "o_proj"]
        if not hasattr(model.config, "num_experts_per_tok"):
            targets += ["gate_proj", "up_proj", "down_proj"]
        found = {name.split(".")[-1] for name, _ in model.named_modules()}
        if not found.issuperset(targets):
            targets = "all-linear"
        config = peft.LoraConfig(r=work["rank"], lora_alpha=2 * work["rank"], target_modules=targets)
        wrapped = peft.get_peft_model(model, config).train()
        parameters = [p for p in wrapped.parameters() if p.requires_grad]
        trained = wrapped, parameters, torch.optim.AdamW(parameters, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1)
    return trained


def lora(work):
    wrapped, parameters, optimizer = adapted(work)
    rows = torch.tensor([spread(work["context"], i) for i in range(work["count"])]).to(device)
    # Without it a row of some thousand tokens takes tens of GB.
    (wrapped.gradient_checkpointing_enable if work["context"] > 1024 else wrapped.gradient_checkpointing_disable)()
    start = now()
    wrapped(input_ids=rows, labels=rows).loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 0.1)
    optimizer.step()
    optimizer.zero_grad()
    return {"seconds": now() - start}


def rl(work):
    wrapped, parameters, optimizer = adapted(work)
    groups, count, context, tokens = work["groups"], work["count"], work["context"], work["tokens"]
    wrapped.gradient_checkpointing_disable()
    start = now()
    rows = []
    at_once = max(1, 256 // count)  # prompts
    for first in range(0, groups, at_once):
        prompts = torch.tensor([spread(context, i) for i in range(first, min(groups, first + at_once))]).to(device)
        with torch.inference_mode():
            rows.append(
                wrapped.generate(
                    input_ids=prompts, attention_mask=torch.ones_like(prompts), do_sample=True, temperature=1.0, top_k=0,
                    num_return_sequences=count, min_new_tokens=tokens, max_new_tokens=tokens, pad_token_id=0,
                )
            )
    rows = torch.cat(rows).clone()
    wrapped.gradient_checkpointing_enable()
    scale = 1 / (groups * count * tokens)
    for first in range(0, len(rows), 16):
        some = rows[first : first + 16]
        logits = wrapped(input_ids=some, logits_to_keep=tokens + 1).logits[:, :-1]
        logprobs = torch.gather(logits.float().log_softmax(-1), 2, some[:, context:, None])[..., 0]
        signs = torch.tensor([-1.0 if (first + i) % count % 2 == 0 else 1.0 for i in range(len(some))], device=device)
        (scale * signs[:, None] * logprobs).sum().backward()
    torch.nn.utils.clip_grad_norm_(parameters, 0.1)
    optimizer.step()
    optimizer.zero_grad()
    return {"seconds": now() - start}


def answer(value):
    print("@" + json.dumps(value), flush=True)


version = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}"
answer({"version": version, "kinds": ["decode", "prefill", "lora", "rl"], "note": f"{kind}, sdpa"})
for line in sys.stdin:
    work = json.loads(line)
    try:
        answer({"decode": decode, "prefill": prefill, "lora": lora, "rl": rl}[work["kind"]](work))
    except Exception as error:  # an answer, whatever it is
        answer({"error": repr(error)})
