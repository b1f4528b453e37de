"""cat, stack, flip, roll, triangles, repeats against CPU torch."""

import pytest
import torch

from host_reference import ALL, NEURON, compare, compare_gradients, normal, same_error, sample


@pytest.mark.parametrize("dtype", ALL)
def test_cat_and_stack(dtype):
    x, y = sample(3, 4, 5, dtype=dtype), sample(3, 4, 5, dtype=dtype, seed=1)
    for dim in (0, 1, 2, -1):
        compare(lambda x, y: torch.cat([x, y, x], dim), x, y)
        compare(lambda x, y: torch.stack([x, y], dim), x, y)
        compare(lambda x, y: torch.cat([x, y], dim), x.transpose(0, 2).contiguous().transpose(0, 2), y)
    compare(lambda x, y: torch.cat([x[:, :2], y[:, ::2], x[:, :0]], 1), x, y)
    compare(lambda x, y: torch.cat([torch.empty(0, dtype=x.dtype, device=x.device), y]), x, y)


def test_cat_promotes_and_keeps_formats():
    x = normal(2, 4, 5, 6)
    compare(lambda x, y: torch.cat([x, y]), x, x.double())
    compare(lambda x, y: torch.cat([x, y]), x, sample(1, 4, 5, 6, dtype=torch.int64))
    compare(lambda x, y: torch.cat([x, y], 1), x.contiguous(memory_format=torch.channels_last),
            x.contiguous(memory_format=torch.channels_last))
    compare(lambda x, out: torch.cat([x, x], out=out), x, torch.empty(4, 4, 5, 6), native=False)
    compare(lambda *xs: torch.cat(xs, 1), *[normal(50, n) for n in range(1, 40)])
    compare_gradients(lambda x, y: torch.cat([x, y, x], 1), normal(3, 4), normal(3, 2))
    compare_gradients(lambda x, y: torch.stack([x, y], 1), normal(3, 4), normal(3, 4, seed=1))


@pytest.mark.parametrize("call", [
    lambda x: torch.cat([x, x[0]]), lambda x: torch.cat([x, x[:, :2]]), lambda x: torch.cat([]), lambda x: torch.cat([x], 3),
    lambda x: torch.stack([x, x[0]]), lambda x: torch.flip(x, [0, 0]), lambda x: torch.flip(x, [4]),
    lambda x: torch.roll(x, (1, 2), 0), lambda x: torch.tril(x[0]), lambda x: torch.repeat_interleave(x.long().flatten()[:2] - 99)])
def test_bad_arguments(call):
    same_error(call, normal(3, 4))


@pytest.mark.parametrize("dtype", ALL)
def test_flip_and_roll(dtype):
    x = sample(3, 4, 5, dtype=dtype)
    for dims in ([0], [1], [2], [0, 2], [0, 1, 2], []):
        compare(lambda x: torch.flip(x, dims), x)
        compare(lambda x: torch.flip(x, dims), x.permute(2, 0, 1), strides=False)
    for shifts, dims in ((1, 0), (-2, 1), ((1, 7), (0, 2)), ((1, 1), (1, 1)), (3, ()), (-9, 2)):
        compare(lambda x: torch.roll(x, shifts, dims), x)
        compare(lambda x: torch.roll(x, shifts, dims), x[:, 1:])


@pytest.mark.parametrize("dtype", ALL)
def test_triangles(dtype):
    x = sample(2, 5, 7, dtype=dtype)
    for diagonal in (0, 1, -2, 9, -9):
        for call in (torch.tril, torch.triu):
            compare(lambda x: call(x, diagonal), x)
            compare(lambda x: call(x, diagonal), x.transpose(1, 2), strides=False)
            compare(lambda x: call(x, diagonal), x[0])
        compare(lambda x: x.tril_(diagonal), x)
        compare(lambda x: x.t().triu_(diagonal), x[0])
    compare_gradients(lambda x: torch.tril(x, 1), normal(4, 4))


def test_repeats():
    compare(lambda r: torch.repeat_interleave(r, output_size=6), torch.tensor([2, 0, 3, 1]))
    compare(lambda r: torch.repeat_interleave(r, output_size=6), torch.tensor([2, 0, 3, 1], dtype=torch.int32))
    compare(lambda x, r: torch.repeat_interleave(x, r, dim=0), normal(4, 3), torch.tensor([2, 0, 3, 1]), native=False)
    compare(lambda x: x.repeat(2, 3, 1), sample(3, 4))


def test_composites_stay_on_the_device():
    x = normal(2, 8, 4, 6)
    compare(lambda x: torch.nn.functional.pixel_shuffle(x, 2), x)
    compare(lambda x: torch.nn.functional.pixel_unshuffle(x, 2), x)
    compare(lambda x: torch.rot90(x, 1, (2, 3)), x, strides=False)
    compare(lambda x: torch.diag_embed(x[0, 0]), x)
    compare(lambda x: torch.split(x, [3, 5], 1)[1].contiguous(), x)
