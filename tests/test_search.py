"""searchsorted, bucketize, isin and unique against CPU torch."""

import pytest
import torch

from host_reference import INTS, compare, normal, same_error, sample

NUMBERS = [torch.float32, torch.float64, torch.bfloat16, torch.float16] + [d for d in INTS if d != torch.bool]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_searchsorted(dtype):
    lines = torch.sort(sample(3, 20, dtype=dtype), dim=1)[0]
    values = sample(3, 7, dtype=dtype, seed=1)
    for options in ({}, {"right": True}, {"side": "right"}, {"out_int32": True}):
        compare(lambda b, v: torch.searchsorted(b, v, **options), lines, values)
        compare(lambda b, v: torch.searchsorted(b[0], v, **options), lines, values)
    compare(lambda b, v: torch.bucketize(v, b[1], right=True), lines, values)
    compare(lambda b, v: torch.bucketize(v.t(), b[1]), lines, values, strides=False)
    unsorted = sample(3, 20, dtype=dtype, seed=2)
    compare(lambda b, v, o: torch.searchsorted(b, v, sorter=o), unsorted, values, torch.argsort(unsorted, dim=1, stable=True))


def test_searchsorted_of_numbers_and_mixed_types():
    lines = torch.arange(0.0, 20, 2)
    compare(lambda b: torch.searchsorted(b, 5), lines)
    compare(lambda b: torch.bucketize(torch.empty(0, device=b.device), b), lines)
    compare(lambda b: torch.searchsorted(b, b.long()), lines)
    same_error(lambda b: torch.bucketize(b, b.reshape(2, 5)), lines)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_isin(dtype):
    elements, tests = sample(4, 5, dtype=dtype), sample(9, dtype=dtype, seed=1)
    compare(lambda e, t: torch.isin(e, t), elements, tests)
    compare(lambda e, t: torch.isin(e.t(), t, invert=True), elements, tests, strides=False)
    compare(lambda e: torch.isin(e, int(e[0, 0])), elements)
    compare(lambda e, t: torch.isin(e, t[:0]), elements, tests)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_unique(dtype):
    for x in (sample(200, dtype=dtype), sample(6, 7, dtype=dtype), sample(0, dtype=dtype)):
        compare(lambda x: torch.unique(x), x)
        compare(lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)
        compare(lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), x // 20)


def test_unique_of_nan():
    compare(torch.unique, torch.tensor([1.0, float("nan"), 1.0, float("nan"), -0.0, 0.0]))
