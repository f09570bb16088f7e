"""Makes cases.json: advantages and weights of random batches, computed with numpy in float64 and in a way of its own.

    python make.py > cases.json          (numpy 1.26 or later)

A batch is a list of groups, a group a list of [reward, trained tokens]. Expanded to one entry per trained token, as a
trainer's arrays are:

1. advantage = reward - mean of the group (population), 0 where it is within 1e-9 * max(1, largest |reward|) of the mean;
   divided by (population standard deviation + 1e-6) with scale_rewards. Trajectories with advantage 0 are left out.
2. weight = 1 / (trained tokens + 1e-6), divided by its mean over all tokens of the batch.
3. advantage_balance b: advantages <= 0 times 1 - b for b > 0, advantages >= 0 times 1 + b for b < 0.
4. advantages divided by the mean over all tokens of |advantage| * weight, unless that is 0.
"""

import json

import numpy as np

rng = np.random.default_rng(20261121)


def rewards(size: int) -> np.ndarray:
    kind = rng.integers(7)
    if kind == 0:
        return rng.integers(0, 2, size).astype(float)
    if kind == 1:
        return np.round(rng.normal(0, 1, size), 3)
    if kind == 2:  # all equal, often without an exact binary form
        return np.full(size, float(rng.choice([0.1, 0.3, -0.7, 1e6 / 3, 1e-12, 0.0])))
    if kind == 3:  # equal up to far less than the tolerance
        value = float(rng.choice([0.1, 1.0, 123456.789]))
        return value * (1 + 1e-12 * rng.integers(-1, 2, size))
    if kind == 4:  # different, if only just
        value = float(rng.choice([0.0, 1.0, 1000.0]))
        return value + max(1.0, value) * 1e-6 * rng.integers(0, 3, size)
    if kind == 5:  # one of them exactly at the mean
        step = float(rng.choice([0.1, 0.25, 3.0]))
        return step * np.array([(-1) ** i * ((i + 1) // 2) for i in range(size if size % 2 else size + 1)], float)[:size]
    return rng.normal(0, 10.0 ** rng.integers(-3, 7), size)


def expected(groups: list, scale: bool, balance: float) -> list:
    kept, advantages, weights, tokens = [], [], [], []
    for g, group in enumerate(groups):
        values = np.array([reward for reward, _ in group])
        centred = values - values.mean()
        centred[np.abs(centred) <= 1e-9 * max(1.0, np.abs(values).max())] = 0.0
        if scale:
            centred = centred / (values.std() + 1e-6)
        for t, (advantage, (_, count)) in enumerate(zip(centred, group)):
            if advantage == 0:
                continue
            kept.append([g, t])
            advantages.append(np.full(count, advantage))
            weights.append(np.full(count, 1 / (count + 1e-6)))
            tokens.append(count)
    if not kept:
        return []
    a, w = np.concatenate(advantages), np.concatenate(weights)
    w = w / w.mean()
    if balance > 0:
        a = np.where(a <= 0, a * (1 - balance), a)
    elif balance < 0:
        a = np.where(a >= 0, a * (1 + balance), a)
    size = (np.abs(a) * w).mean()
    if size > 0:
        a = a / size
    firsts = np.concatenate([[0], np.cumsum(tokens)[:-1]])
    return [[g, t, float(a[i]), float(w[i])] for (g, t), i in zip(kept, firsts)]


cases = []
for _ in range(300):
    groups = []
    for _ in range(rng.integers(1, 5)):
        size = int(rng.integers(1, 7))
        groups.append([[float(r), int(rng.integers(1, 60))] for r in rewards(size)])
    scale = bool(rng.integers(2))
    balance = float(rng.choice([0, 0, 0.25, -0.5, 1, -1, round(rng.uniform(-1, 1), 2)]))
    cases.append({"groups": groups, "scale": scale, "balance": balance, "expected": expected(groups, scale, balance)})
print("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]")
