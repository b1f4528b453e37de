"""torch_neuronx.profiling: not built yet. torch.profiler with ProfilerActivity.CPU works."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(f"torch_neuronx.profiling.{name}: profiling the device is not implemented yet; "
                              "torch.profiler with ProfilerActivity.CPU shows the host's side")
