"""Writes cases.json: policy losses and their gradients by PyTorch autograd, in float64, over a grid of settings.

Run with torch 2.13.0: python make.py. Inputs are float32 numbers; a missing logprob is null. Index t predicts token t+1.
"""

import itertools
import json
import math
import os

import torch

torch.manual_seed(20)


def random_row(count, segments, spread):
    row = {}
    new = -torch.rand(count) * 4 - 0.01
    row["logprobs"] = new
    row["oldLogprobs"] = (new + torch.randn(count) * spread).clamp(max=-1e-3)
    row["oldLogprobs"][torch.rand(count) < 0.15] = float("nan")
    row["segments"] = torch.sort(torch.randint(1, segments + 1, (count,)))[0]
    row["mask"] = (torch.rand(count) < 0.75).long()
    row["advantages"] = torch.randn(segments + 1)[row["segments"]]
    row["weights"] = (torch.rand(segments + 1) + 0.3)[row["segments"]]
    row["reference"] = new + torch.randn(count) * 0.3
    row["original"] = row["oldLogprobs"] + torch.randn(count) * 0.1
    row["entropies"] = torch.rand(count) * 2
    return row


def loss_of(row, s):
    n = row["logprobs"].double().requires_grad_()
    o = row["oldLogprobs"].double()
    o = torch.where(torch.isnan(o), n.detach(), o)
    m = row["mask"].double()
    w = row["weights"].double()
    a = row["advantages"].double()
    d = n - o
    rho = torch.exp(d)
    if s["level"] != "token":
        key = row["segments"] * row["mask"]
        same = (key[:, None] == key[None, :]).double()
        seq = torch.exp((same @ d) / same.sum(1))
        rho = {
            "sequence": lambda: seq,
            "average": lambda: (rho + seq) / 2,
            "geometric_average": lambda: torch.sqrt(rho) * torch.sqrt(seq),
        }[s["level"]]()
    lo, hi = s["clipLow"], s["clipHigh"]
    if s["ratioCap"]:
        rho = torch.clamp(rho, max=s["ratioCap"])
    if s["maskOutsideClip"]:
        rho = torch.where((rho > lo) & (rho < hi), rho, torch.zeros_like(rho))
    if s["tau"]:
        a = a - s["tau"] * d.detach()
    kbar = 0.0
    if s["klCoef"]:
        q = o if s["klSource"] == "sample" else n.detach()
        k = (q - row["reference"].double()) * m
        kbar = k.sum() / m.sum()
        a = a + s["klCoef"] * (kbar - k) * m
        kbar = kbar.item()
    if s["objective"] == "ppo":
        term = -torch.min(rho * a, torch.clamp(rho, lo, hi) * a)
    else:
        term = -torch.clamp(rho, lo, hi).detach() * a * n
    if s["truncation"]:
        r = rho
        if s["truncateByOriginal"]:
            original = row["original"].double()
            r = torch.exp(o - torch.where(torch.isnan(original), n.detach(), original))
        term = term * torch.clamp(r, max=s["truncation"]).detach()
    loss = (term * w * m).sum() / (m.sum() + 1e-18)
    loss.backward()
    entropy = (row["entropies"].double() * w * m).sum() / (m.sum() + 1e-18)
    known = ~torch.isnan(row["oldLogprobs"]) & (m > 0)
    corr = 0.0
    if known.sum() > 1:
        corr = torch.corrcoef(torch.stack([o[known].exp(), n.detach()[known].exp()]))[0, 1].item()
    return {
        "loss": loss.item(),
        "dLogprobs": n.grad.tolist(),
        "entropy": entropy.item(),
        "klPolicyRef": kbar,
        "probsCorr": corr if math.isfinite(corr) else 0.0,
    }


NEUTRAL = dict(objective="cispo", level="token", clipLow=0, clipHigh=5, ratioCap=0, maskOutsideClip=False, tau=0,
               klCoef=0, klSource="sample", truncation=0, truncateByOriginal=False)


def grid():
    objectives = [dict(objective="cispo", clipLow=0.0, clipHigh=5.0), dict(objective="cispo", clipLow=0.8, clipHigh=1.2),
                  dict(objective="ppo", clipLow=0.8, clipHigh=1.2), dict(objective="ppo", clipLow=0.9, clipHigh=1.4)]
    levels = ["token", "sequence", "average", "geometric_average"]
    extras = [{}, dict(ratioCap=1.1), dict(maskOutsideClip=True), dict(tau=0.1), dict(truncation=1.0),
              dict(truncation=1.5, truncateByOriginal=True), dict(klCoef=0.1, klSource="sample"),
              dict(klCoef=0.2, klSource="current_learner"),
              dict(ratioCap=1.3, tau=0.05, truncation=1.2, klCoef=0.1, klSource="sample"),
              dict(ratioCap=2.0, maskOutsideClip=True, tau=0.2, truncation=0.9, truncateByOriginal=True, klCoef=0.3,
                   klSource="current_learner")]
    for objective, level, extra in itertools.product(objectives, levels, extras):
        yield {**NEUTRAL, **objective, "level": level, **extra}


def plain(tensor):
    return [None if isinstance(x, float) and math.isnan(x) else x for x in tensor.tolist()]


rows = [random_row(12, 3, 0.4), random_row(40, 6, 0.15), random_row(7, 1, 1.5)]
cases = [{"row": i, "settings": s, "expected": loss_of(row, s)} for i, row in enumerate(rows) for s in grid()]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.json"), "w") as f:
    json.dump({"rows": [{k: plain(v) for k, v in row.items()} for row in rows], "cases": cases}, f, separators=(",", ":"))
print(len(cases), "cases")
