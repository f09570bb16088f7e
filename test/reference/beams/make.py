"""What beam search finds on a reference model: python make.py  (torch 2.13, transformers 5.23; writes expected.json)

`plain` is the search written down naively over full forward passes in float32: every beam's 2 x width likeliest tokens,
those that end moved to the finished, the best `width` others go on; score = sum of logprobs / length ^ penalty with the
prompt in the length and a final end of sequence not. Where nothing ends early and the penalty is 0, transformers' own
`generate` has the same rules, and must agree.
"""
import json, os
import torch
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "..", "models", "qwen3")
torch.set_num_threads(1)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
PROMPT = [(i * 37 + 11) % 384 for i in range(70)]


@torch.no_grad()
def rows(sequences):
    return torch.log_softmax(model(torch.tensor(sequences)).logits[:, -1].double(), dim=-1)


def plain(width, steps, eos, penalty):
    live, done = [([], 0.0)], []
    for _ in range(steps):
        following = []
        for (tokens, total), row in zip(live, rows([PROMPT + tokens for tokens, _ in live])):
            logprobs, ids = row.topk(2 * width)
            for logprob, token in zip(logprobs.tolist(), ids.tolist()):
                (done if token == eos else following).append((tokens + [token], total + logprob))
        live = sorted(following, key=lambda beam: -beam[1])[:width]

    def score(beam):
        length = len(PROMPT) + len(beam[0]) - (beam[0][-1] == eos)
        return beam[1] / length**penalty

    return sorted(done + live, key=score, reverse=True)[:width]


def closest(beams):
    """The smallest difference between neighbouring sums: rounding must not decide the order."""
    sums = sorted(total for _, total in beams)
    return min(b - a for a, b in zip(sums, sums[1:]))


cases = []
for width, steps, ends, penalty in [(4, 8, False, 0.0), (4, 8, True, 0.0), (6, 7, True, 1.0), (6, 7, True, -3.0), (32, 4, False, 1.0)]:
    eos = None
    if ends:  # a token that many good hypotheses contain
        eos = plain(width, steps, None, penalty)[0][0][2]
    found = plain(width, steps, eos, penalty)
    assert closest(found) > 1e-4, closest(found)
    if not ends and penalty == 0:
        out = model.generate(torch.tensor([PROMPT]), num_beams=width, num_return_sequences=width, max_new_tokens=steps,
                             do_sample=False, length_penalty=0.0, eos_token_id=-1, pad_token_id=0, early_stopping=False)
        assert out[:, len(PROMPT):].tolist() == [tokens for tokens, _ in found]
    cases.append(dict(width=width, steps=steps, eos=eos, penalty=penalty,
                      beams=[dict(tokens=tokens, sum=total) for tokens, total in found]))
json.dump(dict(prompt=PROMPT, cases=cases), open(os.path.join(HERE, "expected.json"), "w"))
print([(c["eos"], [len(b["tokens"]) for b in c["beams"]]) for c in cases])
