"""Environment variables: honoured, mapped, rejected, misspelt; torch.neuron.config()."""

import pytest
import torch
from fresh import run

from torch_neuronx import _settings


def test_config_lists_every_setting():
    config = torch.neuron.config()
    assert config["NEURON_PLATFORM_TARGET_OVERRIDE"]["value"] == "trn2"
    assert config["NEURON_LAUNCH_BLOCKING"] == {"value": False, "source": "default", "effect": "honoured",
                                                "note": "every op is complete when its call returns"}
    assert {row["effect"] for row in config.values()} == {"honoured", "mapped", "accepted", "later", "rejected"}
    assert "NEURON_RT_NUM_CORES" in str(config)


@pytest.mark.parametrize("name, text, value", [
    ("NEURON_RT_VISIBLE_CORES", "0,2,4-6", [0, 2, 4, 5, 6]), ("NEURON_LAUNCH_BLOCKING", "true", True),
    ("NEURON_PLATFORM_TARGET_OVERRIDE", "gen4", "trn3"), ("TORCH_NEURONX_LOG_LEVEL", "INFO", 20),
    ("TORCH_NEURONX_SEGMENT_ALLOCATOR_CONFIG", "kMaxSplitSizeBytes:1024", {"kMaxSplitSizeBytes": 1024})])
def test_values(monkeypatch, name, text, value):
    monkeypatch.setenv(name, text)
    assert _settings.get(name) == value
    assert torch.neuron.config()[name]["source"] == "environment"


BAD = [("NEURON_RT_VISIBLE_CORES", "3-1"), ("NEURON_RT_VISIBLE_CORES", "a"), ("NEURON_RT_VISIBLE_CORES", "1,1"),
       ("NEURON_RT_NUM_CORES", "-1"), ("NEURON_RT_NUM_CORES", "65"), ("NEURON_LAUNCH_BLOCKING", "2"), ("TORCH_NEURONX_NUM_THREADS", "0"),
       ("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9"), ("TORCH_NEURONX_LOG_LEVEL", "loud"), ("TORCH_NEURONX_SKIP_OP_PRECONDITIONS", "1"),
       ("TORCH_NEURONX_SEGMENT_ALLOCATOR_CONFIG", "nonsense:3"), ("NEURON_LOGICAL_NC_CONFIG", "3")]


@pytest.mark.parametrize("name, text", BAD)
def test_a_bad_value_names_its_variable(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=name):
        _settings.validate()


@pytest.mark.parametrize("name, text", [("NEURON_RT_NUM_CORES", "x"), ("PYTORCH_ALLOC_CONF", "nonsense:1")])
def test_a_bad_value_stops_the_import(name, text):
    process = run("import torch_neuronx", load=False, check=False, **{name: text})
    assert process.returncode == 1 and name in process.stderr


def test_unknown_name_warns_once_with_the_nearest():
    process = run("import torch; print(torch.ones(1, device='neuron').device)", warnings=True, TORCH_NEURONX_STRIKT="1",
                  TORCH_NEURONX_ZZZ="1")
    assert process.returncode == 0 and process.stdout == "neuron:0\n"
    assert process.stderr.count("unknown environment variables") == 1
    assert "TORCH_NEURONX_STRIKT (did you mean TORCH_NEURONX_STRICT?)" in process.stderr and "TORCH_NEURONX_ZZZ" in process.stderr


def test_visible_cores():
    code = "import torch; print(torch.neuron.device_count())"
    assert run(code, NEURON_RT_VISIBLE_CORES="0-3").stdout == "4\n"
    assert run(code, NEURON_RT_VISIBLE_CORES="1,3", NEURON_RT_NUM_CORES="7").stdout == "2\n"


def test_target():
    code = "import torch; p = torch.neuron.get_device_properties(); print(p.name, p.major)"
    assert run(code, NEURON_PLATFORM_TARGET_OVERRIDE="trn3").stdout == "trn3 4\n"


@pytest.mark.parametrize("environment", [{"NEURON_LAUNCH_BLOCKING": "1"}, {"TORCH_NEURONX_ENABLE_ASYNC_NRT": "0"}])
def test_launch_blocking(environment):
    process = run("""
        import time, torch
        torch.ones(1, device="neuron")
        start = time.monotonic()
        torch.neuron._sleep(200 * 1_400_000)
        assert time.monotonic() - start > 0.19 and torch.neuron.current_stream().query()
    """, **environment)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("environment", [{"TORCH_NEURONX_STRICT": "1"}, {"NEURON_FALLBACK_ENABLED": "0"}])
def test_strict(environment):
    process = run("""
        import torch
        x = torch.ones(3, device="neuron")
        try:
            torch.linalg.lstsq(x[None].expand(3, 3).contiguous(), x[:, None].contiguous())
        except NotImplementedError as error:
            assert "aten::" in str(error) and "<string>:5" in str(error), str(error)
        else:
            raise SystemExit(4)
        assert (x + x).cpu().tolist() == [2, 2, 2]
    """, **environment)
    assert process.returncode == 0, process.stderr


def test_reload(monkeypatch):
    from torch_neuronx import _C

    monkeypatch.setenv("NEURON_LAUNCH_BLOCKING", "1")
    monkeypatch.setenv("TORCH_NEURONX_STRICT", "1")
    torch.neuron.config.reload()
    try:
        assert _C.launch_blocking() and _C.strict_mode()
    finally:
        monkeypatch.undo()
        torch.neuron.config.reload()
    assert not _C.launch_blocking()


def test_threads():
    code = "import torch; from torch_neuronx import _C; torch.ones(1, device='neuron'); torch.set_num_threads(1); print(_C.num_threads())"
    assert run(code, TORCH_NEURONX_NUM_THREADS="3").stdout == "3\n"
    assert run(code).stdout == "1\n"


def test_log_file(tmp_path):
    path = tmp_path / "log.txt"
    process = run("import logging, torch; logging.getLogger('torch_neuronx').info('hello')", TORCH_NEURONX_LOG_LEVEL="info",
                  TORCH_NEURONX_LOG_FILE=str(path))
    assert process.returncode == 0 and "hello" in path.read_text()


def test_allocator_settings():
    process = run("""
        import torch
        torch.ones(1, device="neuron")
        print(torch.neuron.memory_stats()["max_split_size"] >> 20)
        torch._C._accelerator_setAllocatorSettings("max_split_size_mb:64")
        print(torch.neuron.memory_stats()["max_split_size"] >> 20)
    """, PYTORCH_ALLOC_CONF="max_split_size_mb:32")
    assert process.stdout == "32\n64\n", process.stderr


def test_dynamo_backend_only():
    process = run("""
        import torch
        import torch_neuronx
        assert torch._C._get_privateuse1_backend_name() == "privateuseone" and not hasattr(torch, "neuron")
        assert torch_neuronx.neuron_dynamo_backend.config.get_model_name() is None
    """, load=False, TORCH_NEURONX_DYNAMO_BACKEND_ONLY="1")
    assert process.returncode == 0, process.stderr
