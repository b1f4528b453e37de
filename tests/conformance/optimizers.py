"""The check of one optimizer of optim_db: some steps in every implementation that it has, with every set of options."""

import copy
import warnings

import torch
from torch.testing._internal.common_optimizers import optim_db

from .compare import DEVICE, same
from .operators import Unsupported

OPTIMIZERS = {info.name: info for info in optim_db}
STEPS = 4


def units():
    for info in optim_db:
        yield info.name, "float32"


def parameters(info, device):
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 6), (3, 5)] if info.name == "Muon" else [(4, 6), (7,), (2, 3, 2), ()]
    return [torch.randn(shape, generator=generator).to(device).requires_grad_() for shape in shapes]


def gradient(info, like, generator):
    values = torch.randn(like.shape, generator=generator)
    if info.only_supports_sparse_grads:
        values = values.to_sparse()
    return values.to(like.device)


def train(info, kwargs, device):
    """Parameters and state after some steps with fixed gradients."""
    params = parameters(info, device)
    optimizer = info.optim_cls(params, **copy.deepcopy(kwargs))
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        if info.step_requires_closure:
            def closure():
                optimizer.zero_grad()
                loss = sum((p * p).sum() for p in params)
                loss.backward()
                return loss
            optimizer.step(closure)
            continue
        for p in params:
            p.grad = gradient(info, p, generator)
        optimizer.step()
    state = [v for p in params for k, v in sorted(optimizer.state[p].items()) if isinstance(v, torch.Tensor) and k != "step"]
    # Optimizers may keep their numbers, 0-dim tensors, on the host.
    return [p.detach() for p in params] + [v.to(device) if v.dim() == 0 else v for v in state]


def options(info, implementation):
    """The option sets of the database that this implementation accepts."""
    for given in info.optim_inputs_func(device="cpu"):
        kwargs = dict(given.kwargs)
        if isinstance(kwargs.get("lr"), torch.Tensor) and implementation == "foreach" and not kwargs.get("capturable"):
            continue
        if implementation != "single":
            kwargs[implementation] = True
        elif "foreach" in info.supported_impls:
            kwargs["foreach"] = False
        yield kwargs


def compare(info, implementation):
    done = 0
    for kwargs in options(info, implementation):
        try:
            expected = train(info, kwargs, "cpu")
        except Exception:
            continue
        done += 1
        try:
            same(train(info, kwargs, DEVICE), expected)
        except Exception as error:
            error.sample = str(kwargs)
            raise
    if not done:
        raise Unsupported


def checks(name, dtype):
    info = OPTIMIZERS[name]

    def run(implementation):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compare(info, implementation)

    yield "single", lambda: run("single")
    for implementation in ("foreach", "fused"):
        if implementation in info.supported_impls:
            yield implementation, lambda implementation=implementation: run(implementation)
