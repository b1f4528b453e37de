"""Device memory: tensors made and dropped leave nothing behind, and training reaches its peak at once.

The CPU's peak is the sum of live tensors, followed by the profiler's allocation events.
"""

import torch
from common import Table, finish
from gpt_step import demo, stepper

STEPS = 8


def leftover(count=100_000):
    torch.ones(4, device="neuron")
    before = torch.neuron.memory_allocated()
    sizes = (1, 17, 1000, 4096)
    kept = [None] * 64
    for i in range(count):
        kept[i % 64] = torch.empty(sizes[i % 4], device="neuron")
    kept.clear()
    torch.neuron.synchronize()
    return torch.neuron.memory_allocated() - before


def device_peaks(preset):
    """Bytes allocated at most in each step, beyond what was live before the model was made."""
    base, peaks = torch.neuron.memory_allocated(), []
    step = stepper(preset, "neuron")
    for _ in range(STEPS):
        torch.neuron.reset_peak_memory_stats()
        step()
        torch.neuron.synchronize()
        peaks.append(torch.neuron.max_memory_allocated() - base)
    return peaks


def cpu_peak(preset):
    """The most that CPU tensors hold at a time, from the model's making to the end of the third step."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step = stepper(preset, "cpu")
        for _ in range(3):
            step()
    live = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]" and event.device_type() == torch.autograd.DeviceType.CPU:
            live += event.nbytes()
            peak = max(peak, live)
    text = demo.Text(demo.HERE / "data" / "shakespeare.txt", preset, "cpu")
    return peak - 8 * (len(text.train) + len(text.validation))  # the text stays on the host on both devices


def main():
    table = Table("memory")
    table.goal("bytes left after 100,000 tensors", leftover(), most=0)
    preset = demo.PRESETS["demo"]
    peaks = device_peaks(preset)
    table.goal("peak after step 3 over peak of step 3", max(peaks[3:]) / peaks[2], most=1.0)
    table.goal("peak over CPU's", max(peaks) / cpu_peak(preset), most=1.1)
    finish(table)


if __name__ == "__main__":
    main()
