"""What the scripts that record quantised models share: random blocks, and products whose inputs are rounded to 8 bits."""
import gguf
import numpy as np
import torch

# Of types that gguf does not write, scales for which random codes are numbers of the size of weights: offset in the block, value.
SCALES = {"Q4_K": [(0, 3.5e-4), (2, 2.5e-3)], "Q5_K": [(0, 1.7e-4), (2, 2.5e-3)], "Q6_K": [(208, 3e-5)]}


def quantized(rng, name, *shape, scale=0.08):
    kind = gguf.GGMLQuantizationType[name]
    if name not in SCALES:
        return gguf.quants.quantize((rng.standard_normal(shape) * scale).astype(np.float32), kind)
    numbers, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (int(np.prod(shape)) // numbers, size), dtype=np.uint8)
    for offset, value in SCALES[name]:
        d = (value * rng.uniform(0.5, 1.5, len(blocks))).astype(np.float16)
        blocks[:, offset : offset + 2] = d.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(*shape[:-1], -1)


def rounded(x):
    """By the absolute maximum of each 32 numbers; backward as if it had not been."""
    groups = x.detach().reshape(*x.shape[:-1], x.shape[-1] // 32, 32)
    most = groups.abs().amax(-1, keepdim=True)
    inverse = torch.where(most > 1e-35, 127 / most, torch.zeros(()))
    codes = torch.round(groups * inverse)
    return x + ((codes * (most / 127)).reshape(x.shape) - x.detach())


def experts_forward(experts, rounded=rounded):
    """In the place of that of transformers' fused experts."""

    def forward(x, chosen, shares):
        out = torch.zeros_like(x)
        for expert in range(experts.num_experts):
            row, place = torch.where(chosen == expert)
            gate, up = (rounded(x[row]) @ experts.gate_up_proj[expert].T).chunk(2, -1)
            y = rounded(torch.nn.functional.silu(gate) * up) @ experts.down_proj[expert].T
            out = out.index_add(0, row, y * shares[row, place, None])
        return out

    return forward
