"""sort, topk, kthvalue and medians against CPU torch."""

import pytest
import torch

from host_reference import FLOATS, INTS, NEURON, compare, compare_gradients, normal, same_error, sample

SORTABLE = FLOATS + INTS


@pytest.mark.parametrize("dtype", SORTABLE)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(dtype, descending):
    for shape in ((7,), (3, 40), (2, 5, 900), (1, 1), (0, 4)):
        x = sample(*shape, dtype=dtype)
        for dim in range(len(shape)):
            compare(lambda x: torch.sort(x, dim=dim, descending=descending, stable=True), x)
    compare(lambda x: torch.sort(x, dim=0, descending=descending, stable=True), sample(40, 30, dtype=dtype).t())
    compare(lambda x: torch.argsort(x, stable=True, descending=descending), sample(3, 40, dtype=dtype))


@pytest.mark.parametrize("descending", [False, True])
def test_sort_of_special_values(descending):
    x = torch.tensor([0.0, -0.0, float("nan"), 1.0, -float("inf"), float("inf"), float("nan"), -1e-42, 3e38, 0.0])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        got = compare(lambda x: torch.sort(x, descending=descending, stable=True), x.to(dtype))
        assert torch.equal(got[0].cpu().signbit()[~got[0].cpu().isnan()],
                           torch.sort(x.to(dtype), descending=descending, stable=True)[0].signbit()[~got[0].cpu().isnan()])
    big = torch.tensor([2**62 + 1, 2**62, -2**63, 2**63 - 1, 0])
    compare(lambda x: torch.sort(x, descending=descending), big)


def test_long_lines_and_thread_counts():
    x = normal(300000)
    threads = torch.get_num_threads()
    for count in (1, 2, 4):
        torch.set_num_threads(count)
        compare(lambda x: torch.sort(x, stable=True), x)
        compare(lambda x: torch.sort((x * 10).long(), stable=True), x, native=False)
    torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", [d for d in SORTABLE if d != torch.bool])
def test_topk(dtype):
    x = torch.stack([torch.randperm(100, generator=torch.Generator().manual_seed(i)) for i in range(6)])
    x = x.to(dtype)
    for k in (1, 3, 50, 100):
        for largest in (True, False):
            values = lambda x: torch.topk(x, k, largest=largest)[0]
            compare(values, x)
            compare(lambda x: torch.topk(x.t(), k, dim=0, largest=largest)[0].contiguous(), x)
            compare(lambda x: torch.topk(x, k, largest=largest), x)
    compare(lambda x: torch.topk(x, 0), x)


def test_topk_ties_and_nan():
    x = torch.tensor([1.0, float("nan"), 5.0, 5.0, 5.0, -2.0] * 10)
    values, indices = torch.topk(x.to(NEURON), 12)
    assert values.cpu()[:10].isnan().all() and values.cpu()[10:].tolist() == [5, 5]
    assert indices.cpu().tolist() == [1 + 6 * i for i in range(10)] + [2, 3]
    values, indices = torch.topk(x.to(NEURON), 2)
    assert values.cpu().isnan().all() and indices.cpu().tolist() == [1, 7]


@pytest.mark.parametrize("dtype", [d for d in SORTABLE if d != torch.bool])
def test_one_of_each_line(dtype):
    x = torch.stack([torch.randperm(31, generator=torch.Generator().manual_seed(i)) for i in range(12)]).reshape(3, 4, 31)
    x = x.to(dtype)
    for dim, keepdim in ((2, False), (-1, True)):
        compare(lambda x: torch.kthvalue(x, 5, dim=dim, keepdim=keepdim), x)
        compare(lambda x: torch.median(x, dim=dim, keepdim=keepdim), x)
        compare(lambda x: torch.nanmedian(x, dim=dim, keepdim=keepdim), x)
    compare(torch.median, x)
    compare(torch.nanmedian, x)


def test_medians_of_nan():
    nan = float("nan")
    x = torch.tensor([[1, nan, 3, 2, nan], [nan] * 5, [5, 4, 3, 2, 1]])
    compare(lambda x: torch.median(x, dim=1)[0], x)
    compare(lambda x: torch.nanmedian(x, dim=1)[0], x)
    compare(torch.median, x)
    compare(torch.nanmedian, x)
    compare(torch.median, torch.empty(0))
    compare(torch.median, torch.tensor(3.0))


def test_gradients():
    x = normal(4, 9)
    compare_gradients(lambda x: torch.sort(x, dim=1)[0], x)
    compare_gradients(lambda x: torch.topk(x, 3, dim=0)[0], x)
    compare_gradients(lambda x: torch.kthvalue(x, 2)[0], x)
    compare_gradients(lambda x: torch.median(x, dim=1)[0], x)


@pytest.mark.parametrize("call", [
    lambda x: torch.topk(x, 9), lambda x: torch.topk(x, -1), lambda x: torch.sort(x, dim=2), lambda x: torch.kthvalue(x, 0),
    lambda x: torch.kthvalue(x, 9), lambda x: torch.median(x[:, :0], dim=1), lambda x: torch.sort(x.to(torch.complex64)),
    lambda x: torch.topk(x.to(torch.complex64), 1),
    lambda x: torch.topk(x > 0, 1)])
def test_bad_arguments(call):
    same_error(call, normal(3, 4))


def test_out_arguments():
    x = normal(3, 8)
    for call in (lambda x, v, i: torch.sort(x, out=(v, i)), lambda x, v, i: torch.topk(x, 2, out=(v, i)),
                 lambda x, v, i: torch.kthvalue(x, 2, out=(v, i)), lambda x, v, i: torch.median(x, 0, out=(v, i))):
        compare(call, x, torch.empty(0), torch.empty(0, dtype=torch.long), native=False)
