"""Timing side by side: every row of the table compares the neuron device with CPU torch in one process.

Rounds alternate between the two, so that a change of the machine's speed hits both; a figure is the ratio of the smallest
times, CPU's over ours (above 1: we are faster), beside the medians.
"""

import json
import math
import pathlib
import statistics
import sys
import time

import torch

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results"
DEVICES = ("cpu", "neuron")
PAUSE = 0.01  # OpenMP's idle threads spin for some milliseconds: until then they would hold a core of the other side


def synchronize(device):
    if device == "neuron":
        torch.neuron.synchronize()


def time_calls(function, calls, device):
    """Seconds per call of `calls` calls in a row, until the device has done them."""
    synchronize(device)
    start = time.perf_counter()
    for _ in range(calls):
        function()
    synchronize(device)
    return (time.perf_counter() - start) / calls


def interleave(functions, rounds=15, seconds=0.01, warmup=3):
    """Times functions by name in turn; returns {name: {"min": s, "median": s}}. A round lasts about `seconds` each."""
    calls = {}
    for name, function in functions.items():
        for _ in range(warmup):
            function()
        calls[name] = max(1, int(seconds / max(time_calls(function, 1, name), 1e-7)))
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            time.sleep(PAUSE)
            function()
            times[name].append(time_calls(function, calls[name], name))
    return {name: {"min": min(t), "median": statistics.median(t)} for name, t in times.items()}


def versus(make, rounds=15, seconds=0.01, warmup=3):
    """`make(device)` returns the function to time on that device. The ratio is CPU's minimum over ours."""
    times = interleave({device: make(device) for device in DEVICES}, rounds, seconds, warmup)
    return {"ratio": times["cpu"]["min"] / times["neuron"]["min"],
            "ratio_of_medians": times["cpu"]["median"] / times["neuron"]["median"], **times}


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


def si(seconds):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def show(name, row):
    print(f"  {name:34} cpu {si(row['cpu']['min']):>9}  neuron {si(row['neuron']['min']):>9}  "
          f"ratio {row['ratio']:6.2f}  (medians {row['ratio_of_medians']:.2f})", flush=True)
    return row


class Table:
    """The rows of one script, the goals that they are held against, and the file that keeps them."""

    def __init__(self, name):
        self.name, self.rows, self.goals = name, {}, []
        print(f"{name}: torch {torch.__version__}, {torch.get_num_threads()} threads, "
              f"{torch.neuron.get_device_properties(0).isa if hasattr(torch.neuron.get_device_properties(0), 'isa') else ''}")

    def add(self, name, row):
        self.rows[name] = show(name, row)
        return row

    def goal(self, text, value, least=None, most=None):
        met = (least is None or value >= least) and (most is None or value <= most)
        bound = f">= {least}" if least is not None else f"<= {most}"
        self.goals.append({"goal": text, "value": value, "bound": bound, "met": met})
        print(f"  {'met   ' if met else 'MISSED'} {text}: {value:.4g} ({bound})", flush=True)

    def save(self):
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{self.name}.json").write_text(json.dumps({"rows": self.rows, "goals": self.goals}, indent=1))
        return 0


def finish(table):
    sys.exit(table.save())
