"""Whole training jobs recomputed step by step in PyTorch, from the requests as clients send them.

    python make.py        # torch 2.13, transformers 5.23, peft 0.21, tokenizers

Reads ../models/qwen3 (weights and a peft adapter, both taken as float32) and writes beside itself: a byte-level tokenizer
with a chat template, the requests (rl.json, sft.json) and, per job, the adapter that three optimizer steps make of the
adapter they start from (expected_*.safetensors), with the losses and gradient norms on the way (expected.json).
Of ../models/gpt_oss, whose attention has sinks and windows, the same of reinforcement learning in gpt_oss/.
"""
import copy, hashlib, itertools, json, math, os
import torch
from peft import PeftModel
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
VOCABULARIES = {"qwen3": 384, "gpt_oss": 82}
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def write(name, value):
    with open(os.path.join(HERE, name), "w") as file:
        json.dump(value, file, indent=1)
        file.write("\n")


def make_tokenizer(folder, vocabulary):
    """Of a small vocabulary, the first letters only."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())[:vocabulary - 3]
    vocab = {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2}
    vocab.update({letter: index + 3 for index, letter in enumerate(alphabet)})
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in list(vocab)[:3]])
    os.makedirs(os.path.join(HERE, folder), exist_ok=True)
    tokenizer.save(os.path.join(HERE, folder, "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    write(os.path.join(folder, "tokenizer_config.json"), config)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")
    fast.chat_template = TEMPLATE
    return fast


def load(name="qwen3"):
    folder = os.path.join(HERE, "..", "models", name)
    experts = {"experts_implementation": "eager"} if name == "gpt_oss" else {}
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **experts)
    return PeftModel.from_pretrained(base, os.path.join(folder, "adapter"), is_trainable=True).eval()


def token_values(model, tokens, temperatures=None):
    """Entry i: log-probability of token i after those before it, and the entropy there; the first are 0. `temperatures[i]`
    divides the logits that predict token i."""
    logits = model(torch.tensor([tokens])).logits[0].float()
    if temperatures is not None:
        logits = logits / torch.tensor(temperatures + temperatures[:1])[1:, None]
    logs = torch.log_softmax(logits[:-1], -1)
    chosen = logs[torch.arange(len(tokens) - 1), torch.tensor(tokens[1:])]
    return torch.cat([torch.zeros(1), chosen]), torch.cat([torch.zeros(1), -(logs.exp() * logs).sum(-1)])


def token_logprobs(model, tokens, temperatures=None):
    return token_values(model, tokens, temperatures)[0]


# --- reinforcement learning ------------------------------------------------------------------------------------------


def make_groups(model, vocabulary):
    generator = torch.Generator().manual_seed(20)

    def ids(count):
        return torch.randint(3, vocabulary, (count,), generator=generator).tolist()

    def choice(prompt, count):
        sampled = ids(count)
        with torch.no_grad():
            logs = token_logprobs(model, prompt + sampled)[len(prompt):]
        noisy = (logs + 0.4 * torch.randn(count, generator=generator)).clamp(max=-1e-3)
        content = [{"token": f"token_id:{i}", "logprob": round(float(value), 6)} for i, value in zip(sampled, noisy)]
        message = {"role": "assistant", "content": "-"}
        return {"index": 0, "finish_reason": "stop", "message": message, "logprobs": {"content": content},
                "prompt_token_ids": prompt, "token_ids": sampled}

    user = {"role": "user", "content": "-"}

    def trajectory(reward, *choices, more=()):
        items = [item for one in choices for item in (user, one)]
        result = {"messages_and_choices": items, "reward": reward}
        if more:
            result["additional_histories"] = [{"messages_and_choices": [user, one]} for one in more]
        return result

    one, two, three = ids(30), ids(17), ids(80)
    first = choice(two, 6)
    second = choice(two + first["token_ids"] + ids(5), 7)
    return [
        {"trajectories": [trajectory(r, choice(one, n)) for r, n in ((1, 5), (0, 9), (0.5, 3), (0.2, 12))]},
        {"trajectories": [trajectory(0.9, first, second), trajectory(-0.4, choice(two, 8), more=[choice(ids(11), 4)]),
                          trajectory(0.1, choice(two, 10))]},
        {"trajectories": [trajectory(r, choice(three, n)) for r, n in ((0.3, 5), (0.1, 10), (0.2, 5))]},
    ]


def at_temperatures(model, groups, generator):
    """The same groups, their choices sampled at temperatures: each entry also says the (noisy) logprob at its own."""
    temperatures = itertools.cycle([0.6, 1.3, 1, 0.85])
    groups = copy.deepcopy(groups)
    for trajectory in (trajectory for group in groups for trajectory in group["trajectories"]):
        for history in [trajectory, *trajectory.get("additional_histories", [])]:
            for choice in (item for item in history["messages_and_choices"] if "message" in item):
                temperature = next(temperatures)
                if temperature == 1:
                    continue
                prompt, sampled = choice["prompt_token_ids"], choice["token_ids"]
                with torch.no_grad():
                    tokens = prompt + sampled
                    logs = token_logprobs(model, tokens, [float(temperature)] * len(tokens))[len(prompt):]
                noisy = (logs + 0.4 * torch.randn(len(sampled), generator=generator)).clamp(max=-1e-3)
                choice["sampling_settings"] = {"temperature": temperature}
                for entry, value in zip(choice["logprobs"]["content"], noisy):
                    entry["temperature_logprob"] = round(float(value), 6)
    return groups


def rows_of(trajectory):
    """Choices in order over the histories; one whose prompt continues the row so far extends it."""
    rows = []
    for history in [trajectory, *trajectory.get("additional_histories", [])]:
        for item in history["messages_and_choices"]:
            if "message" not in item:
                continue
            prompt = item["prompt_token_ids"]
            if not rows or prompt[:len(rows[-1]["tokens"])] != rows[-1]["tokens"]:
                rows.append({"tokens": [], "trained": [], "sampled": [], "temperatures": []})
            row = rows[-1]
            context = prompt[len(row["tokens"]):]
            row["tokens"] += context + item["token_ids"]
            row["trained"] += [0] * len(context) + [1] * len(item["token_ids"])
            entries, temperature = item["logprobs"]["content"], item.get("sampling_settings", {}).get("temperature", 1)
            field = "logprob" if temperature == 1 else "temperature_logprob"
            row["sampled"] += [0.0] * len(context) + [entry[field] for entry in entries]
            row["temperatures"] += [1.0] * len(context) + [float(temperature)] * len(entries)
    return rows


def plan(groups, config):
    """Per group its rows with final advantage and weight (all in double precision)."""
    units = []
    for group in groups:
        rewards = torch.tensor([t["reward"] for t in group["trajectories"]], dtype=torch.float64)
        advantages = rewards - rewards.mean()
        kept = advantages.abs() > 1e-9
        if config.get("scale_rewards", True):
            advantages = advantages / (rewards.std(unbiased=False) + 1e-6)
        unit = []
        for trajectory, advantage, keep in zip(group["trajectories"], advantages.tolist(), kept.tolist()):
            if not keep:
                continue
            rows = rows_of(trajectory)
            weight = 1 / (sum(sum(row["trained"]) for row in rows) + 1e-6)
            unit += [{**row, "advantage": advantage, "weight": weight} for row in rows]
        units.append(unit)
    every = [(row, sum(row["trained"])) for unit in units for row in unit]
    tokens = sum(count for _, count in every)
    scale = sum(row["weight"] * count for row, count in every) / tokens
    balance = config.get("advantage_balance", 0)
    for row, _ in every:
        row["weight"] /= scale
        if balance > 0 and row["advantage"] <= 0:
            row["advantage"] *= 1 - balance
        if balance < 0 and row["advantage"] >= 0:
            row["advantage"] *= 1 + balance
    size = sum(abs(row["advantage"]) * row["weight"] * count for row, count in every) / tokens
    for row, _ in every:
        row["advantage"] /= size
    return units


def policy_loss(model, unit, config, start):
    new, entropy, old, original, reference, advantage, weight, segment = [], [], [], [], [], [], [], []
    for index, row in enumerate(unit):
        trained = torch.tensor(row["trained"]).bool()
        count = int(trained.sum())
        logprobs, entropies = token_values(model, row["tokens"], row["temperatures"])
        new.append(logprobs[trained])
        entropy.append(entropies[trained])
        sampled = torch.tensor(row["sampled"])[trained]
        original.append(sampled)
        old.append(row["start"][trained] if start else sampled)
        with torch.no_grad(), model.disable_adapter():
            reference.append(token_logprobs(model, row["tokens"], row["temperatures"])[trained])
        advantage.append(torch.full((count,), row["advantage"]))
        weight.append(torch.full((count,), row["weight"]))
        segment.append(torch.full((count,), index))
    new, entropy, old, original, reference, advantage, weight, segment = map(
        torch.cat, (new, entropy, old, original, reference, advantage, weight, segment))
    difference = new - old
    rho = difference.exp()
    if config.get("importance_sampling_level", "token") == "sequence":
        means = torch.stack([difference[segment == s].mean() for s in range(int(segment.max()) + 1)])
        rho = means[segment].exp()
    ppo = config.get("ppo", False)
    low = 1 - config.get("epsilon", 0.2 if ppo else 1.0)
    high = 1 + config.get("epsilon_high", config.get("epsilon", 0.2) if ppo else 4.0)
    if config.get("kimi_k2_tau"):
        advantage = advantage - config["kimi_k2_tau"] * difference.detach()
    if config.get("kl_penalty_coef"):
        k = new.detach() - reference  # source "current_learner"
        advantage = advantage + config["kl_penalty_coef"] * (k.mean() - k)
    if ppo:
        loss = -torch.minimum(rho * advantage, rho.clamp(low, high) * advantage)
    else:
        loss = -rho.clamp(low, high).detach() * advantage * new
    if config.get("truncated_importance_sampling"):
        ratio = (old - original).exp() if start else rho
        loss = loss * ratio.detach().clamp(max=config["truncated_importance_sampling"])
    loss = loss - config.get("entropy_coef", 0) * entropy
    return (loss * weight).sum() / len(new)


# --- supervised ------------------------------------------------------------------------------------------------------

CONVERSATIONS = [
    [("user", "Hi."), ("assistant", "Hello, who is there?"), ("user", "Me."), ("assistant", "Good.")],
    [("system", "Be brief."), ("user", "2 + 3?"), ("assistant", "5")],
    [("user", "Say naïve."), ("assistant", "naïve")],
    [("user", "a"), ("assistant", "b"), ("tool", "c"), ("assistant", "d")],
    [("user", "The last one stands alone in its batch."), ("assistant", "Yes.")],
]
SFT = {"batch_size": 2, "learning_rate": [2e-3, 1e-3, 5e-4]}


def sft_row(tokenizer, conversation):
    messages = [{"role": role, "content": content} for role, content in conversation]

    def render(count, open_turn):
        return tokenizer.apply_chat_template(messages[:count], tokenize=False, add_generation_prompt=open_turn)

    tokens, trained = [], []
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        prompt = tokenizer.encode(render(index, True), add_special_tokens=False)
        whole = tokenizer.encode(render(index + 1, False), add_special_tokens=False)
        trained += [0] * (len(prompt) - len(trained))
        turn = whole[len(prompt):]
        end = turn.index(tokenizer.eos_token_id) + 1
        trained += [1] * end + [0] * (len(turn) - end)
        tokens = whole
    return {"messages": messages, "tokens": tokens, "trained": trained}


def sft_loss(model, rows):
    logs = [token_logprobs(model, row["tokens"])[torch.tensor(row["trained"]).bool()] for row in rows]
    return -torch.cat(logs).mean()


def shuffled(seed, count, order_of):
    """As the engine shuffles: Fisher and Yates' exchanges, each drawn from a hash of what it is for."""
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        text = json.dumps([str(seed), "order", order_of, i], separators=(",", ":"))
        j = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order


