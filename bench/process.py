"""What the device costs a process: import time, threads at import, CPU time while idle."""

import os
import statistics
import subprocess
import sys
import time

from common import Table, finish

IMPORT = "import time; t = time.perf_counter(); import torch; print(time.perf_counter() - t)"
AFTER_IMPORT = ("import sys, os, torch; print(len(os.listdir('/proc/self/task')), 'torch._dynamo' in sys.modules, "
                "torch.neuron.is_initialized())")


def run(code, autoload):
    environment = dict(os.environ, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return result.stdout.strip()


def import_times(rounds=12):
    times = {"0": [], "1": []}
    for _ in range(rounds):
        for autoload in times:
            times[autoload].append(float(run(IMPORT, autoload)))
    return times


def idle_share(seconds=3.0):
    """CPU time over wall time while nothing is asked of a device that has worked."""
    import torch
    a = torch.randn(512, 512).to("neuron").requires_grad_()
    for _ in range(5):
        (a @ a).relu().sum().backward()
    torch.neuron.synchronize()
    time.sleep(0.3)
    cpu, wall = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    return (time.process_time() - cpu) / (time.perf_counter() - wall)


def main():
    table = Table("process")
    times = import_times()
    plain, ours = min(times["0"]), min(times["1"])
    table.add("import torch", {"ratio": plain / ours,
                               "ratio_of_medians": statistics.median(times["0"]) / statistics.median(times["1"]),
                               "cpu": {"min": plain, "median": statistics.median(times["0"])},
                               "neuron": {"min": ours, "median": statistics.median(times["1"])}})
    table.goal("import, milliseconds more than `import torch`", (ours - plain) * 1e3, most=60)
    plain_state, state = (run(AFTER_IMPORT if on == "1" else AFTER_IMPORT.replace("torch.neuron.is_initialized()", "False"),
                              on).split() for on in ("0", "1"))
    table.goal("threads started by the import", int(state[0]) - int(plain_state[0]), most=0)
    table.goal("Dynamo imported or device opened", float(state[1] == "True" or state[2] == "True"), most=0)
    table.goal("CPU share of an idle process, percent", 100 * idle_share(), most=0.1)
    finish(table)


if __name__ == "__main__":
    main()
