"""Copies into existing tensors: host to device, device to host, device to device, against memcpy and CPU's copy_."""

import ctypes
import threading

import torch
from common import Table, finish, interleave

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 64 * KIB, 256 * KIB, MIB, 8 * MIB, 64 * MIB)
libc = ctypes.CDLL(None)
libc.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
libc.memcpy.restype = ctypes.c_void_p


class ParallelCopy:
    """memcpy by as many threads as torch uses; ctypes releases the GIL, the threads wait at a barrier between copies."""

    def __init__(self, out, source, threads):
        self.out, self.source, self.count = out, source, threads
        self.barrier = threading.Barrier(threads)
        self.part = out.nbytes // threads
        self.ending = False
        self.threads = [threading.Thread(target=self.serve, args=(i,), daemon=True) for i in range(1, threads)]
        for thread in self.threads:
            thread.start()

    def copy(self, i):
        libc.memcpy(self.out.data_ptr() + i * self.part, self.source.data_ptr() + i * self.part, self.part)

    def serve(self, i):
        while True:
            self.barrier.wait()
            if self.ending:
                return
            self.copy(i)
            self.barrier.wait()

    def __call__(self):
        self.barrier.wait()
        self.copy(0)
        self.barrier.wait()

    def end(self):
        self.ending = True
        self.barrier.wait()
        for thread in self.threads:
            thread.join()


def measure(size):
    elements = size // 4
    host, host_out = torch.randn(elements), torch.empty(elements).fill_(0)
    device, device_out = host.to("neuron"), torch.zeros(elements).to("neuron")
    threaded = ParallelCopy(host_out, host, torch.get_num_threads()) if size >= MIB else None
    functions = {"cpu": lambda: host_out.copy_(host), "H2D": lambda: device_out.copy_(host),
                 "D2H": lambda: host_out.copy_(device), "neuron": lambda: device_out.copy_(device)}
    if threaded:
        functions["memcpy"] = threaded
    times = interleave(functions, rounds=15, seconds=0.004)
    if threaded:
        threaded.end()
    times["D2D"] = times.pop("neuron")
    return times


def main():
    table = Table("copies")
    worst = {"small": [], "large": []}
    for size in SIZES:
        times = measure(size)
        peer = min(times[name]["min"] for name in ("memcpy", "cpu") if name in times)
        for way in ("H2D", "D2H", "D2D"):
            name = f"{way} {size // KIB} KiB"
            ratio = (peer if size >= MIB else times["cpu"]["min"]) / times[way]["min"]
            table.add(name, {"ratio": ratio, "ratio_of_medians": times["cpu"]["median"] / times[way]["median"],
                             "cpu": {"min": peer if size >= MIB else times["cpu"]["min"],
                                     "median": times["cpu"]["median"]}, "neuron": times[way]})
            worst["large" if size >= MIB else "small"].append(ratio)
    table.goal("from 1 MiB on, of memcpy's speed", min(worst["large"]), least=0.9)
    table.goal("below 1 MiB, of CPU copy_'s speed", min(worst["small"]), least=1.0)
    finish(table)


if __name__ == "__main__":
    main()
