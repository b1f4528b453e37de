"""Operators over lists of tensors: one launch for plain lists, ATen's loop for the others."""

import pytest
import torch

import torch_neuronx  # noqa: F401

UNARY = ["sqrt", "rsqrt", "reciprocal", "neg", "abs", "sign", "exp", "log", "sigmoid", "tanh"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max"]


def tensors(seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(3, 5), (1,), (), (200, 31), (7,)]
    return [torch.rand(shape, generator=generator).add(0.1).to(dtype) for shape in shapes]


def on_device(argument):
    if isinstance(argument, list):
        return [on_device(item) for item in argument]
    return argument.to("neuron") if isinstance(argument, torch.Tensor) else argument


def check(name, *args):
    """Functional and in-place forms agree with the CPU."""
    function, in_place = getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_")
    expected = function(*args)
    ours = [on_device(argument) for argument in args]
    for actual, want in zip(function(*ours), expected, strict=True):
        assert actual.device.type == "neuron"
        torch.testing.assert_close(actual.cpu(), want)
    in_place(*ours)
    for actual, want in zip(ours[0], expected, strict=True):
        torch.testing.assert_close(actual.cpu(), want)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        check(name, tensors(dtype=dtype))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    a, b = tensors(), tensors(1)
    check(name, a, b)
    check(name, a, 0.5)
    check(name, tensors(dtype=torch.bfloat16), tensors(1, torch.bfloat16))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_scalar_lists(name):
    check(name, tensors(), [0.5, 2.0, 3, 4.0, -1.0])


def test_one_launch_serves_the_list():
    ours = on_device(tensors())
    torch.neuron.clear_op_tracking()
    torch._foreach_mul_(ours, 2.0)
    assert [(name, count) for name, count in torch_neuronx._C.executed_ops()] == [("aten::_foreach_mul.List", 1)]


def test_mixed_dtypes_take_the_loop():
    a, b = [torch.arange(5), torch.ones(3)], [torch.ones(5), torch.ones(3, dtype=torch.float64)]
    for actual, want in zip(torch._foreach_mul(on_device(a), on_device(b)), torch._foreach_mul(a, b), strict=True):
        torch.testing.assert_close(actual.cpu(), want)


def test_alpha():
    expected = torch._foreach_add(tensors(), tensors(1), alpha=2)
    for actual, want in zip(torch._foreach_add(on_device(tensors()), on_device(tensors(1)), alpha=2), expected, strict=True):
        torch.testing.assert_close(actual.cpu(), want)


def test_one_tensor_for_all():
    check("mul", tensors(), torch.tensor(0.25))
    check("div", tensors(), torch.tensor(0.25))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_three_lists(name):
    check(name, tensors(), tensors(1), tensors(2), 0.5)
    check(name, tensors(), tensors(1), tensors(2), [0.5, 2.0, 3.0, 4.0, -1.0])


def test_lerp_and_pow():
    check("lerp", tensors(), tensors(1), 0.3)
    check("lerp", tensors(), tensors(1), tensors(2))
    for exponent in (2, 0.5, 1.7):
        check("pow", tensors(), exponent)


def test_zero_copy_and_norm():
    ours = on_device(tensors())
    torch._foreach_copy_(ours, on_device(tensors(1)))
    for actual, want in zip(ours, tensors(1), strict=True):
        torch.testing.assert_close(actual.cpu(), want, rtol=0, atol=0)
    for actual, want in zip(torch._foreach_norm(ours), torch._foreach_norm(tensors(1)), strict=True):
        torch.testing.assert_close(actual.cpu(), want)
    torch._foreach_zero_(ours)
    assert all(tensor.cpu().eq(0).all() for tensor in ours)


def test_bad_lists():
    a = on_device(tensors())
    with pytest.raises(RuntimeError):
        torch._foreach_add(a, a[:2])
    with pytest.raises(RuntimeError):
        torch._foreach_add_(a, [1.0, 2.0])
    with pytest.raises(RuntimeError):
        torch._foreach_add([torch.ones(3, device="neuron")], [torch.ones(4, device="neuron")])


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True), lambda p: torch.optim.Adam(p, lr=0.01, foreach=True, amsgrad=True),
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.1, foreach=True),
    lambda p: torch.optim.RMSprop(p, lr=0.01, foreach=True, centered=True)], ids=["adamw", "adam", "sgd", "rmsprop"])
def test_optimizers(make):
    host = [torch.nn.Parameter(tensor) for tensor in tensors()]
    ours = [torch.nn.Parameter(tensor.to("neuron")) for tensor in tensors()]
    for parameters in (host, ours):
        optimizer = make(parameters)
        for step in range(4):
            for parameter, grad in zip(parameters, tensors(step + 5), strict=True):
                parameter.grad = (grad - 0.5).to(parameter.device)
            torch.nn.utils.clip_grad_norm_(parameters, 0.7, foreach=True)
            optimizer.step()
    for actual, want in zip(ours, host, strict=True):
        torch.testing.assert_close(actual.detach().cpu(), want.detach())
