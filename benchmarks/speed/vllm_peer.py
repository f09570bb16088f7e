"""vLLM on the processor as a program that is measured: vllm_peer.py FOLDER THREADS."""
import json
import os
import sys
import time

folder, threads = sys.argv[1], int(sys.argv[2])
REPEATS = 2  # of the two runs whose difference is taken
os.environ.update(
    VLLM_CPU_KVCACHE_SPACE="6", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1", HF_HUB_OFFLINE="1", OMP_NUM_THREADS=str(threads)
)
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{threads - 1}")

if __name__ == "__main__":
    import vllm
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=folder,
        skip_tokenizer_init=True,
        dtype="bfloat16",
        max_model_len=4352,
        max_num_seqs=64,
        # Prompts are computed again in every run, but for those that a run shares.
        enable_prefix_caching=True,
        disable_log_stats=True,
    )
    vocabulary = llm.llm_engine.model_config.get_vocab_size()

    def spread(count, salt):
        return [((((i + 1) * 2654435761) & 0xFFFFFFFF) + (salt + 1) * 40503 & 0xFFFFFFFF) % vocabulary for i in range(count)]

    def generate(prompts, tokens):
        params = SamplingParams(temperature=0, max_tokens=tokens, min_tokens=tokens, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], params, use_tqdm=False)
        return time.perf_counter() - start

    def run(work):
        prompts = [spread(work["context"], 0 if work.get("shared") else i) for i in range(work.get("count", 1))]
        # The first request after a pause is slow. It leaves the prompts in the cache: what more tokens take is decoding.
        awake = generate(prompts, 1)
        if work["kind"] == "prefill":
            llm.reset_prefix_cache()
            seconds = generate(prompts, 1)
            return {"seconds": seconds, "share": seconds / (awake + seconds)}
        ones, mores = zip(*[(generate(prompts, 1), generate(prompts, 1 + work["tokens"])) for _ in range(REPEATS)])
        seconds = min(mores) - min(ones)
        if seconds <= 0:
            raise RuntimeError(f"{work['tokens']} more tokens took no longer than one")
        return {"seconds": seconds, "share": seconds / (awake + sum(ones) + sum(mores))}

    def answer(value):
        print("@" + json.dumps(value), flush=True)

    answer({"version": f"vLLM {vllm.__version__}", "kinds": ["decode", "prefill"], "note": "bfloat16, requests through its engine"})
    for line in sys.stdin:
        try:
            answer(run(json.loads(line)))
        except Exception as error:  # an answer, whatever it is
            answer({"error": repr(error)})