SFT_EPOCHS = {"batch_size": 2, "num_epochs": 2, "shuffle": True, "seed": 5, "validation_ratio": 0.3, "keep_best": False,
              "learning_rate": 2e-3, "learning_rate_schedule": "cosine", "warmup_ratio": 0.25}


def sft_epochs_job(rows):
    model, config = load(), SFT_EPOCHS
    held_out = set(shuffled(config["seed"], len(rows), "validation")[:max(1, math.floor(config["validation_ratio"] * len(rows)))])
    trained = [row for i, row in enumerate(rows) if i not in held_out]
    kept = [row for i, row in enumerate(rows) if i in held_out]
    batches = []
    for epoch in range(config["num_epochs"]):
        order = shuffled(config["seed"], len(trained), epoch)
        batches += [[trained[i] for i in order[at:at + 2]] for at in range(0, len(order), 2)]
    validations = []

    def loss_of(index):
        if index % (len(batches) // config["num_epochs"]) == 0:
            validations.append(float(sft_loss(model, kept).detach()))
        return sft_loss(model, batches[index])

    report = train(model, [lambda index=index: loss_of(index) for index in range(len(batches))], scheduled(config, len(batches)), 0.0, 1.0)
    validations.append(float(sft_loss(model, kept).detach()))
    return {**report, "validation": validations[1:]}, adapter_of(model)


# --- jobs ------------------------------------------------------------------------------------------------------------


def train(model, losses, rates, decay, clip):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, betas=(0.9, 0.99), eps=1e-8, weight_decay=decay)
    report = {"loss": [], "grad_norm": []}
    for compute, rate in zip(losses, rates):
        optimizer.zero_grad()
        loss = compute()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        report["loss"].append(float(loss.detach()))
        report["grad_norm"].append(float(norm))
    return report


