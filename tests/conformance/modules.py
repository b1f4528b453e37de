"""The check of one module of module_db in one dtype: forward, parameter gradients and input gradients, train and eval."""

import copy
import warnings

import torch
from torch.nn.parameter import is_lazy
from torch.testing._internal.common_modules import module_db

from .compare import DEVICE, Mover, leaves, same, tolerance, widened
from .operators import Unsupported, differentiable

MODULES = {info.name: info for info in module_db}
DTYPES = (torch.float32, torch.float64)
RANDOM = ("Dropout", "RReLU", "FractionalMaxPool")
INPUTS = 6


def units():
    for info in module_db:
        for dtype in DTYPES:
            if dtype in info.dtypes:
                yield info.name, str(dtype).removeprefix("torch.")


class Filled:
    """The same positional and keyword arguments on a device."""

    def __init__(self, forward_input, device, transform=lambda tree: tree):
        move = Mover(device)
        self.args, self.kwargs = transform(move(tuple(forward_input.args))), transform(move(dict(forward_input.kwargs)))


def evaluate(module, inputs):
    """Results, then the gradients of inputs and parameters for a fixed cotangent."""
    torch.manual_seed(0)
    results = module(*inputs.args, **inputs.kwargs)
    float_results = [r for r in leaves(results) if isinstance(r, torch.Tensor) and r.requires_grad]
    wanted = differentiable(inputs.args, inputs.kwargs) + [p for p in module.parameters() if p.requires_grad]
    if not float_results or not wanted:
        return results, ()
    generator = torch.Generator().manual_seed(1)
    seeds = [torch.randn(r.shape, generator=generator).to(r.dtype).to(r.device) for r in float_results]
    return results, torch.autograd.grad(float_results, wanted, seeds, allow_unused=True)


def compare(info, dtype, training):
    torch.manual_seed(0)
    found = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    done = 0
    for module_input in found[::max(1, len(found) // INPUTS)][:INPUTS]:
        if module_input.forward_input is None:
            continue
        constructor = module_input.constructor_input
        torch.manual_seed(0)
        module = info.module_cls(*constructor.args, **constructor.kwargs).to(dtype).train(training)
        if any(is_lazy(t) for t in (*module.parameters(), *module.buffers())):  # parameters are drawn by the first call
            module(*Filled(module_input.forward_input, "cpu").args)
        try:
            expected = evaluate(copy.deepcopy(module), Filled(module_input.forward_input, "cpu"))
        except Exception:
            continue
        done += 1
        dropout = any(m.__class__.__name__.startswith(RANDOM) for m in module.modules()) or getattr(module, "dropout", 0)
        on_device = copy.deepcopy(module).to(DEVICE)
        actual = evaluate(on_device, Filled(module_input.forward_input, DEVICE))

        def exact(module=module, given=module_input.forward_input):
            return evaluate(copy.deepcopy(module).double(), Filled(given, "cpu", grown))

        same(actual, expected, tolerance(info, dtype), exact, metadata_only=bool(dropout and training))
    if not done:
        raise Unsupported


def grown(tree):
    wide = widened(tree)
    for new, old in zip(leaves(wide), leaves(tree)):
        if isinstance(new, torch.Tensor) and new is not old:
            new.requires_grad_(old.requires_grad)
    return wide


def checks(name, dtype):
    info, dtype = MODULES[name], getattr(torch, dtype)

    def run(training):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compare(info, dtype, training)

    yield "train", lambda: run(True)
    if info.train_and_eval_differ:
        yield "eval", lambda: run(False)
