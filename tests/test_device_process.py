"""The life of a process: import orders, exits, forks, Ctrl-C, what an import may cost."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from fresh import run

QUIET = ["-W", "ignore"]


def start(code, check=True, **environment):
    """A whole process of its own; see fresh.run for the cheap way."""
    process = subprocess.run([sys.executable, *QUIET, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120,
                             env={**os.environ, **environment}, cwd="/")
    if check:
        assert process.returncode == 0, process.stderr
    return process


@pytest.mark.parametrize("code", [
    "import torch; assert torch.ones(2, device='neuron').sum().item() == 2",
    "import torch_neuronx, torch; assert torch.ones(2, device='neuron').sum().item() == 2",
    "import torch, torch_neuronx, torch_neuronx.neuron; torch_neuronx._autoload(); assert torch.ones(2).neuron().is_neuron",
    "import torch_neuronx; assert not torch_neuronx.is_neuron_runtime_initialized(); assert torch_neuronx.__version__",
])
def test_import_orders(code):
    start(code)


def test_autoload_off():
    start("""
        import torch
        assert torch._C._get_privateuse1_backend_name() == "privateuseone" and not hasattr(torch, "neuron")
        import torch_neuronx
        assert torch.ones(2, device="neuron").is_neuron
        import os
        assert os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
    """, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_import_opens_nothing():
    start("""
        import sys, os, time, torch
        before = set(sys.modules)
        threads, began = os.listdir("/proc/self/task"), time.perf_counter()
        import torch_neuronx
        assert time.perf_counter() - began < 0.5  # the figure itself is bench/'s
        assert os.listdir("/proc/self/task") == threads, "a thread was started"
        assert not torch.neuron.is_initialized()
        assert torch.neuron.device_count() == 1 and torch.neuron.is_available() and not torch.neuron.is_initialized()
        extra = {name for name in set(sys.modules) - before if not name.startswith(("torch_neuronx", "torch.neuron"))}
        assert not extra, extra
        assert "torch._dynamo" not in sys.modules and "torch_neuronx.neuron_dynamo_backend.backend" not in sys.modules
        torch.manual_seed(1), torch.neuron.memory_allocated(), torch.neuron.empty_cache(), torch.accelerator.is_available()
        assert not torch.neuron.is_initialized()
        torch.empty(1, device="neuron")
        assert torch.neuron.is_initialized()
    """, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_other_owner_is_named():
    process = run("""
        import torch
        torch.utils.rename_privateuse1_backend("other")
        import torch_neuronx
    """, check=False, load=False)
    assert process.returncode == 1 and "RuntimeError" in process.stderr and "'other'" in process.stderr


def test_wrong_torch_is_named():
    process = run("""
        import torch
        torch.__version__ = "2.9.1"
        import torch_neuronx
    """, check=False, load=False)
    assert process.returncode == 1 and "ImportError" in process.stderr and "2.9.1" in process.stderr


def test_autoload_failure_shows_its_cause():
    process = start("import torch", check=False, NEURON_RT_NUM_CORES="many")
    assert process.returncode == 1 and "NEURON_RT_NUM_CORES" in process.stderr and "Failed to load the backend" in process.stderr


EXITS = {
    "backward": "x = torch.ones(8, device='neuron', requires_grad=True); (x * 2).relu().sum().backward()",
    "queued": "torch.neuron._sleep(30_000_000); x = torch.ones(8, device='neuron') + 1",
    "side stream": "s = torch.neuron.Stream()\nwith torch.neuron.stream(s):\n    torch.neuron._sleep(30_000_000); x = torch.ones(8, device='neuron') + 1",
    "globals": "x = torch.ones(8, device='neuron'); e = torch.neuron.Event(); e.record(); g = torch.Generator('neuron')",
    "pinned": "x = torch.ones(8).pin_memory(); y = x.to('neuron', non_blocking=True)",
    "thread": "import threading\nt = threading.Thread(target=lambda: torch.ones(8, device='neuron').sum().item()); t.start()",
    "atexit": "import atexit; x = torch.ones(8, device='neuron'); atexit.register(lambda: (x + 1).sum().item())",
    "exception": "x = torch.ones(8, device='neuron')\ntry:\n    x @ torch.ones(3, 3, device='neuron')\nexcept RuntimeError:\n    pass",
    "unused": "pass",
    "os._exit": "x = torch.ones(8, device='neuron') + 1; import os; os._exit(0)",
    "sys.exit in a hook": "x = torch.ones(2, device='neuron', requires_grad=True)\nx.register_hook(lambda g: None)\n(x * 2).sum().backward()",
}


@pytest.mark.parametrize("name", EXITS)
def test_exits(name):
    for _ in range(3):
        process = run("import torch\n" + EXITS[name])
        assert "terminate" not in process.stderr and "Fatal" not in process.stderr


def test_fork_after_use():
    run("""
        import os, torch
        x = torch.ones(1000, device="neuron")
        y = x + 1
        child = os.fork()
        if child == 0:
            ok = torch.neuron._is_in_bad_fork() and not torch.neuron.is_initialized()
            for use in (lambda: torch.ones(2, device="neuron"), lambda: torch.neuron.init(), lambda: x + 1, lambda: x.cpu(),
                        lambda: torch.neuron.synchronize(), lambda: torch.ones(2).to("neuron"), lambda: x.fill_(0)):
                try:
                    use()
                    ok = False
                except RuntimeError as error:
                    ok = ok and "spawn" in str(error)
            torch.manual_seed(3)
            torch.set_num_threads(1)
            del x, y
            os._exit(0 if ok else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert x.eq(1).all().item() and y.sum().item() == 2000
    """)


def test_fork_child_exits_normally():
    run("""
        import os, sys, torch
        x = torch.ones(1000, device="neuron")
        child = os.fork()
        if child == 0:
            sys.exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        assert (x + 1).sum().item() == 2000
    """)


def test_fork_before_use():
    run("""
        import os, torch
        assert torch.neuron.device_count() == 1
        child = os.fork()
        if child == 0:
            ok = torch.ones(2, device="neuron").sum().item() == 2
            os._exit(0 if ok else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert torch.ones(2, device="neuron").sum().item() == 2
    """)


def test_data_loader_workers_after_use():
    run("""
        import torch
        torch.ones(2, device="neuron").sum().item()
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, i):
                return torch.full((2,), float(i)) + torch.rand(1) * 0
        loader = torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2, pin_memory=True)
        for _ in range(2):
            total = sum(batch.to("neuron", non_blocking=True).sum().item() for batch in loader)
            assert total == 56
    """)


def interrupted(code):
    process = subprocess.Popen([sys.executable, *QUIET, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, cwd="/")
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    return out, err, time.monotonic() - start


@pytest.mark.parametrize("wait", ["torch.neuron.synchronize()", "torch.accelerator.synchronize()", "stream.synchronize()", "event.synchronize()"])
def test_interrupt_a_long_wait(wait):
    out, err, seconds = interrupted(f"""
        import os, torch
        stream, event = torch.neuron.current_stream(), torch.neuron.Event()
        torch.ones(1, device="neuron")
        torch.neuron._sleep(20 * 1_400_000_000)
        event.record()
        print("ready", flush=True)
        try:
            {wait}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            os._exit(0)
    """)
    assert out == "interrupted\n" and seconds < 3, err


def test_interrupt_a_long_loop():
    out, err, seconds = interrupted("""
        import torch
        x = torch.ones(100, device="neuron", requires_grad=True)
        print("ready", flush=True)
        try:
            while True:
                (x * 2).relu().sum().backward()
        except KeyboardInterrupt:
            print("interrupted", (x.detach() * 0 + 1).sum().item(), flush=True)
    """)
    assert out == "interrupted 100.0\n" and seconds < 10, err


def test_exception_in_the_middle_of_backward():
    run("""
        import torch
        def boom(grad):
            raise KeyError("boom")
        x = torch.ones(8, device="neuron", requires_grad=True)
        y = x * 2
        y.register_hook(boom)
        try:
            y.relu().sum().backward()
        except KeyError as error:
            assert "boom" in str(error)
        else:
            raise SystemExit(4)
        (x * 3).sum().backward()
        assert x.grad.sum().item() == 24
    """)


@pytest.mark.slow
def test_a_thousand_starts_and_exits():
    for _ in range(1000):
        run("import torch; x = torch.ones(4, device='neuron'); assert (x + x).cpu().tolist() == [2] * 4")


def test_idle_process_burns_no_cpu():
    run("""
        import time, torch
        x = torch.ones(300, 300, device="neuron")
        for _ in range(20):
            (x @ x).sum().item()
        time.sleep(0.3)
        start = time.process_time()
        time.sleep(1.0)
        assert time.process_time() - start < 0.05
    """)


def test_several_devices_in_one_process():
    run("""
        import torch
        assert torch.neuron.device_count() == 3
        a = torch.arange(4.0).to("neuron:1")
        assert a.device.index == 1 and a.to("neuron:2").device.index == 2
        assert a.to("neuron:0").cpu().tolist() == [0, 1, 2, 3]
        with torch.neuron.device(2):
            assert torch.ones(1, device="neuron").device.index == 2
            assert torch.neuron.current_stream().device.index == 2
        assert torch.neuron.current_device() == 0
        try:
            a + a.to("neuron:2")
        except RuntimeError as error:
            assert "neuron:1" in str(error) and "neuron:2" in str(error)
        else:
            raise SystemExit("mixing devices must raise")
        assert torch.neuron.memory_allocated(1) > 0
        torch.manual_seed(3)
        assert len(torch.neuron.get_rng_state_all()) == 3
        layer = torch.nn.Linear(2, 2).to("neuron:1")
        parameter = layer.weight
        layer.to("neuron:2")
        assert layer.weight is parameter and parameter.device.index == 2
        x = torch.ones(4, device="neuron:0", requires_grad=True)
        (x.to("neuron:1") * 2).to("neuron:2").sum().backward()
        assert x.grad.device.index == 0 and x.grad.sum().item() == 8
        assert torch.neuron.can_device_access_peer(0, 1)
        for index in range(3):
            torch.neuron.synchronize(index)
    """, NEURON_RT_NUM_CORES="3")


def test_operands_of_two_devices_are_refused():
    """Their streams do not wait for each other, so reading along would give whatever is there."""
    run("""
        import torch
        from torch.nn import functional as F
        x, w = torch.ones(2, 3, device="neuron:1"), torch.ones(3, device="neuron:0")
        target = torch.zeros(2, dtype=torch.long, device="neuron:0")
        calls = {"add": lambda: x + w, "layer_norm": lambda: F.layer_norm(x, (3,), w), "rms_norm": lambda: F.rms_norm(x, (3,), w),
                 "nll": lambda: F.nll_loss(x, target), "index": lambda: x[target], "mm": lambda: x @ w[:, None],
                 "record_stream": lambda: x.record_stream(torch.neuron.Stream("neuron:0"))}
        for name, call in calls.items():
            try:
                call()
            except RuntimeError as error:
                assert "device" in str(error) or "neuron:0" in str(error), (name, error)
            else:
                raise SystemExit(name + " must raise")
        assert (x.to("neuron:0") + w).sum().item() == 12
    """, NEURON_RT_NUM_CORES="2")


def test_torchrun_counts_local_ranks():
    assert run("import torch; print(torch.neuron.device_count())", LOCAL_WORLD_SIZE="4").stdout == "4\n"


def test_no_device():
    process = run("""
        import torch
        assert torch.neuron.device_count() == 0 and not torch.neuron.is_available()
        torch.manual_seed(1)
        assert torch.ones(2).add(1).tolist() == [2, 2]
        torch.ones(2, device="neuron")
    """, check=False, NEURON_RT_NUM_CORES="0")
    assert process.returncode == 1 and "RuntimeError" in process.stderr and "neuron" in process.stderr.lower().splitlines()[-1]
