"""LSTM, GRU and RNN against CPU torch: every shape of network, gradients, packed sequences, and the fused cells themselves."""

import pytest
import torch
from host_reference import NEURON, on_device, same_error
from torch import nn
from torch_neuronx import _C

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11, torch.bfloat16: 4e-2, torch.float16: 6e-3}
NARROW = (torch.bfloat16, torch.float16)


def values(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def near(actual, expected, dtype):
    tolerance = TOLERANCE[dtype]
    scale = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(actual.cpu().double(), expected.double(), rtol=tolerance, atol=tolerance * scale)


@pytest.fixture(autouse=True)
def nothing_on_the_host():
    _C.clear_fallback_rows()
    yield
    assert not _C.fallback_rows()


def flat(tree):
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, nn.utils.rnn.PackedSequence):
        return [tree.data]
    return [t for item in tree for t in flat(item)]


def train(module, inputs, device, dtype):
    """Outputs and gradients, in one list."""
    module = module.to(device=device, dtype=dtype)
    inputs = [t.detach().to(device=device, dtype=dtype).requires_grad_() for t in inputs]
    outputs = flat(module(*inputs[:1], tuple(inputs[1:]) if len(inputs) > 2 else inputs[1] if len(inputs) > 1 else None))
    sum((y * values(*y.shape, seed=9).to(y)).sum() for y in outputs).backward()
    return [t.detach() for t in outputs] + [t.grad for t in inputs] + [p.grad for p in module.parameters()]


def check(build, inputs, dtype):
    def made():
        torch.manual_seed(0)
        return build().to(dtype)
    expected = train(made(), inputs, "cpu", torch.float64 if dtype in NARROW else dtype)
    for got, want in zip(train(made(), inputs, NEURON, dtype), expected, strict=True):
        assert got.dtype == dtype
        near(got, want, dtype)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_layer(kind, dtype):
    check(lambda: kind(3, 5), [values(4, 2, 3, dtype=dtype)], dtype)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{"bias": False}, {"batch_first": True}, {"bidirectional": True}, {"num_layers": 3},
                                     {"num_layers": 2, "bidirectional": True, "batch_first": True}], ids=str)
def test_options(kind, options):
    check(lambda: kind(3, 5, **options), [values(4, 2, 3)], torch.float32)


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"num_layers": 2, "bias": False}], ids=str)
def test_projection(options):
    check(lambda: nn.LSTM(3, 6, proj_size=2, **options), [values(4, 2, 3)], torch.float32)


def test_relu_rnn():
    check(lambda: nn.RNN(3, 5, nonlinearity="relu"), [values(4, 2, 3)], torch.float32)


@pytest.mark.parametrize("kind, states", [(nn.LSTM, 2), (nn.GRU, 1), (nn.RNN, 1)])
def test_initial_state_and_no_batch(kind, states):
    check(lambda: kind(3, 5, 2), [values(4, 2, 3)] + [values(2, 2, 5, seed=s) for s in range(1, 1 + states)], torch.float32)
    check(lambda: kind(3, 5, 2), [values(4, 3)] + [values(2, 5, seed=s) for s in range(1, 1 + states)], torch.float32)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("kind, states", [(nn.LSTMCell, 2), (nn.GRUCell, 1), (nn.RNNCell, 1)])
def test_cell(kind, states, dtype):
    check(lambda: kind(3, 300), [values(4, 3, dtype=dtype)] + [values(4, 300, dtype=dtype, seed=s) for s in range(1, 1 + states)],
          dtype)


@pytest.mark.parametrize("kind, states", [(nn.LSTMCell, 2), (nn.GRUCell, 1)])
def test_cell_without_bias_and_unbatched(kind, states):
    check(lambda: kind(3, 5, bias=False), [values(4, 3)], torch.float32)
    check(lambda: kind(3, 5), [values(3)] + [values(5, seed=s) for s in range(1, 1 + states)], torch.float32)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}], ids=str)
def test_packed_sequence(kind, options):
    x, lengths, results = values(5, 4, 3), [2, 5, 1, 3], []
    for device in ("cpu", NEURON):
        torch.manual_seed(0)
        module, leaf = kind(3, 6, **options).to(device), x.to(device).detach().requires_grad_()
        packed = nn.utils.rnn.pack_padded_sequence(leaf, lengths, enforce_sorted=False)
        output, states = module(packed)
        padded, back = nn.utils.rnn.pad_packed_sequence(output)
        assert back.tolist() == lengths
        (padded.square().sum() + sum(s.sin().sum() for s in flat(states))).backward()
        results.append([padded.detach(), *[s.detach() for s in flat(states)], leaf.grad, *[p.grad for p in module.parameters()]])
    for got, want in zip(results[1], results[0], strict=True):
        near(got, want, torch.float32)


