"""Indexing by tensors, gather and scatter, masks, embedding, against CPU torch."""

import pytest
import torch

from host_reference import ALL, FLOATS, INTS, NEURON, compare, compare_gradients, normal, same_error, sample

POSITIONS = [torch.tensor(v) for v in ([0, 2, -1, 2], [[1, 0], [3, -2]])]


@pytest.mark.parametrize("dtype", ALL)
def test_advanced_indexing_reads(dtype):
    x = sample(4, 5, 6, dtype=dtype)
    i, j = torch.tensor([0, 3, -1]), torch.tensor([[1], [4]])
    for read in (lambda x, i, j: x[i], lambda x, i, j: x[:, i], lambda x, i, j: x[:, :, i], lambda x, i, j: x[i, j],
                 lambda x, i, j: x[i, :, j], lambda x, i, j: x[:, j, i], lambda x, i, j: x[i, j, i],
                 lambda x, i, j: x[None, i, ..., 1], lambda x, i, j: x[1:, i.int()]):
        compare(read, x, i, j, strides=False)
        compare(read, x.transpose(0, 2).contiguous().transpose(0, 2), i, j, strides=False)


def test_mask_reads():
    x = sample(4, 5, 6)
    for mask in (x > 0, x[:, :, 0] > 0, x[0] > 100):
        compare(lambda x, m: x[m] if m.shape[0] == 4 else x[:, m], x, mask, strides=False)
    compare(lambda x, m, i: x[m, i], x, torch.tensor([True, False, True, False]), torch.tensor([1, 2]), strides=False)
    compare(lambda x, m: torch.masked_select(x, m), x, torch.rand(5, 1) > 0.5)
    for dtype in ALL:
        compare(torch.nonzero, sample(7, 9, dtype=dtype))
        compare(torch.nonzero, sample(7, 9, dtype=dtype).t())
    compare(torch.nonzero, torch.tensor(3.0))
    compare(torch.nonzero, torch.zeros(3, 0))
    compare(torch.nonzero, (torch.arange(100000) % 7 == 0).reshape(1000, 100))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(dtype, accumulate):
    x = sample(4, 5, 6, dtype=dtype)
    i, j = torch.tensor([0, 3, -1]), torch.tensor([[1], [4]])
    values = sample(2, 3, 6, dtype=dtype, seed=1)
    compare(lambda x, i, j, v: x.index_put((i, j), v, accumulate=accumulate), x, i, j, values)
    compare(lambda x, i, v: x.index_put((i,), v, accumulate=accumulate), x, torch.tensor([1, 1, 2]) if accumulate else i,
            sample(6, dtype=dtype, seed=2))
    mask = sample(4, 5, 6, dtype=torch.bool)
    compare(lambda x, m, v: x.index_put((m,), v, accumulate=accumulate), x, mask, sample(int(mask.sum()), dtype=dtype, seed=2))
    compare(lambda x, m, v: x.index_put((m,), v, accumulate=accumulate), x, mask, sample(1, dtype=dtype, seed=2), native=False)


def test_assignment():
    x = sample(6, 5)

    def assign(x, i, m):
        x[i] = 1.5
        x[:, i] = x[:, i] * 2
        x[m] = 7
        x[x > 40] = torch.tensor(-1.0)
        x[2, i] += 1
        return x

    compare(assign, x, torch.tensor([0, 3]), torch.tensor([True, False, False, True, False, True]),
            native=False)


def test_sums_are_ordered_by_destination():
    """The same bits for any number of threads, and for bf16 one rounding."""
    n = 20000
    index, values = torch.randint(0, 50, (n,)), torch.randn(n, 8)
    threads = torch.get_num_threads()
    results = []
    for count in (1, 2, 4):
        torch.set_num_threads(count)
        x = torch.zeros(50, 8, device=NEURON)
        results.append(x.index_put((index.to(NEURON),), values.to(NEURON), accumulate=True).cpu())
        results.append(torch.zeros(50, 8, device=NEURON).index_add(0, index.to(NEURON), values.to(NEURON)).cpu())
        results.append(torch.zeros(50, 8, device=NEURON).scatter_add(
            0, index[:, None].expand(n, 8).to(NEURON), values.to(NEURON)).cpu())
    torch.set_num_threads(threads)
    assert all(torch.equal(results[0], r) for r in results[1:])
    exact = torch.zeros(50, 8, dtype=torch.float64).index_add(0, index, values.bfloat16().double())
    half = torch.zeros(50, 8, device=NEURON, dtype=torch.bfloat16).index_add(0, index.to(NEURON), values.to(NEURON).bfloat16())
    torch.testing.assert_close(half.cpu().double(), exact, rtol=0.004, atol=1e-3)


