"""Factories whose values follow from the position, against CPU torch."""

import pytest
import torch

from host_reference import ALL, FLOATS, INTS, NEURON, compare


def both(call, exact=True, **tolerances):
    compare(lambda x: call(x.device), torch.zeros(1), exact=exact, **tolerances)


@pytest.mark.parametrize("dtype", FLOATS + [d for d in INTS if d != torch.bool])
def test_ranges(dtype):
    for arguments in ((7,), (2, 9), (1, 100, 3), (9, 2, -2), (3, 3)):
        if dtype == torch.uint8 and arguments[-1] < 0:
            continue
        both(lambda device: torch.arange(*arguments, dtype=dtype, device=device))
    both(lambda device: torch.arange(0, 2, 0.25, device=device, dtype=dtype if dtype.is_floating_point else None))
    both(lambda device: torch.linspace(-3, 13, 17, device=device, dtype=torch.float32 if dtype == torch.uint8 else dtype),
         exact=False)
    both(lambda device: torch.linspace(0, 1, 1, device=device, dtype=dtype))


def test_inferred_dtypes_and_long_ranges():
    both(lambda device: torch.arange(5, device=device))
    both(lambda device: torch.arange(5.0, device=device))
    both(lambda device: torch.arange(0, 100000, 7, device=device))
    both(lambda device: torch.arange(0, 1, 1e-5, device=device), exact=False)
    both(lambda device: torch.arange(2**53, 2**53 + 5, device=device))
    both(lambda device: torch.linspace(0, 1, 1000, device=device), exact=False)
    both(lambda device: torch.logspace(-2, 2, 9, device=device), exact=False)
    both(lambda device: torch.arange(4, out=torch.empty(0, device=device, dtype=torch.long)))


@pytest.mark.parametrize("dtype", ALL)
def test_identity_and_full(dtype):
    both(lambda device: torch.eye(3, 5, dtype=dtype, device=device))
    both(lambda device: torch.eye(4, dtype=dtype, device=device))
    both(lambda device: torch.full((2, 3), 1, dtype=dtype, device=device))


def test_triangle_indices():
    for row, col, offset in ((3, 4, 0), (4, 3, 1), (3, 3, -2), (0, 3, 0), (5, 2, -1), (2, 5, 9), (2, 5, -9)):
        both(lambda device: torch.tril_indices(row, col, offset, device=device))
        both(lambda device: torch.triu_indices(row, col, offset, device=device, dtype=torch.int32))


@pytest.mark.parametrize("call", [
    lambda device: torch.arange(0, 5, 0, device=device), lambda device: torch.arange(5, 0, 1, device=device),
    lambda device: torch.arange(0, float("inf"), device=device), lambda device: torch.linspace(0, 1, -1, device=device),
    lambda device: torch.eye(-1, device=device), lambda device: torch.tril_indices(-1, 2, device=device)])
def test_bad_arguments(call):
    for device in ("cpu", NEURON):
        with pytest.raises(RuntimeError):
            call(device)
