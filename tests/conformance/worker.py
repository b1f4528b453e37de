"""Runs units in a process of their own, one after the other, as the driver asks for them.

A unit is a line `database name dtype` on standard input. For each of its checks the worker writes one JSON line before
it starts and one when it is done, so that the driver knows which check a crash or a hang belongs to.
"""

import faulthandler
import json
import os
import sys
import time

import torch


def report(channel, **row):
    channel.write(json.dumps(row) + "\n")
    channel.flush()


def fallbacks():
    return {row["op"]: row["count"] for row in summed(torch.neuron.fallback_report())}


def summed(rows):
    counts = {}
    for row in rows:
        counts[row["op"]] = counts.get(row["op"], 0) + row["count"]
    return [{"op": op, "count": count} for op, count in counts.items()]


def outcome(function, unsupported):
    """("passed" | "failed" | "none", message)"""
    try:
        function()
    except unsupported:
        return "none", ""
    except Exception as error:
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        sample = getattr(error, "sample", None)
        return "failed", f"{type(error).__name__}: {first[:300]}" + (f" [{sample}]" if sample else "")
    return "passed", ""


def main():
    # Results go to the pipe that was standard output; whatever operators print goes to standard error.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()
    torch.set_num_threads(1)
    from . import modules, operators, optimizers
    databases = {"op": operators, "module": modules, "optim": optimizers}
    report(channel, event="ready")
    for line in sys.stdin:
        database, name, dtype = line.split()
        for check, function in databases[database].checks(name, dtype):
            report(channel, event="start", check=check)
            before, began = fallbacks(), time.perf_counter()
            result, message = outcome(function, operators.Unsupported)
            host = sorted(op for op, count in fallbacks().items() if count > before.get(op, 0))
            report(channel, event="done", check=check, result=result, message=message, host=host,
                   seconds=round(time.perf_counter() - began, 3))
        report(channel, event="end")


if __name__ == "__main__":
    main()
