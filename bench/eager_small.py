"""Eager operators on 8 to 1024 elements, where all that counts is the way to the kernel."""

import torch
from common import Table, finish, geometric_mean, versus

SIZES = (8, 64, 1024)


def operators(device, n):
    torch.manual_seed(0)
    a, b = (torch.randn(n).to(device) for _ in range(2))
    m = torch.randn(max(2, int(n ** 0.5)), max(2, int(n ** 0.5))).to(device)
    c = torch.zeros(n).to(device)
    return {"add": lambda: a + b, "mul": lambda: a * b, "relu": lambda: torch.relu(a), "add_": lambda: c.add_(b),
            "mm": lambda: torch.mm(m, m), "sum": lambda: a.sum(), "softmax": lambda: torch.softmax(a, 0),
            "compare": lambda: a < b, "view": lambda: a.view(-1, 2)}


def main():
    table = Table("eager_small")
    ratios = {}
    for n in SIZES:
        for name in operators("cpu", n):
            row = table.add(f"{name} {n}", versus(lambda device: operators(device, n)[name], rounds=25, seconds=0.002,
                                                  warmup=50))
            ratios[name, n] = row["ratio"]
    kernels = {key: ratio for key, ratio in ratios.items() if key[0] != "view"}
    table.goal("geometric mean", geometric_mean(kernels.values()), least=1.4)
    table.goal("slowest", min(kernels.values()), least=0.95)
    table.goal("view", min(ratio for key, ratio in ratios.items() if key[0] == "view"), least=0.9)
    finish(table)


if __name__ == "__main__":
    main()
