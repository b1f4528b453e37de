"""The backend behind torch.compile(backend="neuron"): Dynamo's graph goes through AOTAutograd, and the traced forward and
backward graphs run operator by operator on the device. A graph of host tensors is moved to the device (host_inputs.py)."""

import itertools
import logging
import time

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from torch_neuronx import _settings
from torch_neuronx.neuron_dynamo_backend import config, host_inputs, metrics

logger = logging.getLogger("torch_neuronx.compile")

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
OPTIONS = {"model_name": str, "fallback_execution": bool}

_numbers = itertools.count()


def _check_mode(mode):
    if mode is not None and mode not in MODES:
        raise ValueError(f"torch.compile(backend='neuron'): unknown mode {mode!r}; expected one of {', '.join(MODES)}")
    if mode not in (None, "default"):
        logger.info("mode %r has no effect: graphs run operator by operator", mode)


def _check_options(options):
    for name, value in (options or {}).items():
        if name not in OPTIONS:
            raise ValueError(f"torch.compile(backend='neuron'): unknown option {name!r}; expected {', '.join(sorted(OPTIONS))}")
        if not isinstance(value, OPTIONS[name]):
            raise TypeError(f"torch.compile(backend='neuron'): option {name!r} must be a {OPTIONS[name].__name__}, "
                            f"but got {type(value).__name__}")
    return dict(options or {})


def _is_collective(node):
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.namespace in ("_c10d_functional", "c10d")


class _Compiler:
    """Compiles one of the graphs that AOTAutograd traced."""

    def __init__(self, name, kind):
        self.name = name
        self.kind = kind

    def __call__(self, graph_module, example_inputs):
        start = time.perf_counter_ns()
        if not _settings.get("TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY"):
            host_inputs.move_to_device(graph_module)
        passes = time.perf_counter_ns()
        run = make_boxed_func(graph_module.forward)
        nodes = [node for node in graph_module.graph.nodes if node.op == "call_function"]
        metrics.record(name=self.name, kind=self.kind, nodes=len(nodes), collectives=sum(map(_is_collective, nodes)),
                       fx_pass_us=(passes - start) // 1000, lowering_us=0, compile_us=(time.perf_counter_ns() - passes) // 1000)
        logger.debug("%s, %s graph: %d operators", self.name, self.kind, len(nodes))
        return run


def neuron_backend(graph_module, example_inputs, *, mode=None, options=None):
    _check_mode(mode)
    options = _check_options(options)
    label = options.get("model_name") or config.get_model_name() or "graph"
    name = f"{label}_{next(_numbers)}"
    fallback = options.get("fallback_execution", not _settings.get("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION"))
    compiler = aot_autograd(fw_compiler=_Compiler(name, "forward"), bw_compiler=_Compiler(name, "backward"),
                            inference_compiler=_Compiler(name, "inference"))
    try:
        return compiler(graph_module, example_inputs)
    except Exception:
        if not fallback:
            raise
        logger.warning("%s: compilation failed, the graph runs eagerly", name, exc_info=True)
        return graph_module.forward
