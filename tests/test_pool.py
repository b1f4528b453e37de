"""Pooling and unpooling against CPU torch, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

from host_reference import FLOATS, compare, compare_gradients, normal, same_error, sample

TOLERANCE = {torch.float32: (1.3e-6, 1e-6), torch.float64: (1e-12, 1e-12), torch.bfloat16: (1.6e-2, 1e-2),
             torch.float16: (1e-3, 1e-3)}


def images(dims, dtype=torch.float32, batch=True):
    sizes = (7, 10, 9)[3 - dims:] if dims < 3 else (7, 10, 9)
    return normal(*((2, 5) if batch else (5,)), *sizes, dtype=dtype)


def layouts(x):
    yield x
    if x.dim() in (4, 5):
        yield x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
    yield x.transpose(-1, -2).contiguous().transpose(-1, -2)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_average(dims, dtype):
    pool = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][dims - 1]
    rtol, atol = TOLERANCE[dtype]
    options = [dict(kernel_size=2), dict(kernel_size=3, stride=2, padding=1), dict(kernel_size=3, stride=2, ceil_mode=True),
               dict(kernel_size=3, padding=1, count_include_pad=False), dict(kernel_size=4, stride=3, padding=2, ceil_mode=True)]
    if dims > 1:
        options.append(dict(kernel_size=3, padding=1, divisor_override=5))
    # The CPU has no narrow 3-D kernel: there the comparison with its fp64 result is the only one.
    has_peer = dims < 3 or dtype in (torch.float32, torch.float64)
    for kwargs in options:
        for x in layouts(images(dims, dtype)):
            if has_peer:
                compare(lambda x: pool(x, **kwargs), x, exact=False, rtol=rtol, atol=atol, strides=dims == 2)
            compare_gradients(lambda x: pool(x, **kwargs), x, rtol=rtol, atol=atol)
    compare_gradients(lambda x: pool(x, 2), images(dims, dtype, batch=False), rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_adaptive_average(dims, dtype):
    pool = [F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d][dims - 1]
    rtol, atol = TOLERANCE[dtype]
    for size in (1, 3, 11):
        for x in layouts(images(dims, dtype)):
            # Size 1 is a mean in ATen, which another file tests.
            compare(lambda x: pool(x, size), x, exact=False, rtol=rtol, atol=atol, strides=dims == 2, native=size != 1)
        compare_gradients(lambda x: pool(x, size), images(dims, dtype), rtol=rtol, atol=atol, native=size != 1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_maximum(dims, dtype):
    pool = [F.max_pool1d, F.max_pool2d, F.max_pool3d][dims - 1]
    adaptive = [F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d][dims - 1]
    rtol, atol = TOLERANCE[dtype]
    for kwargs in (dict(kernel_size=2), dict(kernel_size=3, stride=2, padding=1), dict(kernel_size=2, dilation=2),
                   dict(kernel_size=3, stride=2, ceil_mode=True), dict(kernel_size=3, stride=1, padding=1, dilation=2)):
        for x in layouts(images(dims, dtype)):
            compare(lambda x: pool(x, return_indices=True, **kwargs), x, strides=dims == 2)
        compare_gradients(lambda x: pool(x, return_indices=True, **kwargs)[0], images(dims, dtype), rtol=rtol, atol=atol)
    for size in (1, 4):
        for x in layouts(images(dims, dtype)):
            compare(lambda x: adaptive(x, size, return_indices=True), x, strides=False)
        compare_gradients(lambda x: adaptive(x, size), images(dims, dtype), rtol=rtol, atol=atol)


def test_maximum_of_special_values_and_integers():
    x = images(2)
    x[0, 0, 3, 3] = float("nan")
    x[1] = -float("inf")
    compare(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        compare(lambda x: F.max_pool2d(x, 3, 2, return_indices=True), sample(2, 3, 8, 8, dtype=dtype))


@pytest.mark.parametrize("dims", [2, 3])
def test_unpool(dims):
    pool, unpool = (F.max_pool2d, F.max_unpool2d) if dims == 2 else (F.max_pool3d, F.max_unpool3d)
    x = normal(2, 3, *[8] * dims)
    values, indices = pool(x, 2, return_indices=True)
    compare(lambda v, i: unpool(v, i, 2), values, indices)
    indices[0, 0].fill_(10**6)
    same_error(lambda v, i: unpool(v, i, 2), values, indices)


@pytest.mark.parametrize("call", [
    lambda x: F.avg_pool2d(x, 3, padding=2), lambda x: F.max_pool2d(x, 3, padding=2), lambda x: F.avg_pool2d(x[0, 0], 2),
    lambda x: F.max_pool2d(x, 20), lambda x: F.adaptive_avg_pool2d(x, (2, -1)), lambda x: F.max_pool2d(x, 0),
    lambda x: F.max_pool3d(x[0, 0, 0], 2), lambda x: F.max_pool2d(x.to(torch.complex64), 2)])
def test_bad_arguments(call):
    same_error(call, images(2))
