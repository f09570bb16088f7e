"""What Hugging Face's Rust library makes of texts in layouts whose steps its JavaScript library takes otherwise.

    python make_layouts.py      # tokenizers 0.23; writes layouts.json beside this file
"""
import json, os
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

HERE = os.path.dirname(os.path.abspath(__file__))
ALPHABET = sorted(ByteLevel.alphabet())
LETTERS = list("abcdefghijklmnopqrstuvwxyz0123456789 .,!?$'-ΑΣασςéß𠀀漢字😀🙂\n\t\ufeff\x85▁")


def split(pattern, behavior):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}


def byte_level(**changes):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **changes}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


def metaspace(**changes):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True, **changes}


def bpe(alphabet, merges=(), **changes):
    tokens = list(dict.fromkeys(["<unk>", *alphabet, *("".join(merge) for merge in merges)]))
    return {"type": "BPE", "unk_token": "<unk>", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": [list(m) for m in merges], **changes}


def unigram(scores, **changes):
    return {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], *scores], "byte_fallback": False, **changes}


def added(index, content, **flags):
    return {"id": len(BYTES["vocab"]) + index, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **flags}


def layout(model, normalizer=None, pre_tokenizer=None, decoder=None, added_tokens=()):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(added_tokens), "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": decoder, "model": model}


# A split shows where it keeps these pairs from becoming one token.
PAIRS = [("!", "!"), ("!!", "!"), ("a", "!"), ("!", "a"), ("a", " "), (" ", "a"), ("a", "\n"), ("a", "\x85"), ("a", "\ufeff"), ("▁", "a"), ("a", "▁"), ("▁", "▁"), ("a", "😀")]
SPLIT = bpe(LETTERS, PAIRS)
BYTES = bpe(ALPHABET, [("a", "Ġ"), ("Ġ", "a")])
BYTE_TOKENS = [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
SCORES = [["▁", -2.0], ["a", -3.1], ["b", -3.3], ["!", -2.7], ["!!", -4.3], [".", -1.1], ["..", -1.9], ["▁a", -3.7], ["a▁", -1.5]]
# By SentencePiece 0.2, of the rules ﬁ fi, ① 1, A a, ê E, e\u0302 E, e\u0302\u0301 F, \r and \n and \u3000 a space, \u200b nothing, 각 가, ё е, が ga, か ka,
# か\u3099 GA: what a normalization_rule_tsv of them compiles to.
TABLE = ("AAQAAAAsAAAKDQAAAQAAgAwAAIDMDAIAggkAAA0RAAAFAACAgQUAAAcAAICqGQAAkRkAAAUAAIAXAACAgCgCAIt9AAAAAACAoA0AAAMAAICARQAAgBwCAIEcAgAUAACAglgCAJkJAACLPQAACQAAgB"
         "EAAICwAAIAgfUAAIwVAACRuAIAGgAAgKwIAgCBBQAADgAAgCUAAAAkAAAAJwAAACYAAAApAAAAKAAAACsAAAAqAAAALQAAACwAAAAvAAAALgAAADEAAAAwAAAAMwAAADIAAAA1AAAANAAAADcAAAA2"
         "AAAAOQAAADgAAAA7AAAAOgAAAD0AAAA8AAAAPwAAAD4AAABBAAAAQAAAAEMAAABCAAAARQAAAEQAAABHAAAARgAAAEkAAABIAAAAQSUBAEoAAABNAAAATAAAAE8AAABOAAAAUQAAAFAAAABTAAAAUg"
         "AAAFUAAABUAAAAVwAAAFYAAABZAAAAWAAAAFsAAABaAAAAXQAAAFwAAABfAAAAXgAAAGEAAABgAAAAYwAAAGIAAABlAAAAZAAAAGcAAABmAAAAaQAAAGgAAABrAAAAagAAAG0AAABsAAAAZZgCAG4A"
         "AABxAAAAcAAAAHMAAAByAAAAdQAAAHQAAAB3AAAAdgAAAHkAAAB4AAAAewAAAHoAAAB9AAAAfAAAAH8AAAB+AAAAgQAAAIAAAACDAAAAggAAAIUAAACEAAAAhwAAAIYAAACJAAAAiAAAAIsAAACKAA"
         "AAjQAAAIwAAACPAAAAjgAAAJEAAACQAAAAkwAAAJIAAACVAAAAlAAAAJcAAACWAAAAmQAAAJgAAACbAAAAmgAAAJ0AAACcAAAAnwAAAJ4AAAChAAAAoAAAAKMAAACiAAAApQAAAKQAAACnAAAApgAA"
         "AKkAAACoAAAAqwAAAKoAAACtAAAArAAAAK8AAACuAAAAsQAAALAAAACzAAAAsgAAALUAAAC0AAAAtwAAALYAAAC5AAAAuAAAALsAAAC6AAAAvQAAALwAAAC/AAAAvgAAAMEAAADAAAAAwwAAAMIAAA"
         "DFAAAAxAAAAMcAAADGAAAAw6ABAMgAAADLAAAAzAgBAM0AAADMAAAAzwAAAM4AAADRAAAA0AAAANMAAADSAAAA1QAAANQAAADXAAAA1gAAANkAAADYAAAA0QABANoAAADdAAAA3AAAAN8AAADeAAAA"
         "4QAAAOo0AQDjAAAA4gAAAO+kAQDkAAAA5wAAAOYAAADj8AEA4pwBAOsAAADqAAAA7QAAAOwAAADvAAAA7gAAAPEAAADwAAAA8wAAAPIAAAD1AAAA44ABAPcAAAD2AAAA+QAAAPgAAAD7AAAA+gAAAP"
         "0AAAD8AAAA/wAAAP4AAAAAIAAxAEUARgBHQQBhAGZpAGdhAGthANC1AOqwgAA=")
TABLED = bpe("abcdefghijklmnopqrstuvwxyzAEFG1 !가각ёеがか\u3099\u0301\u0302\r\n\u200b\u3000①ﬁê")
BERT = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        "vocab": {token: i for i, token in enumerate(["[UNK]", "ασ", "a", "##a", "b", "##b", "é", "e", "!", "漢", "𠀀"])}}


