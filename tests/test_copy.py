"""Copies, conversions and fills against CPU torch."""

import itertools
import math

import pytest
import torch

import torch_neuronx  # noqa: F401

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
SMALL = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
COMPLEX = [torch.complex64, torch.complex128]


def bits(tensor):
    """Bytes with all NaNs made equal."""
    host = tensor.cpu()
    if host.is_floating_point():
        wide = host.double()
        return torch.where(wide.isnan(), math.nan, wide)
    return host


def same(actual, expected):
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    torch.testing.assert_close(bits(actual), bits(expected), rtol=0, atol=0, equal_nan=True)


def values(dtype):
    x = torch.cat([torch.linspace(-100, 100, 603, dtype=torch.float64), torch.tensor([0.0, 0.5, 1.5, 2.5, -0.75])])
    return x.to(dtype) if dtype not in (torch.uint8, torch.bool) else x.abs().to(dtype)


@pytest.mark.parametrize("source", FLOATS + SMALL + INTEGERS + COMPLEX, ids=str)
def test_conversions(source):
    for target in FLOATS + SMALL + INTEGERS + COMPLEX:
        x = values(torch.float32).abs().to(source) if target == torch.uint8 else values(source)
        same(x.to("neuron").to(target), x.to(target))


@pytest.mark.parametrize("target", FLOATS + SMALL, ids=str)
def test_roundings_and_special_values(target):
    generator = torch.Generator().manual_seed(0)
    pattern = torch.randint(-2**31, 2**31, (20000,), generator=generator, dtype=torch.int64).to(torch.int32)
    near = (torch.randn(20000, generator=generator) * 2.0 ** torch.randint(-20, 20, (20000,), generator=generator)).float()
    special = torch.tensor([math.inf, -math.inf, math.nan, 65504, 65520, 448, 464, 465, 480, 240, 57344, 61440, 61441, 1e-8, -0.0])
    x = torch.cat([pattern.view(torch.float32), near, special])
    same(x.to("neuron").to(target), x.to(target))


@pytest.mark.parametrize("source", SMALL + [torch.float8_e8m0fnu], ids=str)
def test_all_codes_of_small_floats(source):
    x = torch.arange(256).to(torch.uint8).view(source)
    same(x.to("neuron").float(), x.float())


def test_scale_format():
    x = torch.tensor([0.0, 1.0, 1.4, 1.5, 1.6, 2.9, 3.0, 1e-40, 3e38, math.inf, math.nan, 2.0**-127])
    same(x.to("neuron").to(torch.float8_e8m0fnu).float(), x.to(torch.float8_e8m0fnu).float())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.float64, torch.complex128], ids=str)
def test_layouts(dtype):
    x = torch.arange(5 * 37 * 70).reshape(5, 37, 70).to(dtype)
    y = x.to("neuron")
    for order in itertools.permutations(range(3)):
        same(y.permute(order).contiguous(), x.permute(order).contiguous())
        target = torch.zeros(x.permute(order).shape, dtype=dtype, device="neuron")
        target.copy_(y.permute(order))
        same(target, x.permute(order))
        same(y.permute(order).float() if not dtype.is_complex else y, x.permute(order).float() if not dtype.is_complex else x)
    same(y[:, ::3, 1::2].clone(), x[:, ::3, 1::2].clone())
    same(y[:, :1].expand(5, 37, 70).contiguous(), x[:, :1].expand(5, 37, 70).contiguous())
    target = torch.zeros(5, 37, 140, dtype=dtype, device="neuron")
    target[:, :, ::2] = y
    same(target[:, :, ::2], x)
    assert target[:, :, 1::2].cpu().eq(0).all()


def test_large():
    x = torch.arange(3_000_000).float()
    same(x.to("neuron").clone(), x)
    same(x.to("neuron").view(1500, 2000).t().contiguous(), x.view(1500, 2000).t().contiguous())
    same(x.to("neuron").to(torch.bfloat16), x.to(torch.bfloat16))


def test_host_and_device_with_strides():
    x = torch.arange(60.0).reshape(6, 10)
    device = torch.zeros(10, 6, device="neuron")
    device.copy_(x.t())
    same(device, x.t())
    host = torch.zeros(6, 10, dtype=torch.float64)
    host.copy_(device.t())
    same(host, x.double())
    same(device.t()[1:, ::2].cpu(), x[1:, ::2])


def test_conjugates():
    z = torch.view_as_complex(torch.arange(20.0).reshape(10, 2))
    same(z.to("neuron").conj().clone(), z.conj().clone())
    same(z.to("neuron").conj().imag.clone(), z.conj().imag.clone())
    same(z.to("neuron").conj().to(torch.complex128), z.conj().to(torch.complex128))


@pytest.mark.parametrize("dtype", FLOATS + SMALL + INTEGERS + COMPLEX, ids=str)
def test_fills(dtype):
    for value in (0, 1, 2.5 if dtype not in INTEGERS else 3):
        x, y = torch.empty(7, 9, dtype=dtype), torch.empty(7, 9, dtype=dtype, device="neuron")
        same(y.fill_(value), x.fill_(value))
        x.zero_(), y.zero_()
        x[:, ::2].fill_(value), y[:, ::2].fill_(value)
        same(y, x)
        x.t()[3:5].zero_(), y.t()[3:5].zero_()
        same(y, x)


@pytest.mark.parametrize("shapes", [((2, 3), (4,)), ((2, 3), (2, 3, 4)), ((0,), (4,)), ((), (1,)), ((1,), (1, 1))])
@pytest.mark.parametrize("devices", [("neuron", "neuron"), ("neuron", "cpu"), ("cpu", "neuron")])
def test_shapes_that_do_not_fit_are_refused(shapes, devices):
    target, source = (torch.ones(shape, device=device) for shape, device in zip(shapes, devices))
    with pytest.raises(RuntimeError, match="cannot be broadcast"):
        target.copy_(source)
    assert target.sum().item() == target.numel()


@pytest.mark.parametrize("devices", [("neuron", "neuron"), ("neuron", "cpu"), ("cpu", "neuron")])
def test_broadcasting(devices):
    target, source = torch.zeros(2, 3, device=devices[0]), torch.arange(3.0, device=devices[1])
    assert target.copy_(source) is target
    assert target.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert target.copy_(torch._efficientzerotensor((2, 3), device=devices[1])).tolist() == [[0, 0, 0], [0, 0, 0]]
