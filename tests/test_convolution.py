"""Convolution forward and backward against the host."""

import pytest
import torch
import torch.nn.functional as F

import torch_neuronx  # noqa: F401

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12, torch.bfloat16: 3e-2, torch.float16: 4e-3}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def compare(function, x, w, b=None, dtype=torch.float32, memory_format=torch.contiguous_format, **options):
    """Runs `function` on both sides: the host in fp64 on the rounded arguments."""
    x, w = x.to(dtype).contiguous(memory_format=memory_format), w.to(dtype)
    arguments = [t for t in (x, w, None if b is None else b.to(dtype)) if t is not None]
    exact = [t.double().clone().requires_grad_() for t in arguments]
    device = [t.to("neuron").requires_grad_() for t in arguments]
    expected, actual = function(*exact, **options), function(*device, **options)
    grad = torch.randn(expected.shape).to(dtype)
    expected.backward(grad.double())
    actual.backward(grad.to("neuron"))
    tolerance = TOLERANCE[dtype]
    for got, want in ((actual.detach(), expected.detach()), *((a.grad, e.grad) for a, e in zip(device, exact))):
        assert got.dtype == dtype and got.shape == want.shape
        scale = max(1.0, want.abs().max().item())
        torch.testing.assert_close(got.cpu().double(), want, rtol=tolerance, atol=tolerance * scale)
    return actual


CASES_2D = (
    ((2, 3, 9, 11), (5, 3, 3, 3), {}),
    ((2, 3, 9, 11), (5, 3, 3, 3), dict(padding=1)),
    ((2, 4, 9, 11), (6, 2, 3, 2), dict(padding=(2, 1), stride=(2, 3), groups=2)),
    ((2, 4, 12, 13), (6, 4, 3, 3), dict(dilation=(2, 3), padding=3)),
    ((3, 6, 10, 10), (6, 1, 3, 3), dict(padding=1, groups=6)),
    ((3, 4, 10, 10), (12, 1, 5, 5), dict(stride=2, groups=4)),
    ((2, 16, 7, 7), (8, 16, 1, 1), {}),
    ((2, 16, 7, 7), (8, 16, 1, 1), dict(stride=2)),
    ((2, 3, 4, 1), (4, 3, 3, 1), dict(padding=(1, 0))),
    ((3, 8, 9, 1), (4, 8, 1, 1), {}),
)


@pytest.mark.parametrize("case", CASES_2D, ids=str)
@pytest.mark.parametrize("memory_format", (torch.contiguous_format, torch.channels_last), ids=str)
def test_conv2d(case, memory_format):
    x, w, options = case
    out = compare(F.conv2d, torch.randn(x), torch.randn(w), torch.randn(w[0]), memory_format=memory_format, **options)
    if memory_format == torch.channels_last:
        assert out.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("memory_format", (torch.contiguous_format, torch.channels_last), ids=str)
def test_dtypes(dtype, memory_format):
    compare(F.conv2d, torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3), torch.randn(6), dtype=dtype, padding=1,
            memory_format=memory_format)
    compare(F.conv_transpose2d, torch.randn(2, 4, 5, 5), torch.randn(4, 3, 3, 3), torch.randn(3), dtype=dtype, stride=2)


def test_conv1d_and_conv3d():
    compare(F.conv1d, torch.randn(2, 4, 33), torch.randn(6, 4, 5), torch.randn(6), padding=2, stride=2)
    compare(F.conv1d, torch.randn(2, 8, 33), torch.randn(8, 1, 4), torch.randn(8), padding=3, groups=8)
    compare(F.conv3d, torch.randn(2, 3, 5, 6, 7), torch.randn(4, 3, 3, 2, 3), torch.randn(4), padding=(1, 0, 1), stride=(2, 1, 2))
    compare(F.conv3d, torch.randn(1, 4, 5, 6, 7), torch.randn(4, 2, 2, 2, 2), groups=2, dilation=2,
            memory_format=torch.channels_last_3d)


