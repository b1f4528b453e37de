"""What a launch costs the calling thread: onto a stream that is busy, and through autograd."""

import statistics
import time

import torch
from common import Table, finish, versus

LAUNCHES = 400


def launch_on_busy_stream():
    """Median seconds of `x.add_(1)` while the stream works on something long, beside CPU's whole op."""
    submit, whole = [], []
    on_device, on_host = torch.zeros(64).to("neuron"), torch.zeros(64)
    big = torch.randn(1024, 1024).to("neuron")
    for _ in range(20):
        on_device.add_(1)
    for _ in range(10):
        torch.neuron.synchronize()
        for _ in range(8):
            big = (big @ big).clamp_(-1, 1)
        for _ in range(LAUNCHES // 10):
            start = time.perf_counter_ns()
            on_device.add_(1)
            submit.append(time.perf_counter_ns() - start)
        torch.neuron.synchronize()
        for _ in range(LAUNCHES // 10):
            start = time.perf_counter_ns()
            on_host.add_(1)
            whole.append(time.perf_counter_ns() - start)
    expected = float(LAUNCHES + 20)
    assert on_device.cpu()[0] == expected, "launches were lost"
    ours, theirs = statistics.median(submit) / 1e9, statistics.median(whole) / 1e9
    return {"ratio": theirs / ours, "ratio_of_medians": theirs / ours, "cpu": {"min": theirs, "median": theirs},
            "neuron": {"min": ours, "median": ours}}


def backward(device):
    x = torch.randn(64).to(device).requires_grad_()

    def run():
        x.grad = None
        (x * 2).relu().sum().backward()
    return run


def main():
    table = Table("launch")
    row = table.add("launch on a busy stream, p50", launch_on_busy_stream())
    table.goal("launch on a busy stream, of CPU's op", 1 / row["ratio"], most=1.0)
    row = table.add("backward of a 3-op graph", versus(backward, rounds=25, seconds=0.01, warmup=50))
    table.goal("backward of a 3-op graph, of CPU's time", 1 / row["ratio"], most=1.1)
    finish(table)


if __name__ == "__main__":
    main()
