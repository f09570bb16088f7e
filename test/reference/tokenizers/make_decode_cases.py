"""What Hugging Face's Rust library decodes from ids that no text gives: cut characters, stray bytes, unknown ids.

    python make_decode_cases.py      # tokenizers 0.23; writes NAME/decode_cases.json beside this file
"""
import json, os, random
from tokenizers import Tokenizer

here = os.path.dirname(os.path.abspath(__file__))
for name in ("gpt2", "qwen", "llama3", "llama2"):
    tokenizer = Tokenizer.from_file(os.path.join(here, name, "tokenizer.json"))
    random.seed(1)
    size = tokenizer.get_vocab_size()
    cases = []
    for _ in range(60):
        low = 0 if random.random() < 0.5 else max(0, size - 330)
        ids = [random.randrange(low, size + 2) if random.random() < 0.5 else random.randrange(0, 260) for _ in range(random.randrange(0, 24))]
        cases.append({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True),
                      "decoded_with_special": tokenizer.decode(ids, skip_special_tokens=False)})
    with open(os.path.join(here, name, "decode_cases.json"), "w") as out:
        json.dump(cases, out, ensure_ascii=True, indent=0)
