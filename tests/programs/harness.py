"""Trains a model some steps on a device and compares what happened with the CPU.

The device runs in strict mode: an operator that would run on the host is an error. Model and data are made on the CPU, so
that both devices start from the same bits.
"""

import contextlib
from dataclasses import dataclass, field

import torch
from torch_neuronx import _C
from torch import nn

# Largest relative difference of a loss from the CPU's, per compute dtype. Autocast rounds every activation; the two
# devices do not cast at the same places (the CPU has its own list of operators), so there the bound is the dtype's step.
LOSS_TOLERANCE = {None: 5e-5, torch.bfloat16: 2e-2, torch.float16: 5e-3}
GRADIENT_TOLERANCE = {None: 1e-4, torch.bfloat16: 8e-2, torch.float16: 2e-2}


@contextlib.contextmanager
def strict():
    """No operator may run on the host inside."""
    before = _C.strict_mode()
    _C.set_strict_mode(True)
    try:
        yield
    finally:
        _C.set_strict_mode(before)


@dataclass
class Recipe:
    """How to train: the optimizer as a function of the parameters, and what is around the step."""
    optimizer: object = lambda parameters: torch.optim.AdamW(parameters, lr=1e-3)
    autocast: torch.dtype = None
    scaler: bool = False
    clip: float = None
    steps: int = 4


@dataclass
class Record:
    losses: list = field(default_factory=list)
    gradients: dict = field(default_factory=dict)  # of the first step, unscaled
    state: dict = field(default_factory=dict)      # after the last step


def train(build, loss_of, batches, device, recipe):
    """`build()` makes the model, `loss_of(model, *batch)` the loss; batches are reused in turn."""
    torch.manual_seed(0)
    model = build().to(device)
    optimizer = recipe.optimizer(model.parameters())
    scaler = torch.amp.GradScaler(device, enabled=recipe.scaler, init_scale=1024.0)
    autocast = torch.autocast(device, dtype=recipe.autocast or torch.bfloat16, enabled=recipe.autocast is not None)
    record = Record()
    for step in range(recipe.steps):
        batch = [t.to(device) for t in batches[step % len(batches)]]
        with autocast:
            loss = loss_of(model, *batch)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if step == 0:
            record.gradients = {n: p.grad.cpu().clone() for n, p in model.named_parameters() if p.grad is not None}
        if recipe.clip:
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        scaler.step(optimizer)
        scaler.update()
        record.losses.append(loss.item())
    record.state = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    return record, model


def check_against_cpu(build, loss_of, batches, recipe=None):
    """Trains on both devices, compares them, and returns the neuron device's record and model."""
    recipe = recipe or Recipe()
    expected, _ = train(build, loss_of, batches, "cpu", recipe)
    with strict():
        actual, model = train(build, loss_of, batches, "neuron", recipe)
    limit = LOSS_TOLERANCE[recipe.autocast]
    for step, (ours, theirs) in enumerate(zip(actual.losses, expected.losses)):
        assert abs(ours - theirs) <= limit * abs(theirs), f"step {step}: losses {actual.losses}, CPU {expected.losses}"
    assert actual.gradients.keys() == expected.gradients.keys()
    limit = GRADIENT_TOLERANCE[recipe.autocast]
    largest = max(float(g.abs().max()) for g in expected.gradients.values())
    for name, gradient in expected.gradients.items():
        assert actual.gradients[name].dtype == gradient.dtype and actual.gradients[name].shape == gradient.shape
        difference = float((actual.gradients[name] - gradient).abs().max())
        bound = limit * float(gradient.abs().max()) + 1e-2 * limit * largest
        assert difference <= bound, f"gradient of {name} differs by {difference:.3g}, allowed {bound:.3g}"
    return actual, expected, model
