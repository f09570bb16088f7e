"""PyTorch, transformers and peft as a program that is measured: torch_peer.py FOLDER THREADS."""
import json
import os
import resource
import sys
import time

import peft
import torch
import transformers
from transformers import AutoModelForCausalLM

folder, threads = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(threads)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
vocabulary = model.config.vocab_size
trained = None
kept = None  # the prompts of the latest work, which its next run goes on from again
# An error in place of a machine without memory.
memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
resource.setrlimit(resource.RLIMIT_DATA, (int(0.6 * memory),) * 2)


def spread(count, salt):
    return [((((i + 1) * 2654435761) & 0xFFFFFFFF) + (salt + 1) * 40503 & 0xFFFFFFFF) % vocabulary for i in range(count)]


def decode(work):
    global kept
    began = time.perf_counter()
    count, context, tokens = work["count"], work["context"], work["tokens"]
    with torch.inference_mode():
        if kept is None or kept[0] != work:
            kept = None
            prompts = torch.tensor([spread(context, 0 if work["shared"] else i) for i in range(count)])
            out = model(prompts, use_cache=True, logits_to_keep=1)
            kept = work, out.past_key_values, out.logits[:, -1:].argmax(-1)
        _, cache, ids = kept
        further = cache.get_seq_length() - context
        if further > 0:
            cache.crop(-further)
        start = time.perf_counter()
        for _ in range(tokens):
            out = model(ids, past_key_values=cache, use_cache=True)
            cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
        end = time.perf_counter()
    return {"seconds": end - start, "share": (end - start) / (end - began)}


def prefill(work):
    global kept
    kept = None
    prompt = torch.tensor([spread(work["context"], 0)])
    with torch.inference_mode():
        start = time.perf_counter()
        model(prompt, use_cache=True, logits_to_keep=1)
        return {"seconds": time.perf_counter() - start}


def lora(work):
    global kept, trained
    kept = None
    if trained is None:
        targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        config = peft.LoraConfig(r=work["rank"], lora_alpha=2 * work["rank"], target_modules=targets)
        wrapped = peft.get_peft_model(model, config).train()
        parameters = [p for p in wrapped.parameters() if p.requires_grad]
        trained = wrapped, parameters, torch.optim.AdamW(parameters, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1)
    wrapped, parameters, optimizer = trained
    rows = torch.tensor([spread(work["context"], i) for i in range(work["count"])])
    # Without it a row of some thousand tokens takes tens of GB.
    (wrapped.gradient_checkpointing_enable if work["context"] > 1024 else wrapped.gradient_checkpointing_disable)()
    start = time.perf_counter()
    wrapped(input_ids=rows, labels=rows).loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 0.1)
    optimizer.step()
    optimizer.zero_grad()
    return {"seconds": time.perf_counter() - start}


def answer(value):
    print("@" + json.dumps(value), flush=True)


version = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}"
answer({"version": version, "kinds": ["decode", "prefill", "lora"], "note": "bfloat16, sdpa"})
for line in sys.stdin:
    work = json.loads(line)
    try:
        answer({"decode": decode, "prefill": prefill, "lora": lora}[work["kind"]](work))
    except Exception as error:  # an answer, whatever it is
        answer({"error": repr(error)})