def bert(**changes):
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True, **changes}


LAYOUTS = {
    "lowercase": layout(SPLIT, {"type": "Lowercase"}),
    "strip left": layout(SPLIT, {"type": "Strip", "strip_left": True, "strip_right": False}),
    "strip right": layout(SPLIT, {"type": "Strip", "strip_left": False, "strip_right": True}),
    "strip": layout(SPLIT, {"type": "Strip", "strip_left": True, "strip_right": True}),
    "replaced by a dollar": layout(SPLIT, {"type": "Replace", "pattern": {"String": "!"}, "content": "$&$$"}),
    "compiled table": layout(TABLED, {"type": "Precompiled", "precompiled_charsmap": TABLE}),
    "punctuation": layout(SPLIT, None, {"type": "Punctuation", "behavior": "Isolated"}),
    "punctuation together": layout(SPLIT, None, {"type": "Punctuation", "behavior": "Contiguous"}),
    "punctuation removed": layout(SPLIT, None, {"type": "Punctuation", "behavior": "Removed"}),
    "text removed": layout(SPLIT, None, split({"String": "!"}, "Removed")),
    "white space": layout(SPLIT, None, {"type": "WhitespaceSplit"}),
    "bert": layout(SPLIT, None, {"type": "BertPreTokenizer"}),
    "fixed length": layout(SPLIT, None, {"type": "FixedLength", "length": 3}),
    "metaspace": layout(SPLIT, None, metaspace()),
    "metaspace unsplit": layout(SPLIT, None, metaspace(split=False)),
    "byte level": layout(BYTES, None, byte_level(), byte_level()),
    "byte level with a prefix": layout(BYTES, None, sequence("pretokenizers", split({"Regex": "!"}, "Isolated"), byte_level(add_prefix_space=True)), byte_level()),
    "tokens that take the spaces beside them": layout(BYTES, None, byte_level(), byte_level(), [
        added(0, "<l>", lstrip=True), added(1, "<r>", rstrip=True), added(2, "<b>", lstrip=True, rstrip=True),
        added(3, "<t>\n"), added(4, "\n\n", normalized=True), added(5, "<n>", lstrip=True, rstrip=True, normalized=True, special=False),
        added(6, "<r>x", normalized=True)]),
    "unknown": layout(bpe("ab ", fuse_unk=True), None, split({"String": " "}, "Isolated")),
    "scores": layout(unigram(SCORES), None, metaspace(), metaspace()),
    "scores and bytes": layout(unigram([*SCORES, *BYTE_TOKENS], byte_fallback=True), None, metaspace(), sequence("decoders", {"type": "ByteFallback"}, metaspace())),
    "bytes that are not decoded": layout(unigram([*SCORES, *BYTE_TOKENS], byte_fallback=True), None, metaspace(split=False), metaspace()),
    "words": layout(BERT, bert(), {"type": "BertPreTokenizer"}),
    "words with their accents": layout(BERT, bert(strip_accents=False), {"type": "BertPreTokenizer"}),
    "words as written": layout(BERT, bert(lowercase=False, clean_text=False), {"type": "BertPreTokenizer"}),
}
TEXTS = ["a b", "a!!!a !! a", "aΣ ΑΣ ΑΣΑ ς", "\ufeffa\ufeff", "\x85a\x85", " a ", "\n a\t", "$a$ $&", "a...b", "!!!", "!!!!!", "a! !a a!a", "  a  a", "漢a字", "a𠀀b 𠀀𠀀", "😀a😀 🙂🙂",
         "x y xx yy", "é ée\u0301", "▁a ▁▁a", "a\x85!\ufeffa", "..... ... .", "\u4e00\U0002a6d6b", "e\u0302\u0301e\u0302 ê\u0301", "A\u0301\r\n\ra\u200b", "ﬁ①각ё\u0301 か\u3099がか",
         "a \ufeff<l> \x85<r>\ufeff a", "<r>\x85 a\x85<l>", "<t>\n<l><r>\n\n<b> \n\n <b>\t\u2028<l>", "<r> <l>\x1c<b>\u200b <n> \ufeff<n>\x85a", "<r>xa\n\n<n>\n\na"]


def cases(tokenizer):
    encoded = [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in TEXTS]
    return [{**case, "decoded": tokenizer.decode(case["ids"])} for case in encoded]


if __name__ == "__main__":
    made = {name: {"tokenizer": json_, "cases": cases(Tokenizer.from_str(json.dumps(json_)))} for name, json_ in LAYOUTS.items()}
    with open(os.path.join(HERE, "layouts.json"), "w") as out:
        json.dump(made, out, separators=(",", ":"))
