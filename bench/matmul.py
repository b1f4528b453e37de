"""Matrix products, attention and convolution beside CPU torch in the same process.

usage: python bench/matmul.py [rounds]

Every row runs both devices in interleaved rounds; printed are GFLOP/s of each one's fastest round and the ratios of the
minima and of the medians (above 1: neuron is faster).
"""

import statistics
import sys
import time

import torch
import torch_neuronx  # noqa: F401

BUDGET_S = 0.02  # per round and device


def rounds_of(functions, rounds):
    """Seconds per call, one list of rounds per function, interleaved."""
    repeats = []
    for function in functions:
        function()
        start = time.perf_counter()
        function()
        repeats.append(max(1, int(BUDGET_S / (time.perf_counter() - start + 1e-7))))
    times = [[] for _ in functions]
    for _ in range(rounds):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            for _ in range(repeats[i]):
                function()
            torch.neuron.synchronize()
            times[i].append((time.perf_counter() - start) / repeats[i])
    return times


def report(name, flops, make, rounds):
    neuron, cpu = rounds_of([make("neuron"), make("cpu")], rounds)
    best, peer = min(neuron), min(cpu)
    print(f"{name:34} {flops / best / 1e9:8.1f} {flops / peer / 1e9:8.1f} GF/s  {best * 1e6:9.1f} {peer * 1e6:9.1f} us  "
          f"{peer / best:5.2f} {statistics.median(cpu) / statistics.median(neuron):5.2f}", flush=True)


def product(m, k, n, left="n", right="n", dtype=torch.float32):
    def make(device):
        torch.manual_seed(0)
        a = torch.randn((m, k) if left == "n" else (k, m)).to(dtype).to(device)
        b = torch.randn((k, n) if right == "n" else (n, k)).to(dtype).to(device)
        a, b = a if left == "n" else a.t(), b if right == "n" else b.t()
        return lambda: torch.mm(a, b)
    return f"mm {left}{right} {m}x{k}x{n} {str(dtype)[6:]}", 2 * m * n * k, make


def batched(count, m, k, n):
    def make(device):
        a, b = torch.randn(count, m, k).to(device), torch.randn(count, k, n).to(device)
        return lambda: torch.bmm(a, b)
    return f"bmm {count}x{m}x{k}x{n}", 2 * count * m * n * k, make


def linear(m, k, n):
    def make(device):
        x, w, b = torch.randn(m, k).to(device), torch.randn(n, k).to(device), torch.randn(n).to(device)
        return lambda: torch.nn.functional.linear(x, w, b)
    return f"linear {m}x{k}x{n}", 2 * m * n * k, make


def attention(batch, heads, length, size, causal, train=False):
    def make(device):
        q, k, v = (torch.randn(batch, heads, length, size).to(device).requires_grad_(train) for _ in range(3))
        grad = torch.randn(batch, heads, length, size).to(device)

        def run():
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            if train:
                out.backward(grad)
        return run
    flops = 4 * batch * heads * length * length * size * (3.5 if train else 1) * (0.5 if causal else 1)
    return f"attention{'+backward' if train else ''} {batch}x{heads}x{length}x{size}", flops, make


def convolution(batch, channels, size, filters, kernel, groups=1, train=False):
    def make(device):
        x = torch.randn(batch, channels, size, size).to(device).requires_grad_(train)
        w = torch.randn(filters, channels // groups, kernel, kernel).to(device).requires_grad_(train)
        grad = torch.ones(batch, filters, size, size).to(device)

        def run():
            out = torch.nn.functional.conv2d(x, w, padding=kernel // 2, groups=groups)
            if train:
                out.backward(grad)
        return run
    flops = 2 * batch * filters * size * size * channels // groups * kernel * kernel * (3 if train else 1)
    return f"conv{'+backward' if train else ''} {batch}x{channels}x{size}^2 {filters}f{kernel} g{groups}", flops, make


ROWS = (
    *(product(n, n, n) for n in (8, 16, 32, 64, 128, 256, 512, 1024, 2048)),
    *(product(1024, 384, n) for n in (384, 1152, 1536)),
    *(product(1024, 384, n, right="t") for n in (384, 1536)),
    product(1024, 1536, 384, right="t"), product(384, 1024, 1536, left="t"), product(1536, 1024, 384, left="t"),
    product(768, 128, 128, right="t"), product(768, 128, 512, right="t"), product(128, 768, 512, left="t"),
    product(1, 1024, 1024), product(1, 1024, 1024, right="t"), product(1024, 1024, 1), product(8, 1024, 4096, right="t"),
    product(1024, 1024, 1024, dtype=torch.bfloat16), product(512, 512, 512, dtype=torch.float64),
    batched(48, 64, 32, 64), batched(24, 256, 64, 256), linear(768, 128, 384), linear(16, 16, 16),
    attention(12, 4, 64, 32, True), attention(12, 4, 64, 32, True, True), attention(4, 6, 256, 64, True),
    attention(4, 6, 256, 64, True, True), attention(1, 8, 1024, 64, False),
    convolution(32, 16, 28, 32, 3), convolution(32, 32, 14, 64, 3, train=True), convolution(8, 64, 28, 64, 3, groups=64),
    convolution(8, 64, 32, 64, 1),
)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    names = sys.argv[2:]
    print(f"{'':34} {'neuron':>8} {'cpu':>8}        {'neuron':>9} {'cpu':>9}      min   median")
    for name, flops, make in ROWS:
        if not names or any(name.startswith(prefix) for prefix in names):
            report(name, flops, make, rounds)


if __name__ == "__main__":
    main()
