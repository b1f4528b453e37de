"""A sanity check of a fresh build, in a few seconds: `python tests/smoke.py` exits non-zero when the device is broken."""

import subprocess
import sys
import warnings

import torch

warnings.filterwarnings("ignore")


def check_values():
    programs = (lambda x: (x + x).relu(), lambda x: x @ x.t(), lambda x: x[1:],
                lambda x: torch.cat([x, x]).sum(0), lambda x: x.softmax(-1), lambda x: x[x > 0])
    x = torch.randn(8, 8)
    for i, program in enumerate(programs):
        y = program(x.to("neuron"))
        assert y.device.type == "neuron", f"program {i}: result on {y.device}"
        torch.testing.assert_close(y.cpu(), program(x))


def check_errors():
    x = torch.full((3, 4), 1.0).to("neuron")
    for call, kind in ((lambda: x @ x, RuntimeError), (lambda: x[7], IndexError)):
        try:
            call()
        except kind:
            continue
        raise AssertionError(f"no {kind.__name__} was raised")
    assert (x + x).sum().item() == 24, "the device does not work after an error"


def check_exit():
    """A process whose last act is backward() ends cleanly."""
    code = "import torch; x = torch.ones(8).to('neuron').requires_grad_(); x.relu().sum().backward()"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


if __name__ == "__main__":
    assert torch.accelerator.current_accelerator().type == "neuron" and torch.neuron.device_count() > 0
    for check in (check_values, check_errors, check_exit):
        check()
    print("smoke: ok")