@pytest.mark.parametrize("dtype", ALL)
def test_along_a_dimension(dtype):
    x, i = sample(4, 5, 6, dtype=dtype), torch.tensor([2, 0, 2])
    for dim in range(3):
        compare(lambda x, i: x.index_select(dim, i), x, i)
        compare(lambda x, i: x.index_select(dim, i), x.permute(2, 1, 0)[1:], i.int())
        source = sample(4, 5, 6, dtype=dtype, seed=3).narrow(dim, 0, 3)
        compare(lambda x, i, s: x.index_copy(dim, i, s), x, torch.tensor([2, 0, 1]), source)
        compare(lambda x, i: x.index_fill(dim, i, 1), x, torch.tensor([-1, 0]))
        compare(lambda x, i, s: x.index_add(dim, i, s), x, i, source)
        index = torch.randint(0, x.shape[dim], (3, 4, 2))
        compare(lambda x, i: x.gather(dim, i), x, index)
        compare(lambda x, i: x.gather(dim, i), x.transpose(1, 2).contiguous().transpose(1, 2), index)
        unique = torch.stack([torch.randperm(x.shape[dim]) for _ in range(30)]).reshape(5, 6, -1).movedim(-1, dim)
        unique = unique[:3, :4, :2] if dim else unique[:, :4, :2]
        values = sample(*unique.shape, dtype=dtype, seed=4)
        compare(lambda x, i, s: x.scatter(dim, i, s), x, unique.contiguous(), values)
        compare(lambda x, i: x.scatter(dim, i, 1), x, unique.contiguous())
        compare(lambda x, i, s: x.scatter_add(dim, i, s), x, index, sample(3, 4, 2, dtype=dtype, seed=4))
    compare(lambda x, i: x.take(i), x, torch.tensor([[0, -1], [119, 7]]))
    compare(lambda x, i: x.transpose(0, 1).take(i), x, torch.tensor([[0, -1], [119, 7]]))
    compare(lambda x, i, s: x.put_(i, s), x, torch.tensor([[0, -1], [60, 7]]), sample(2, 2, dtype=dtype, seed=1))
    compare(lambda x, i, s: x.put_(i, s, accumulate=True), x, torch.tensor([[0, 0], [60, 7]]), sample(2, 2, dtype=dtype, seed=1))


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(reduce, include_self):
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bfloat16):
        x, index, source = sample(4, 5, dtype=dtype) % 5, torch.randint(0, 4, (6, 5)), sample(6, 5, dtype=dtype, seed=1) % 3
        compare(lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self), x, index, source,
                exact=dtype != torch.bfloat16)
    nan = normal(4, 5)
    nan[1, 2] = float("nan")
    compare(lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self), nan, torch.randint(0, 4, (4, 5)), nan,
            exact=False)


def test_scatter_with_reduce_argument():
    x, index, source = normal(4, 5), torch.randint(0, 4, (6, 5)), normal(6, 5, seed=1)
    compare(lambda x, i, s: x.scatter(0, i, s, reduce="add"), x, index, source)
    compare(lambda x, i, s: x.scatter_(0, i, 2.0, reduce="multiply"), x, index, source)


def test_masked_scatter():
    for dtype in ALL:
        compare(lambda x, m, s: x.masked_scatter(m, s), sample(5, 6, dtype=dtype), sample(5, 6, dtype=torch.bool),
                sample(40, dtype=dtype, seed=1))
    compare(lambda x, m, s: x.t().masked_scatter_(m, s), sample(6, 5), sample(6, dtype=torch.bool), sample(5, 6, seed=1))


