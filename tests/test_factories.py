"""Creating, viewing, resizing and re-seating tensors; copies between host and device."""

import numpy
import pytest
import torch

NEURON = torch.device("neuron", 0)


def test_empty_options_and_memory_formats():
    x = torch.empty(2, 3, 4, 5, device=NEURON, dtype=torch.bfloat16, memory_format=torch.channels_last)
    assert x.stride() == torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride()
    assert x.dtype == torch.bfloat16 and x.device == NEURON
    y = torch.empty_strided((2, 3), (1, 4), device=NEURON)
    assert y.stride() == (1, 4)
    assert torch.empty(0, device=NEURON).numel() == 0
    assert torch.ones((), device=NEURON).item() == 1


@pytest.mark.parametrize("call, error", [
    (lambda: torch.empty(-1, device=NEURON), RuntimeError),
    (lambda: torch.empty(2, device="neuron:77"), RuntimeError),
    (lambda: torch.empty(2, device=NEURON, layout=torch.sparse_coo), RuntimeError),
    (lambda: torch.empty(2, device=NEURON, pin_memory=True), RuntimeError),
    (lambda: torch.empty_strided((2,), (-1,), device=NEURON), RuntimeError),
    (lambda: torch.ones(4, device=NEURON).view(3), RuntimeError),
    (lambda: torch.ones(4, device=NEURON).as_strided((5,), (1,), -2), RuntimeError),
    (lambda: torch.ones(4, device=NEURON)[7], IndexError),
    (lambda: torch.ones(4, device=NEURON) + torch.ones(4), RuntimeError),
    (lambda: torch.ones(4, device=NEURON).numpy(), TypeError),
])
def test_bad_arguments_raise_and_the_next_call_works(call, error):
    with pytest.raises(error):
        call()
    assert (torch.ones(2, device=NEURON) + 1).cpu().tolist() == [2, 2]


def test_views_share_memory_and_compute_nothing():
    torch.neuron.clear_op_tracking()
    base = torch.arange(24.0).reshape(2, 3, 4).to(NEURON)
    host = torch.arange(24.0).reshape(2, 3, 4)
    views = [lambda t: t[1], lambda t: t.transpose(0, 2), lambda t: t.permute(2, 0, 1), lambda t: t[:, ::2, 1:],
             lambda t: t.unsqueeze(1).expand(2, 5, 3, 4), lambda t: t.view(6, 4), lambda t: t.unfold(2, 2, 1),
             lambda t: t.diagonal(0, 1, 2), lambda t: t.reshape(-1), lambda t: t.squeeze(), lambda t: t.flatten(1),
             lambda t: t.narrow(2, 1, 2), lambda t: t.select(1, 2), lambda t: t.chunk(2, 2)[1], lambda t: t.detach(),
             lambda t: t.view(torch.int32), lambda t: t.as_strided((2, 2), (1, 2), 3)]
    for view in views:
        got, want = view(base), view(host)
        assert got.shape == want.shape and got.stride() == want.stride()
        assert got.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
        assert torch.equal(got.cpu(), want)
    assert torch.neuron.fallback_report() == []


def test_complex_views():
    x = torch.randn(3, 2)
    z = torch.view_as_complex(x.to(NEURON))
    assert torch.equal(z.cpu(), torch.view_as_complex(x))
    assert torch.equal(torch.view_as_real(z).cpu(), x)
    assert torch.equal(z.conj().cpu(), torch.view_as_complex(x).conj())
    assert torch.equal(z.conj().imag.cpu(), torch.view_as_complex(x).conj().imag)


def test_resize_keeps_the_prefix():
    x = torch.arange(6.0).to(NEURON)
    x.resize_(2, 5)
    assert x.cpu().flatten()[:6].tolist() == list(range(6))
    x.resize_(3)
    assert x.cpu().tolist() == [0, 1, 2]
    storage = x.untyped_storage()
    bytes_before = storage.nbytes()
    storage.resize_(0)
    assert storage.nbytes() == 0 and x.untyped_storage().data_ptr() == 0
    storage.resize_(bytes_before)
    x.fill_(4)
    assert x.cpu().tolist() == [4, 4, 4]


def test_set_and_is_set_to():
    a, b = torch.arange(6.0).to(NEURON), torch.empty(0, device=NEURON)
    b.set_(a)
    assert b.is_set_to(a)
    b.set_(a.untyped_storage(), 2, (2, 2), (2, 1))
    assert b.cpu().tolist() == [[2, 3], [4, 5]]
    b.set_()
    assert b.numel() == 0
    with pytest.raises(RuntimeError):
        b.set_(torch.ones(3))


def test_data_assignment_and_module_to_keep_identity():
    linear = torch.nn.Linear(3, 3)
    linear2 = torch.nn.Linear(3, 3)
    linear2.weight = linear.weight
    model = torch.nn.Sequential(linear, linear2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = [id(p) for p in model.parameters()]
    model.to(NEURON)
    assert [id(p) for p in model.parameters()] == before
    assert model[0].weight is model[1].weight and model[0].weight.device == NEURON
    model(torch.ones(1, 3, device=NEURON)).sum().backward()
    weights = model[0].weight.detach().cpu().clone()
    optimizer.step()
    assert not torch.equal(model[0].weight.cpu(), weights)
    model.cpu()
    assert [id(p) for p in model.parameters()] == before and model[0].weight.grad.device.type == "cpu"


def test_copies_between_host_and_device():
    host = torch.arange(20.0).reshape(4, 5)
    for source in (host, host.t(), host[1:, ::2], torch.from_numpy(numpy.arange(12.0)[::3])):
        moved = source.to(NEURON)
        assert torch.equal(moved.cpu(), source)
    target = torch.zeros(5, 4, device=NEURON)
    target.copy_(host.t(), non_blocking=True)
    torch.accelerator.synchronize()
    assert torch.equal(target.cpu(), host.t())
    back = torch.zeros(4, 5)
    back.t().copy_(target)
    assert torch.equal(back, host)
    target[1:3].copy_(torch.full((1, 4), 9.0))
    assert target.cpu()[1:3].unique().item() == 9


def test_overlap_rules_are_the_hosts():
    x = torch.arange(6.0).to(NEURON)
    with pytest.raises(RuntimeError, match="clone"):
        x[1:].copy_(x[:-1])
    with pytest.raises(RuntimeError):
        torch.zeros(1, device=NEURON).expand(4).add_(1)
    x[:2] += x[4:]
    assert x.cpu().tolist() == [4, 6, 2, 3, 4, 5]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.half,
                                   torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_item_and_tolist(dtype):
    x = torch.tensor([0, 1, 1], dtype=dtype)
    assert x.to(NEURON).tolist() == x.tolist()
    assert x.to(NEURON)[1].item() == x[1].item()


def test_zero_dim_host_operands_with_offset():
    numbers = torch.arange(5.0)
    x = torch.ones(3, device=NEURON)
    assert (x * numbers[3]).cpu().tolist() == [3, 3, 3]
    assert (numbers[2] - x).cpu().tolist() == [1, 1, 1]
