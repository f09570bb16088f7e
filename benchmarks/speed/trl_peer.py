"""TRL's GRPO on the demo's task as a program that is measured: trl_peer.py FOLDER THREADS WORDS, JSON of training and held-out words."""
import json
import os
import sys
import tempfile
import time

folder, threads, words = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
os.environ.update(OMP_NUM_THREADS=str(threads), HF_HUB_OFFLINE="1", WANDB_DISABLED="true", TOKENIZERS_PARALLELISM="false")

import torch
import transformers
import trl
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

torch.set_num_threads(threads)
tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")


def task(word):
    return [{"role": "user", "content": f'Spell "{word}" backwards, one word.'}]


def reward(completions, word, **_):
    return [float(one[0]["content"].strip() == right[::-1]) for one, right in zip(completions, word)]


def score(model):
    model.eval()
    torch.manual_seed(0)
    right = []
    for word in words["heldOut"]:
        ids = tokenizer.apply_chat_template(task(word), add_generation_prompt=True, return_tensors="pt", return_dict=True)
        with torch.inference_mode():
            out = model.generate(**ids, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, num_return_sequences=4, max_new_tokens=48)
        texts = tokenizer.batch_decode(out[:, ids["input_ids"].shape[1] :], skip_special_tokens=True)
        right += [float(text.strip() == word[::-1]) for text in texts]
    return sum(right) / len(right)


def run(work):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    before = score(model)
    batch = work["groups"] * work["group"]
    arguments = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        save_strategy="no",
        report_to=[],
        logging_steps=1000,
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        learning_rate=work["learningRate"],
        lr_scheduler_type="constant",
        max_steps=work["steps"],
        per_device_train_batch_size=batch,
        num_generations=work["group"],
        max_completion_length=48,
        temperature=1.0,
        beta=0.0,
        max_grad_norm=0.1,
        seed=1,
    )
    trainer = GRPOTrainer(
        model=model,
        args=arguments,
        reward_funcs=reward,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list([{"prompt": task(word), "word": word} for word in words["training"]]),
        peft_config=LoraConfig(
            r=8,
            lora_alpha=16,
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        ),
    )
    start = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "before": before, "after": score(trainer.model)}


def answer(value):
    print("@" + json.dumps(value), flush=True)


answer({"version": f"TRL {trl.__version__}, PyTorch {torch.__version__}", "kinds": ["loop"], "note": "float32, its own generation"})
for line in sys.stdin:
    try:
        answer(run(json.loads(line)))
    except Exception as error:  # an answer, whatever it is
        answer({"error": repr(error)})
