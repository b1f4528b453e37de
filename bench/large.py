"""Operators on 64 MiB: into new tensors, where page faults count, and into existing ones, where bandwidth does."""

import torch
from common import Table, finish, geometric_mean, versus

ROWS, COLUMNS = 4096, 4096  # 64 MiB of float32


def new_tensors(device):
    a, b = (torch.randn(ROWS, COLUMNS).to(device) for _ in range(2))
    weight, bias = torch.randn(COLUMNS).to(device), torch.randn(COLUMNS).to(device)
    return {"mul": lambda: a * b, "exp": lambda: torch.exp(a), "gelu": lambda: torch.nn.functional.gelu(a),
            "softmax": lambda: torch.softmax(a, -1),
            "layer_norm": lambda: torch.nn.functional.layer_norm(a, (COLUMNS,), weight, bias)}


def existing_tensors(device):
    a, b, out = (torch.randn(ROWS, COLUMNS).to(device) for _ in range(3))
    weight, bias = torch.randn(COLUMNS).to(device), torch.randn(COLUMNS).to(device)
    mean, rstd = torch.empty(ROWS, 1).to(device), torch.empty(ROWS, 1).to(device)
    ops = torch.ops.aten
    return {"mul": lambda: torch.mul(a, b, out=out), "exp": lambda: torch.exp(a, out=out),
            "gelu": lambda: ops.gelu.out(a, out=out), "softmax": lambda: torch.softmax(a, -1, out=out),
            "layer_norm": lambda: ops.native_layer_norm.out(a, [COLUMNS], weight, bias, 1e-5, out0=out, out1=mean,
                                                            out2=rstd)}


def main():
    table = Table("large")
    for kind, make, least in (("new", new_tensors, 2.0), ("out=", existing_tensors, 1.0)):
        ratios = []
        for name in ("mul", "exp", "gelu", "softmax", "layer_norm"):
            row = table.add(f"{name} {kind}", versus(lambda device: make(device)[name], rounds=7, seconds=0.0))
            ratios.append(row["ratio"])
        table.goal(f"{kind}, geometric mean", geometric_mean(ratios), least=least)
    finish(table)


if __name__ == "__main__":
    main()
