"""Fused optimizer steps and the gradient scaler against CPU torch."""

import pytest
import torch

NEURON = torch.device("neuron", 0)
SHAPES = [(), (1,), (7,), (3, 5), (4097,), (2, 3, 4, 5)]


def parameters(dtype, device):
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES]
    tensors[-1] = tensors[-1].to(memory_format=torch.channels_last)
    return [torch.nn.Parameter(t.to(device)) for t in tensors]


def train(make, dtype, device, fused, steps=4):
    params = parameters(dtype, device)
    optimizer = make(params, fused)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(dtype).to(device)
        optimizer.step()
    return [p.detach().cpu() for p in params]


RULES = {
    "adamw": lambda p, fused: torch.optim.AdamW(p, lr=0.1, eps=1e-2, fused=fused),
    "adamw_amsgrad": lambda p, fused: torch.optim.AdamW(p, lr=0.1, eps=1e-2, amsgrad=True, weight_decay=0.3, fused=fused),
    "adam": lambda p, fused: torch.optim.Adam(p, lr=0.1, eps=1e-2, weight_decay=0.1, fused=fused),
    "adam_maximize": lambda p, fused: torch.optim.Adam(p, lr=0.1, eps=1e-2, maximize=True, betas=(0.5, 0.9), fused=fused),
    "sgd": lambda p, fused: torch.optim.SGD(p, lr=0.1, fused=fused),
    "sgd_momentum": lambda p, fused: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.1, fused=fused),
    "sgd_nesterov": lambda p, fused: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True, fused=fused),
    "adagrad": lambda p, fused: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1, fused=fused),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_fused_agrees_with_cpu(rule, dtype):
    torch.neuron.clear_op_tracking()
    got = train(RULES[rule], dtype, NEURON, fused=True)
    assert not [op for op in torch.neuron.get_fallback_ops() if "fused" in op]
    want = train(RULES[rule], dtype, "cpu", fused=False)
    for a, b in zip(got, want):
        if dtype in (torch.float32, torch.float64):
            torch.testing.assert_close(a, b, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-6)
        else:
            torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)


def test_tensor_rate_and_layouts():
    weights = [torch.randn(4, 6), torch.randn(4, 6)]
    results = []
    for device in ("cpu", NEURON):
        param = torch.nn.Parameter(weights[0].clone().to(device))
        optimizer = torch.optim.AdamW([param], lr=torch.tensor(0.05), fused=device is NEURON)
        param.grad = weights[1].t().contiguous().t().to(device)
        optimizer.step()
        results.append(param.detach().cpu())
    torch.testing.assert_close(*results)


def test_scaler_skips_on_overflow_and_grows():
    results = []
    for device in ("cpu", "neuron"):
        param = torch.nn.Parameter(torch.ones(3, device=device))
        optimizer = torch.optim.SGD([param], lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=4.0, growth_interval=2)
        trace = []
        for grad in (1.0, float("inf"), 2.0, 3.0, float("nan"), 1.0):
            param.grad = torch.full((3,), grad, device=device) * scaler.get_scale()
            scaler.scale(torch.ones(1, device=device))
            scaler.step(optimizer)
            scaler.update()
            trace.append((scaler.get_scale(), param.detach().cpu().tolist()))
        results.append(trace)
    assert results[0] == results[1]


def test_fused_scaler_passes_scale_and_flag():
    results = []
    for device in ("cpu", "neuron"):
        param = torch.nn.Parameter(torch.ones(3, device=device))
        optimizer = torch.optim.AdamW([param], lr=0.1, fused=True)
        scaler = torch.amp.GradScaler(device, init_scale=8.0)
        for grad in (1.0, float("inf"), 2.0):
            scaler.scale(torch.ones(1, device=device))
            param.grad = torch.full((3,), grad * 8.0, device=device)
            scaler.step(optimizer)
            scaler.update()
        results.append(param.detach().cpu())
    torch.testing.assert_close(*results)


def test_bad_lists_raise():
    a, b = torch.ones(3, device=NEURON), torch.ones(4, device=NEURON)
    with pytest.raises(RuntimeError, match="_fused_sgd_"):
        torch._fused_sgd_([a], [b], [], weight_decay=0, momentum=0, lr=0.1, dampening=0, nesterov=False,
                          maximize=False, is_first_step=True)
