"""Interpolation and padding against CPU torch, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

import torch_neuronx

from host_reference import ALL, FLOATS, compare, compare_gradients, normal, same_error, sample

TOLERANCE = {torch.float32: (2e-6, 2e-6), torch.float64: (1e-12, 1e-12), torch.bfloat16: (1.6e-2, 2e-2),
             torch.float16: (2e-3, 2e-3)}


def images(dims, dtype=torch.float32):
    return normal(2, 5, *(3, 6, 7)[3 - dims:], dtype=dtype)


def layouts(x):
    yield x
    if x.dim() > 3:
        yield x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)


SIZES = [dict(scale_factor=2), dict(scale_factor=1.7), dict(scale_factor=0.6, recompute_scale_factor=True), dict(size=5),
         dict(size=11)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest(mode, dims, dtype):
    for kwargs in SIZES:
        for x in layouts(images(dims, dtype)):
            compare(lambda x: F.interpolate(x, mode=mode, **kwargs), x, strides=dims == 2)
        rtol, atol = TOLERANCE[dtype]
        compare_gradients(lambda x: F.interpolate(x, mode=mode, **kwargs), images(dims, dtype), rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode, dims", [("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3)])
@pytest.mark.parametrize("align", [False, True])
def test_interpolation(mode, dims, align, dtype):
    rtol, atol = TOLERANCE[dtype]
    for kwargs in SIZES:
        for x in layouts(images(dims, dtype)):
            compare(lambda x: F.interpolate(x, mode=mode, align_corners=align, **kwargs), x, exact=False, rtol=rtol, atol=atol,
                    strides=False)
        if dtype != torch.float16:  # the CPU sums fp16 gradients in fp16
            compare_gradients(lambda x: F.interpolate(x, mode=mode, align_corners=align, **kwargs), images(dims, dtype),
                              rtol=rtol, atol=atol * (8 if dtype == torch.bfloat16 else 4))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding(mode, dims):
    for pads in ((1, 2), (2, 0, 1, 1), (1, 2, 0, 1, 2, 1)):
        if len(pads) != 2 * dims:
            continue
        for x in layouts(images(dims)):
            compare(lambda x: F.pad(x, pads, mode=mode), x, strides=False)
        compare_gradients(lambda x: F.pad(x, pads, mode=mode), images(dims))
        compare_gradients(lambda x: F.pad(x, pads, mode=mode), images(dims, torch.float64))
        compare(lambda x: F.pad(x, pads, mode=mode), images(dims)[0])
        compare(lambda x: F.pad(x, pads, mode=mode), images(dims, torch.bfloat16))
    same_error(lambda x: F.pad(x, (9, 9) + (0, 0) * (dims - 1), mode="reflect"), images(dims))
    same_error(lambda x: F.pad(x, (-5, -5) + (0, 0) * (dims - 1), mode=mode), images(dims))


def test_constant_padding():
    for dtype in ALL:
        compare(lambda x: F.pad(x, (1, 2, 0, 3), value=1), sample(3, 4, 5, dtype=dtype))
    compare(lambda x: F.pad(x, (-1, 2, -1, 0)), images(2))
    compare_gradients(lambda x: F.pad(x, (1, -2)), images(2))


# ---- bytes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode,dims", [("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 2)])
def test_nearest_bytes_are_equal(mode, dims):
    x = torch.arange(2 * 3 * 9 ** dims).remainder(251).to(torch.uint8).reshape(2, 3, *(9,) * dims)
    for size in (4, 20):
        expected = F.interpolate(x, size=(size,) * dims, mode=mode)
        assert torch.equal(F.interpolate(x.to("neuron"), size=(size,) * dims, mode=mode).cpu(), expected)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_interpolated_bytes(mode, align, layout):
    """The CPU rounds weights to 16 bits, so that a few results differ by one."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (2, 3, 17, 23), generator=generator, dtype=torch.uint8).contiguous(memory_format=layout)
    for size in ((7, 40), (40, 9), (60, 70)):
        expected = F.interpolate(x, size=size, mode=mode, align_corners=align)
        actual = F.interpolate(x.to("neuron"), size=size, mode=mode, align_corners=align).cpu()
        assert actual.dtype == torch.uint8 and actual.stride() == expected.stride()
        difference = (actual.int() - expected.int()).abs()
        assert difference.max() <= 1 and (difference != 0).float().mean() < 0.02


def test_other_modes_refuse_bytes():
    x = torch.zeros(1, 2, 5, dtype=torch.uint8)
    for value in (x, x.to("neuron")):
        with pytest.raises(NotImplementedError):
            F.interpolate(value, size=7, mode="linear")


# ---- antialiasing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode, align", [("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True),
                                         ("lanczos", False)])  # with align_corners torch refuses the last one
@pytest.mark.parametrize("size", [(5, 6), (3, 40), (31, 7), (1, 1), (17, 23)])
def test_antialiased(mode, align, size):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 17, 23, generator=generator, dtype=torch.float64)
    options = dict(size=size, mode=mode, align_corners=align, antialias=True)
    a, b = x.clone().requires_grad_(), x.to("neuron").requires_grad_()
    torch_neuronx._C.set_strict_mode(True)
    try:
        expected, actual = F.interpolate(a, **options), F.interpolate(b, **options)
        upstream = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
        expected.backward(upstream)
        actual.backward(upstream.to("neuron"))
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-10, atol=1e-10)
        for layout in (torch.contiguous_format, torch.channels_last):
            y = x.float().contiguous(memory_format=layout)
            torch.testing.assert_close(F.interpolate(y.to("neuron"), **options).cpu(), F.interpolate(y, **options), rtol=1e-4, atol=1e-5)
        if size == (1, 1):
            return  # the CPU's own kernel for bytes fails there
        byte = (x * 40 + 128).clamp(0, 255).to(torch.uint8)
        difference = F.interpolate(byte.to("neuron"), **options).cpu().int() - F.interpolate(byte, **options).int()
        assert difference.abs().max() <= 1
        half = x.bfloat16()
        exact = F.interpolate(half.double(), **options).bfloat16()
        torch.testing.assert_close(F.interpolate(half.to("neuron"), **options).cpu(), exact)
    finally:
        torch_neuronx._C.set_strict_mode(False)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_antialiased_by_scale_factor(mode):
    x = torch.arange(2 * 20 * 30.0).reshape(1, 2, 20, 30).sin()
    for factor in (0.37, (0.5, 1.7), 2.3):
        for recompute in (False, True):
            options = dict(scale_factor=factor, mode=mode, antialias=True, recompute_scale_factor=recompute)
            torch.testing.assert_close(F.interpolate(x.to("neuron"), **options).cpu(), F.interpolate(x, **options), rtol=1e-4, atol=1e-5)
