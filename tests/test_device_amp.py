"""Autocast and GradScaler against CPU torch and torch's own op lists."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:aten")


def test_default_dtype_is_bfloat16():
    assert torch.get_autocast_dtype("neuron") == torch.bfloat16
    x = torch.randn(4, 4).to("neuron")
    with torch.autocast("neuron"):
        assert (x @ x).dtype == torch.bfloat16
        assert torch.nn.functional.softmax(x.bfloat16(), -1).dtype == torch.float32
        with torch.autocast("neuron", enabled=False):
            assert (x @ x).dtype == torch.float32
    assert (x @ x).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_module_forms(dtype):
    x = torch.randn(4, 4).to("neuron")
    with torch.autocast(device_type="neuron", dtype=dtype):
        assert torch.nn.functional.linear(x, x).dtype == dtype
        assert torch.is_autocast_enabled("neuron")
    with torch.neuron.amp.autocast(dtype=dtype):
        assert (x @ x).dtype == dtype


def test_unsupported_dtype_warns():
    with pytest.warns(UserWarning):
        with torch.autocast("neuron", dtype=torch.float64):
            pass


CASES = {
    "matmul": (lambda x: torch.matmul(x, x), torch.bfloat16),
    "mm": (lambda x: torch.mm(x, x), torch.bfloat16),
    "addmm": (lambda x: torch.addmm(x, x, x), torch.bfloat16),
    "bmm": (lambda x: torch.bmm(x[None], x[None]), torch.bfloat16),
    "conv1d": (lambda x: torch.conv1d(x[None], x[:, :, None]), torch.bfloat16),
    "sdpa": (lambda x: torch.nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]), torch.bfloat16),
    "exp": (lambda x: torch.exp(x.bfloat16()), torch.float32),
    "log_softmax": (lambda x: torch.log_softmax(x.bfloat16(), -1), torch.float32),
    "layer_norm": (lambda x: torch.nn.functional.layer_norm(x.bfloat16(), (4,)), torch.float32),
    "mse_loss": (lambda x: torch.nn.functional.mse_loss(x.bfloat16(), x.bfloat16()), torch.float32),
    "sum": (lambda x: torch.sum(x.bfloat16()), torch.float32),
    "cumsum": (lambda x: torch.cumsum(x.bfloat16(), 0), torch.float32),
    "norm": (lambda x: torch.norm(x.bfloat16()), torch.float32),
    "promote": (lambda x: torch.addcmul(x, x.bfloat16(), x), torch.float32),
    "add": (lambda x: x.bfloat16() + x.bfloat16(), torch.bfloat16),
}


@pytest.mark.parametrize("name", CASES)
def test_casts(name):
    program, dtype = CASES[name]
    x = torch.linspace(-1, 1, 16).view(4, 4).to("neuron")
    with torch.autocast("neuron"):
        assert program(x).dtype == dtype


def test_binary_cross_entropy_is_refused():
    x = torch.rand(4).to("neuron")
    with torch.autocast("neuron"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(x, x)


def test_weight_cache_and_backward():
    layer = torch.nn.Linear(8, 8).to("neuron")
    x = torch.randn(2, 8).to("neuron")
    with torch.autocast("neuron"):
        y = layer(x) + layer(x)
    y.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32
    twin = torch.nn.Linear(8, 8)
    twin.load_state_dict({name: value.cpu() for name, value in layer.state_dict().items()})
    with torch.autocast("cpu"):
        z = twin(x.cpu()) + twin(x.cpu())
    z.float().sum().backward()
    torch.testing.assert_close(layer.weight.grad.cpu(), twin.weight.grad, atol=0.05, rtol=0.02)


@pytest.mark.parametrize("make", [lambda: torch.amp.GradScaler("neuron", init_scale=1024.0), lambda: torch.neuron.amp.GradScaler(1024.0)])
def test_grad_scaler(make):
    scaler = make()
    w = torch.nn.Parameter(torch.ones(3, device="neuron"))
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler.scale((w * 2).sum()).backward()
    assert w.grad.cpu().eq(2048).all()
    scaler.step(optimizer)
    scaler.update()
    assert w.detach().cpu().tolist() == [-1, -1, -1]
    optimizer.zero_grad()
    scaler.scale((w * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.detach().cpu().tolist() == [-1, -1, -1], "a step with infinities is skipped"
    assert scaler.get_scale() == 512
    again = torch.amp.GradScaler("neuron")
    again.load_state_dict(scaler.state_dict())
    assert again.get_scale() == 512


def test_checkpoint_keeps_autocast():
    from torch.utils.checkpoint import checkpoint

    seen = []

    def block(value):
        result = value @ value
        seen.append(result.dtype)
        return result @ value  # the replay may stop inside the last op

    x = torch.randn(4, 4).to("neuron").requires_grad_()
    with torch.autocast("neuron"):
        y = checkpoint(block, x, use_reentrant=False)
    y.float().sum().backward()
    assert seen == [torch.bfloat16, torch.bfloat16]


def test_custom_function_decorators():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="neuron", cast_inputs=torch.float32)
        def forward(ctx, x):
            assert not torch.is_autocast_enabled("neuron")
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="neuron")
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(2, device="neuron", dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("neuron"):
        y = Double.apply(x)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.cpu().tolist() == [2, 2]
