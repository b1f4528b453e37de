"""Grid sampling, affine grids, unfold and fold, shuffles of pixels and channels: against the CPU, natively."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

import torch_neuronx


@pytest.fixture(autouse=True)
def native():
    """A fallback to the host is an error."""
    torch_neuronx._C.set_strict_mode(True)
    yield
    torch_neuronx._C.set_strict_mode(False)


def normal(*shape, dtype=torch.float32, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(dtype)


def to(value):
    return value.to("neuron") if isinstance(value, torch.Tensor) else value


def refuse_alike(function, *args):
    with pytest.raises(Exception) as cpu:
        function(*args)
    with pytest.raises(cpu.type):
        function(*map(to, args))


CASES = [(d, m, p, a) for d, m, p, a in itertools.product((2, 3), ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"),
                                                           (False, True)) if (d, m) != (3, "bicubic")]


@pytest.mark.parametrize("dims,mode,padding,align", CASES)
def test_grid_sample(dims, mode, padding, align):
    shape, points = ((7, 9), (5, 11)) if dims == 2 else ((4, 5, 6), (3, 4, 7))
    x, grid = normal(2, 3, *shape, dtype=torch.float64), normal(2, *points, dims, dtype=torch.float64, seed=1)
    upstream = normal(2, 3, *points, dtype=torch.float64, seed=2)
    results = []
    for place in ("cpu", "neuron"):
        a, g = x.clone().to(place).requires_grad_(), grid.clone().to(place).requires_grad_()
        y = F.grid_sample(a, g, mode=mode, padding_mode=padding, align_corners=align)
        y.backward(upstream.to(place))
        results.append((y.detach().cpu(), a.grad.cpu(), g.grad.cpu()))
    for actual, expected in zip(results[1], results[0]):
        torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-11)
    single = F.grid_sample(x.float().to("neuron"), grid.float().to("neuron"), mode=mode, padding_mode=padding, align_corners=align).cpu()
    exact = F.grid_sample(x.float().double(), grid.float().double(), mode=mode, padding_mode=padding, align_corners=align)
    torch.testing.assert_close(single.double(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_width_is_rounded_once(dtype):
    x, grid = normal(2, 3, 8, 8).to(dtype), normal(2, 6, 6, 2, seed=1).clamp(-1, 1).to(dtype)
    exact = F.grid_sample(x.double(), grid.double(), align_corners=False)
    actual = F.grid_sample(x.to("neuron"), grid.to("neuron"), align_corners=False).cpu()
    assert actual.dtype == dtype
    torch.testing.assert_close(actual, exact.to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-3)


def test_layouts_and_shapes():
    x, grid = normal(3, 70, 6, 5), normal(3, 9, 8, 2, seed=1)
    for image, points in ((x.to(memory_format=torch.channels_last), grid), (x[:, ::7, 1:], grid.permute(0, 2, 1, 3)), (x[:1].expand(3, 70, 6, 5), grid),
                          (x[:, :1], normal(3, 2, 9, 8).permute(0, 2, 3, 1)), (x[:0], grid[:0]), (x[:, :0], grid), (x, grid[:, :0])):
        expected = F.grid_sample(image, points, align_corners=False)
        torch.testing.assert_close(F.grid_sample(image.to("neuron"), points.to("neuron"), align_corners=False).cpu(), expected, rtol=1e-4, atol=1e-5)


def test_points_that_are_not_finite():
    x = torch.arange(16.0).reshape(1, 1, 4, 4) + 1
    nan, inf = math.nan, math.inf
    grid = torch.tensor([[nan, 0], [inf, 0], [-inf, 0], [1e30, 0], [-1e30, 0], [0.1, nan], [0.1, 0.2], [7.3, -6.1]]).reshape(1, 1, 8, 2)
    for mode, padding in itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")):
        expected = F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False)
        actual = F.grid_sample(x.to("neuron"), grid.to("neuron"), mode=mode, padding_mode=padding, align_corners=False)
        torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, rtol=1e-5, atol=1e-5)


def test_an_image_with_nan_outside_the_sampled_points():
    x = torch.full((1, 1, 3, 3), math.nan)
    x[..., 1, 1] = 5
    grid = torch.zeros(1, 1, 1, 2) + 1e-8
    grid[...] = 0
    y = F.grid_sample(x.to("neuron"), grid.to("neuron"), mode="nearest", align_corners=True)
    assert y.item() == 5


def test_gradients_are_the_same_for_any_number_of_threads():
    x, grid = normal(2, 19, 33, 31).to("neuron").requires_grad_(), normal(2, 40, 41, 2, seed=1).to("neuron").requires_grad_()
    results = []
    for _ in range(2):
        results.append(torch.autograd.grad(F.grid_sample(x, grid, align_corners=False).square().sum(), (x, grid)))
    for first, second in zip(*results):
        assert torch.equal(first, second)


def test_what_grid_sample_refuses():
    x, grid = normal(2, 3, 4, 4), normal(2, 5, 5, 2)
    for args in ((x, grid[:1]), (x, grid[..., :1]), (x[0], grid), (x, grid.double()), (x.long(), grid.long()), (x[:, :, :0], grid)):
        refuse_alike(lambda a, g: F.grid_sample(a, g, align_corners=False), *args)
    refuse_alike(lambda a, g: F.grid_sample(a, g, mode="bicubic", align_corners=False), normal(1, 1, 2, 2, 2), normal(1, 2, 2, 2, 3))
    with pytest.raises(RuntimeError):
        F.grid_sample(x.to("neuron"), grid, align_corners=False)


@pytest.mark.parametrize("size", [(2, 3, 5, 7), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("align", [False, True])
def test_affine_grid(size, align):
    theta = normal(2, len(size) - 2, len(size) - 1)
    a, b = theta.clone().requires_grad_(), theta.to("neuron").requires_grad_()
    expected, actual = F.affine_grid(a, size, align_corners=align), F.affine_grid(b, size, align_corners=align)
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-5)
    expected.square().sum().backward()
    actual.square().sum().backward()
    torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-4, atol=1e-4)


WINDOWS = [dict(kernel_size=3), dict(kernel_size=(2, 3), stride=2), dict(kernel_size=3, padding=2), dict(kernel_size=2, dilation=3),
           dict(kernel_size=(3, 1), padding=(1, 0), stride=(1, 3), dilation=(2, 1)), dict(kernel_size=(1, 5), padding=(0, 4), stride=(4, 5))]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_unfold_and_fold(window, dtype):
    x = (normal(2, 3, 9, 11, dtype=torch.float64) * (1 + 1j if dtype.is_complex else 1)).to(dtype)
    for value in (x, x.transpose(2, 3).contiguous().transpose(2, 3), x.to(memory_format=torch.channels_last), x[:, ::2], x[0]):
        columns = F.unfold(value, **window)
        torch.testing.assert_close(F.unfold(value.to("neuron"), **window).cpu(), columns, rtol=0, atol=0)
        wide = torch.complex128 if dtype.is_complex else torch.float64
        exact = F.fold(columns.to(wide), (9, 11), **window).to(dtype)
        torch.testing.assert_close(F.fold(columns.to("neuron"), (9, 11), **window).cpu(), exact)
        strided = columns.transpose(-1, -2).contiguous().transpose(-1, -2)
        torch.testing.assert_close(F.fold(strided.to("neuron"), (9, 11), **window).cpu(), exact)
    if dtype == torch.float32:
        a, b = x.clone().requires_grad_(), x.to("neuron").requires_grad_()
        F.unfold(a, **window).square().sum().backward()
        F.unfold(b, **window).square().sum().backward()
        torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_unfold_of_bool_and_empty():
    x = normal(2, 3, 5, 5) > 0
    columns = F.unfold(x, 2)
    assert torch.equal(F.unfold(x.to("neuron"), 2).cpu(), columns)
    assert torch.equal(F.fold(columns.to("neuron"), (5, 5), 2).cpu(), F.fold(columns, (5, 5), 2))
    assert F.unfold(torch.ones(0, 3, 5, 5).to("neuron"), 2).shape == F.unfold(torch.ones(0, 3, 5, 5), 2).shape


def test_what_unfold_and_fold_refuse():
    x, columns = normal(2, 3, 5, 5), normal(2, 12, 16)
    for window in (dict(kernel_size=6), dict(kernel_size=0), dict(kernel_size=2, stride=0), dict(kernel_size=2, dilation=0),
                   dict(kernel_size=2, padding=-1)):
        refuse_alike(lambda a: F.unfold(a, **window), x)
        refuse_alike(lambda a: F.fold(a, (5, 5), **window), columns)
    refuse_alike(lambda a: F.unfold(a, 2), x.long())
    refuse_alike(lambda a: F.unfold(a, 2), x[0, 0])
    refuse_alike(lambda a: F.fold(a, (5, 6), 2), columns)
    refuse_alike(lambda a: F.fold(a, (5, 5), 2), normal(2, 11, 16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
def test_shuffles(dtype):
    x = (normal(2, 8, 6, 4, scale=3.0)).to(dtype)
    for function in (lambda a: F.channel_shuffle(a, 4), lambda a: F.channel_shuffle(a.to(memory_format=torch.channels_last), 2),
                     lambda a: F.pixel_shuffle(a, 2), lambda a: F.pixel_unshuffle(a, 2), lambda a: torch.native_channel_shuffle(a, 2)):
        actual, expected = function(x.to("neuron")).cpu(), function(x)
        assert torch.equal(actual, expected) and actual.stride() == expected.stride()
    for bad in (lambda a: F.channel_shuffle(a, 3), lambda a: F.channel_shuffle(a, 0), lambda a: F.pixel_shuffle(a, 3), lambda a: F.pixel_unshuffle(a, 5)):
        refuse_alike(bad, x)
