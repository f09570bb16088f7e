"""What Hugging Face's Rust library makes of random texts, and of ids that no text gives: cut characters, stray bytes,
unknown ids.

    python make_random_cases.py      # tokenizers 0.23; writes NAME/random_cases.json beside this file
"""
import json, os, random
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
POOLS = ["abc XYZ 012 ", "\n\t\r  ", "éßĄłпривет", "你好世界、。", "😀👨\u200d👩\u200d👧🇩🇪", "'s'll''re", "{}[]()!?.,;:", " \u0301\u200b\xa0\ufeff\u3000\x85\u2028 ",
         "नमस्วัส", "\x00\x01\x1c\x7f"]
MARKERS = ["<|im_end|>", "<think>", "<s>", "</s>", "<|eot_id|>", "<|endoftext|>"]


def text():
    pick = lambda: random.choice(random.choice(POOLS)) if random.random() < 0.9 else random.choice(MARKERS)
    return "".join(pick() for _ in range(random.randrange(1, 40)))


def ids(size):
    low = 0 if random.random() < 0.5 else max(0, size - 330)
    pick = lambda: random.randrange(low, size + 2) if random.random() < 0.5 else random.randrange(0, 260)
    return [pick() for _ in range(random.randrange(0, 24))]


random.seed(1)
texts = [text() for _ in range(200)] + ["a \ufeffb \x85c", " \u2028x", "\x1c \x1fy"]
for name in ("gpt2", "qwen", "llama3", "llama2"):
    tokenizer = Tokenizer.from_file(os.path.join(HERE, name, "tokenizer.json"))
    encoded = [{"text": t, "ids": tokenizer.encode(t, add_special_tokens=False).ids} for t in texts]
    rows = [ids(tokenizer.get_vocab_size()) for _ in range(60)]
    decoded = [{"ids": row, "decoded": tokenizer.decode(row, skip_special_tokens=True),
                "decoded_with_special": tokenizer.decode(row, skip_special_tokens=False)} for row in rows]
    with open(os.path.join(HERE, name, "random_cases.json"), "w") as out:
        json.dump({"texts": encoded, "ids": decoded}, out, ensure_ascii=True, separators=(",", ":"))