def test_packed_sequence_with_projection():
    results = []
    for device in ("cpu", NEURON):
        torch.manual_seed(0)
        module = nn.LSTM(3, 6, proj_size=2).to(device)
        output, _ = module(nn.utils.rnn.pack_padded_sequence(values(5, 3, 3).to(device), [5, 3, 2]))
        output.data.square().sum().backward()
        results.append([output.data.detach(), *[p.grad for p in module.parameters()]])
    for got, want in zip(results[1], results[0], strict=True):
        near(got, want, torch.float32)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_dropout(kind):
    torch.manual_seed(0)
    module, x = kind(3, 5, 2, dropout=0.5).to(NEURON), values(4, 2, 3).to(NEURON)
    torch.manual_seed(1)
    first = module(x)[0]
    torch.manual_seed(1)
    assert torch.equal(first, module(x)[0]) and not torch.equal(first, module(x)[0])
    first.sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters())
    module.eval()
    near(module(x)[0].detach(), module.cpu()(x.cpu())[0].detach(), torch.float32)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_autocast(kind):
    torch.manual_seed(0)
    module, x = kind(4, 8).to(NEURON), values(3, 2, 4)
    with torch.autocast("neuron", dtype=torch.bfloat16):
        y = module(x.to(NEURON))[0]
    y.float().sum().backward()
    near(y.detach(), module.cpu()(x)[0].detach(), torch.bfloat16)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
def test_gradcheck(kind):
    torch.manual_seed(0)
    module = kind(2, 3).double().to(NEURON)
    x = values(2, 2, dtype=torch.float64).to(NEURON).requires_grad_()
    seeds = (1, 2) if kind is nn.LSTMCell else (1,)
    states = [values(2, 3, dtype=torch.float64, seed=s).to(NEURON).requires_grad_() for s in seeds]

    def function(x, *states):
        return module(x, states if len(states) == 2 else states[0])

    assert torch.autograd.gradcheck(function, (x, *states))
    assert torch.autograd.gradgradcheck(function, (x, *states))


def test_one_gradient_missing():
    """Only the hidden or only the cell state takes part in the loss."""
    for output in (0, 1):
        results = []
        for device in ("cpu", NEURON):
            torch.manual_seed(0)
            cell = nn.LSTMCell(3, 4).to(device)
            cell(values(2, 3).to(device))[output].sum().backward()
            results.append([p.grad for p in cell.parameters()])
        for got, want in zip(results[1], results[0], strict=True):
            near(got, want, torch.float32)


def test_empty_batch():
    for kind in (nn.LSTMCell, nn.GRUCell):
        x = torch.empty(0, 3).to(NEURON).requires_grad_()
        cell = kind(3, 5).to(NEURON)
        y = flat(cell(x))[0]
        assert y.shape == (0, 5)
        y.sum().backward()
        assert x.grad.shape == (0, 3) and not cell.weight_hh.grad.any()


def test_errors():
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        torch.manual_seed(0)
        module = kind(3, 5)
        other = kind(3, 5).to(NEURON)

        def run(x, *state):
            used = module if x.device.type == "cpu" else other
            return used(x, *state)[0]

        same_error(run, values(4, 2, 2))
        same_error(run, values(4, 2, 3, 1))
        same_error(run, values(4, 2, 3).double())
    gates, state, bias = torch.ones(2, 12).to(NEURON), torch.ones(2, 3).to(NEURON), torch.ones(12).to(NEURON)
    cell = torch.ops.aten._thnn_fused_lstm_cell
    for bad in ((gates[:, :8], gates, state), (gates, gates[:1], state), (gates, gates, state[0]), (gates, gates.double(), state),
                (gates, gates, state, bias), (gates, gates, state, bias[:3], bias), (gates.cpu(), gates, state)):
        with pytest.raises(RuntimeError):
            cell(*bad)
    with pytest.raises(NotImplementedError):
        cell(gates.long(), gates.long(), state.long())
    with pytest.raises(RuntimeError):
        torch.ops.aten._thnn_fused_gru_cell(gates, gates, state)


def test_strided_gates():
    """Gates may be any strides: they are made dense on the device."""
    wide = values(3, 40).to(NEURON)
    state = values(5, 3).to(NEURON).t()
    gates = wide[:, ::2]
    cell = torch.ops.aten._thnn_fused_lstm_cell
    for got, want in zip(cell(gates, gates, state), cell(gates.contiguous(), gates.contiguous(), state.contiguous())):
        assert torch.equal(got, want)


def test_same_bits_for_any_thread_count():
    threads, results = torch.get_num_threads(), []
    inputs = values(40, 800), values(40, 800, seed=1), values(40, 200, seed=2)
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            ig, hg, cx = on_device(inputs)
            hy, cy, workspace = torch.ops.aten._thnn_fused_lstm_cell(ig, hg, cx)
            bits = [hy, cy, *torch.ops.aten._thnn_fused_lstm_cell_backward_impl(hy, cy, cx, cy, workspace, True)]
            hy, workspace = torch.ops.aten._thnn_fused_gru_cell(ig[:, :600], hg[:, :600], cx)
            bits += [hy, *torch.ops.aten._thnn_fused_gru_cell_backward(hy, workspace, True)]
            results.append([t.cpu() for t in bits])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results))