@pytest.mark.parametrize("options", ({}, dict(stride=2), dict(stride=(2, 3), padding=1, output_padding=(1, 2)),
                                     dict(groups=2, dilation=2, padding=2)), ids=str)
def test_transposed(options):
    filters = 3 if options.get("groups", 1) == 1 else 2
    compare(F.conv_transpose2d, torch.randn(2, 4, 6, 5), torch.randn(4, filters, 3, 3),
            torch.randn(filters * options.get("groups", 1)), **options)
    compare(F.conv_transpose1d, torch.randn(2, 4, 9), torch.randn(4, 3, 4), torch.randn(3), stride=2)
    compare(F.conv_transpose3d, torch.randn(1, 2, 3, 4, 5), torch.randn(2, 3, 2, 3, 2), stride=(1, 2, 2))


def test_many_blocks_of_positions():
    compare(F.conv2d, torch.randn(9, 16, 29, 31), torch.randn(24, 16, 3, 3), torch.randn(24), padding=1)


def test_no_batch_dimension_and_empty_batch():
    x, w = torch.randn(3, 8, 8), torch.randn(4, 3, 3, 3)
    torch.testing.assert_close(F.conv2d(x.to("neuron"), w.to("neuron")).cpu(), F.conv2d(x, w), rtol=2e-5, atol=2e-5)
    empty, filters = torch.empty(0, 3, 8, 8, device="neuron").requires_grad_(), w.to("neuron").requires_grad_()
    out = F.conv2d(empty, filters)
    assert out.shape == (0, 4, 6, 6)
    out.sum().backward()
    assert torch.equal(filters.grad.cpu(), torch.zeros_like(w))


def test_expanded_gradient():
    x, w = torch.randn(2, 3, 8, 8).to("neuron").requires_grad_(), torch.randn(4, 3, 3, 3).to("neuron").requires_grad_()
    F.conv2d(x, w).sum().backward()
    y, v = x.detach().cpu().requires_grad_(), w.detach().cpu().requires_grad_()
    F.conv2d(y, v).sum().backward()
    torch.testing.assert_close(w.grad.cpu(), v.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(x.grad.cpu(), y.grad, rtol=1e-4, atol=1e-4)


def test_same_bits_for_any_number_of_threads():
    before = torch.get_num_threads()
    x, w = torch.randn(5, 8, 20, 20).to("neuron").requires_grad_(), torch.randn(16, 8, 3, 3).to("neuron").requires_grad_()
    results = []
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            out = F.conv2d(x, w, padding=1)
            results.append([t.cpu() for t in (out, *torch.autograd.grad(out.square().sum(), (x, w)))])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other))


def test_gradcheck():
    def inputs(*shapes):
        return tuple(torch.randn(shape, dtype=torch.float64).to("neuron").requires_grad_() for shape in shapes)

    assert torch.autograd.gradcheck(lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), inputs((1, 2, 5, 5), (2, 2, 3, 3), (2,)))
    assert torch.autograd.gradcheck(lambda x, w: F.conv_transpose2d(x, w, stride=2), inputs((1, 2, 3, 3), (2, 2, 2, 2)))


@pytest.mark.parametrize("call", (
    lambda d: F.conv2d(torch.ones(1, 3, 4, 4, device=d), torch.ones(2, 4, 3, 3, device=d)),
    lambda d: F.conv2d(torch.ones(1, 3, 2, 2, device=d), torch.ones(2, 3, 3, 3, device=d)),
    lambda d: F.conv2d(torch.ones(1, 3, 4, 4, device=d), torch.ones(2, 3, 3, 3, device=d, dtype=torch.float64)),
    lambda d: F.conv2d(torch.ones(1, 3, 4, 4, device=d), torch.ones(2, 3, 3, 3, device=d), stride=0),
), ids=str)
def test_errors_are_those_of_the_host(call):
    with pytest.raises(Exception) as expected:
        call("cpu")
    with pytest.raises(type(expected.value)):
        call("neuron")