def test_embedding():
    weight, tokens = normal(11, 6), torch.tensor([[1, 5, 1], [10, 0, 1]])
    for dtype in FLOATS:
        compare(lambda w, t: torch.nn.functional.embedding(t, w), weight.to(dtype), tokens)
    for options in ({}, {"padding_idx": 1}, {"scale_grad_by_freq": True}, {"padding_idx": -1, "scale_grad_by_freq": True}):
        compare_gradients(lambda w, t: torch.nn.functional.embedding(t, w, **options), weight, tokens)
    compare_gradients(lambda w, t: torch.nn.functional.embedding(t, w), weight.bfloat16(), tokens)


def test_gradients():
    x, i = normal(5, 6), torch.tensor([0, 3, 3])
    compare_gradients(lambda x, i: x[i], x, i)
    compare_gradients(lambda x, i: x[i, i], x, i)
    compare_gradients(lambda x, i: x.index_select(1, i), x, i)
    compare_gradients(lambda x, i: x.gather(1, i.expand(5, 3)), x, i)
    compare_gradients(lambda x, i, s: x.scatter_add(1, i.expand(5, 3), s), x, i, normal(5, 3, seed=1))
    compare_gradients(lambda x, i, s: x.index_put((i,), s, accumulate=True), x, i, normal(3, 6, seed=1))
    compare_gradients(lambda x, i, s: x.index_add(0, i, s, alpha=2), x, i, normal(3, 6, seed=1))
    compare_gradients(lambda x, m: x[m], x, sample(5, 6, dtype=torch.bool))


@pytest.mark.parametrize("call, arguments", [
    (lambda x, i: x[i], ([5],)), (lambda x, i: x[i], ([-5],)), (lambda x, i: x[:, i], ([1, 9],)),
    (lambda x, i: x.index_select(0, i), ([4],)), (lambda x, i: x.index_select(0, i), ([-1],)),
    (lambda x, i: x.index_add(0, i, x[:1]), ([7],)), (lambda x, i: x.index_copy(0, i, x[:1]), ([7],)),
    (lambda x, i: x.index_fill(0, i, 1), ([7],)), (lambda x, i: x.gather(0, i[None]), ([7],)),
    (lambda x, i: x.scatter(0, i[None], 1.0), ([7],)), (lambda x, i: x.scatter_add(0, i[None], x), ([-1],)),
    (lambda x, i: x.take(i), ([20],)), (lambda x, i: torch.nn.functional.embedding(i, x), ([4],)),
    (lambda x, i: x.index_put((i,), x[:1]), ([4],)), (lambda x, i: x[i.float()], ([1],)),
    (lambda x, i: x[i, i, i], ([1],)), (lambda x, i: x[i, i[:2]], ([1, 2, 3],)), (lambda x, i: x[i > 0], ([1, 2, 3],)),
    (lambda x, i: x.index_put((i,), x.double()), ([1],)), (lambda x, i: x.index_put((i,), x[:3]), ([1, 1],)),
    (lambda x, i: x.masked_scatter(x == x, x[0]), ([1],)), (lambda x, i: x.put_(i, x), ([1],)),
    (lambda x, i: x.gather(2, i[None]), ([1],)), (lambda x, i: x.gather(0, i[None].float()), ([1],)),
    (lambda x, i: x.masked_select(i), ([1],)),
])
def test_bad_indices_raise_as_on_the_cpu(call, arguments):
    expected, got = same_error(call, normal(4, 5), torch.tensor(*arguments))
    if "out of bounds" in expected or "out of range" in expected:
        assert got.startswith(expected.splitlines()[0].partition(" for dimension")[0])


def test_out_arguments():
    x, i = normal(4, 5), torch.tensor([1, 3])
    for call in (lambda x, i, out: torch.index_select(x, 0, i, out=out), lambda x, i, out: torch.take(x, i, out=out),
                 lambda x, i, out: torch.masked_select(x, i[:1] == 1, out=out),
                 lambda x, i, out: torch.gather(x, 0, i[:, None], out=out)):
        compare(call, x, i, torch.empty(0), native=False)
    compare(lambda x, i, out: torch.nonzero(x, out=out), x, i, torch.empty(0, dtype=torch.long))