def adapter_of(model):
    return {name.replace(".default", ""): p.detach().clone().contiguous()
            for name, p in model.named_parameters() if "lora_" in name}


def scheduled(config, steps):
    """A rise over a share of the steps, then constant, or falling to 0 in a line or a half cosine."""
    peak, kind = config["learning_rate"], config.get("learning_rate_schedule", "constant")
    warmup = math.floor(config.get("warmup_ratio", 0) * steps)
    rates = [peak * (step + 1) / warmup for step in range(warmup)]
    for step in range(steps - warmup):
        progress = step / (steps - warmup - 1) if steps - warmup > 1 else 0
        rates.append(peak * {"constant": 1, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}[kind])
    return rates


def rl_job(name, groups, config):
    model = load(name)
    units = plan(groups, config)
    start = config.get("precalculate_logprobs", False)
    if start:
        with torch.no_grad():
            for row in (row for unit in units for row in unit):
                row["start"] = token_logprobs(model, row["tokens"], row["temperatures"])
    losses = [lambda unit=unit: policy_loss(model, unit, config, start) for unit in units]
    rates = scheduled(config, len(units))
    return train(model, losses, rates, 0.1, 0.1), adapter_of(model)


def rl_jobs(name, folder, chosen=None):
    """Requests and their outcomes in `folder`; of `chosen` configurations, where given."""
    groups = make_groups(load(name), VOCABULARIES[name])
    settings = {
        "default": {"learning_rate": 1e-3},
        "sequence_ppo": {"learning_rate": 1e-3, "ppo": True, "epsilon": 0.3, "epsilon_high": 0.5,
                         "importance_sampling_level": "sequence", "scale_rewards": False, "advantage_balance": 0.25,
                         "kimi_k2_tau": 0.05},
        "corrected": {"learning_rate": 1e-3, "precalculate_logprobs": True, "truncated_importance_sampling": 1.2,
                      "kl_penalty_coef": 0.1, "kl_penalty_source": "current_learner"},
        "bonus": {"learning_rate": 1e-3, "entropy_coef": 0.1, "learning_rate_schedule": "linear", "warmup_ratio": 0.67},
    }
    tempered = at_temperatures(load(name), groups, torch.Generator().manual_seed(21))
    at_temperature = {
        "tempered": {"learning_rate": 2e-3, "learning_rate_schedule": "cosine"},
        "tempered_bonus": {"learning_rate": 1e-3, "entropy_coef": 0.3, "truncated_importance_sampling": 1.5,
                           "kl_penalty_coef": 0.1, "kl_penalty_source": "current_learner"},
    }
    expected = {}
    for file, requests, configs in (("rl.json", groups, settings), ("rl_tempered.json", tempered, at_temperature)):
        configs = {key: config for key, config in configs.items() if chosen is None or key in chosen}
        write(os.path.join(folder, file), {"groups": requests, "configs": configs})
        for key, config in configs.items():
            expected[key], adapter = rl_job(name, requests, config)
            save_file(adapter, os.path.join(HERE, folder, f"expected_{key}.safetensors"))
    return expected


def main():
    make_tokenizer("gpt_oss/tokenizer", VOCABULARIES["gpt_oss"])
    write("gpt_oss/expected.json", rl_jobs("gpt_oss", "gpt_oss", ["default", "sequence_ppo", "tempered_bonus"]))
    tokenizer = make_tokenizer("tokenizer", VOCABULARIES["qwen3"])
    expected = rl_jobs("qwen3", "")
    rows = [sft_row(tokenizer, conversation) for conversation in CONVERSATIONS]
    write("sft.json", {"config": SFT, "conversations": [{"messages": row["messages"]} for row in rows]})
    model = load()
    size = SFT["batch_size"]
    batches = [rows[i:i + size] for i in range(0, len(rows), size)]
    losses = [lambda batch=batch: sft_loss(model, batch) for batch in batches]
    expected["sft"] = train(model, losses, SFT["learning_rate"], 0.0, 1.0)
    save_file(adapter_of(model), os.path.join(HERE, "expected_sft.safetensors"))
    write("sft_epochs.json", SFT_EPOCHS)
    expected["sft_epochs"], adapter = sft_epochs_job(rows)
    save_file(adapter, os.path.join(HERE, "expected_sft_epochs.safetensors"))
    write("expected.json", expected)


main()
