"""Statistics, limits, out of memory, snapshot and history of device memory; pinned host memory."""

import gc
import pickle

import pytest
import torch

MIB = 1 << 20


@pytest.fixture(autouse=True)
def quiet():
    gc.collect()  # tensors that earlier tests left in cycles, such as those of a traceback
    torch.neuron.synchronize()
    torch.neuron.empty_cache()
    torch.neuron.reset_peak_memory_stats()
    yield
    torch.neuron.set_per_process_memory_fraction(1.0)
    torch.neuron.empty_cache()


def test_allocated_and_peak():
    before = torch.neuron.memory_allocated()
    x = torch.empty(4 * MIB, dtype=torch.uint8, device="neuron")
    assert torch.neuron.memory_allocated() - before == 4 * MIB
    assert torch.neuron.memory_reserved() >= torch.neuron.memory_allocated()
    del x
    assert torch.neuron.memory_allocated() == before
    assert torch.neuron.max_memory_allocated() >= before + 4 * MIB
    torch.neuron.reset_peak_memory_stats()
    assert torch.neuron.max_memory_allocated() == before


def test_many_tensors_leave_nothing():
    before = torch.neuron.memory_allocated()
    for i in range(20000):
        torch.empty(i % 300 + 1, device="neuron")
    assert torch.neuron.memory_allocated() == before


def test_cache_goes_back():
    torch.empty(64 * MIB, dtype=torch.uint8, device="neuron")
    assert torch.neuron.memory_reserved() >= 64 * MIB
    torch.neuron.empty_cache()
    assert torch.neuron.memory_reserved() < 64 * MIB


def test_stats_schema():
    keep = torch.ones(10, device="neuron")
    stats = torch.neuron.memory_stats()
    for name in ("allocation", "segment", "active", "allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
        for pool in ("all", "small_pool", "large_pool"):
            for metric in ("current", "peak", "allocated", "freed"):
                assert f"{name}.{pool}.{metric}" in stats
    for name in ("num_alloc_retries", "num_ooms", "num_tensor_frees", "allocation_requests"):
        assert stats[name] >= 0
    assert stats["requested_bytes.all.current"] >= 40
    nested = torch.neuron.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == stats["allocated_bytes.all.current"]
    common = torch.accelerator.memory_stats()
    assert common["allocated_bytes.all.current"] == stats["allocated_bytes.all.current"]
    assert torch.accelerator.memory_allocated() == torch.neuron.memory_allocated("neuron:0")
    summary = torch.neuron.memory_summary()
    assert "Allocated memory" in summary and "large pool" in summary
    del keep


def test_accumulated_stats():
    torch.neuron.reset_accumulated_memory_stats()
    torch.empty(256, device="neuron")
    stats = torch.neuron.memory_stats()
    assert stats["allocation.all.allocated"] == 1 and stats["allocation.all.freed"] == 1


def test_memory_info():
    free, total = torch.neuron.mem_get_info()
    x = torch.empty(8 * MIB, dtype=torch.uint8, device="neuron")
    assert torch.neuron.mem_get_info() == torch.accelerator.get_memory_info()
    assert torch.neuron.mem_get_info(0)[0] <= free - 8 * MIB and torch.neuron.mem_get_info("neuron")[1] == total
    del x


def test_out_of_memory_and_recovery():
    total = torch.neuron.mem_get_info()[1]
    before = torch.neuron.memory_allocated()
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(total + (1 << 30), dtype=torch.uint8, device="neuron")
    assert "GiB" in str(caught.value) or "bytes" in str(caught.value)
    assert torch.neuron.memory_allocated() == before
    assert torch.neuron.memory_stats()["num_ooms"] >= 1
    assert torch.ones(4, device="neuron").sum().item() == 4


def test_fraction():
    total = torch.neuron.mem_get_info()[1]
    torch.neuron.set_per_process_memory_fraction(64 * MIB / total)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(128 * MIB, dtype=torch.uint8, device="neuron")
    torch.neuron.set_per_process_memory_fraction(1.0)
    torch.empty(128 * MIB, dtype=torch.uint8, device="neuron")
    for bad, kind in ((0, ValueError), (1.5, ValueError), ("1", TypeError)):
        with pytest.raises(kind):
            torch.neuron.set_per_process_memory_fraction(bad)


def test_snapshot_covers_every_byte():
    keep = [torch.empty(3 * MIB, dtype=torch.uint8, device="neuron"), torch.empty(700, device="neuron")]
    segments = torch.neuron.memory_snapshot()
    assert segments
    for segment in segments:
        blocks = segment["blocks"]
        assert sum(block["size"] for block in blocks) == segment["total_size"]
        assert blocks[0]["address"] == segment["address"]
        for one, two in zip(blocks, blocks[1:]):
            assert one["address"] + one["size"] == two["address"]
    active = {block["address"]: block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"}
    for tensor in keep:
        assert active[tensor.data_ptr()]["requested_size"] == tensor.nbytes
    assert sum(block["size"] for block in active.values()) == torch.neuron.memory_allocated()


def test_history_opens_in_the_visualizer(tmp_path):
    from torch.cuda import _memory_viz

    torch.neuron.memory._record_memory_history(max_entries=1000)
    try:
        x = torch.empty(5 * MIB, dtype=torch.uint8, device="neuron")
        address = x.data_ptr()
        y = torch.empty(100, device="neuron")
        del x
    finally:
        torch.neuron.memory._record_memory_history(None)
    path = tmp_path / "snapshot.pickle"
    torch.neuron.memory._dump_snapshot(str(path))
    snapshot = pickle.loads(path.read_bytes())
    rows = [row for row in snapshot["device_traces"][0] if row["addr"] == address]
    assert [row["action"] for row in rows if not row["action"].startswith("segment")] == ["alloc", "free_requested", "free_completed"]
    assert rows[0]["size"] >= 5 * MIB or rows[0]["action"].startswith("segment")
    alloc = next(row for row in rows if row["action"] == "alloc")
    assert alloc["frames"][0]["filename"].endswith("test_device_memory.py")
    assert "segments" in _memory_viz.segsum(snapshot)
    assert _memory_viz.trace(snapshot)
    assert "<html" in _memory_viz.trace_plot(snapshot).lower() or "script" in _memory_viz.trace_plot(snapshot)
    assert _memory_viz.segment_plot(snapshot)
    del y


def test_history_while_threads_run():
    """The line of an allocation is asked for under no lock that a thread with the GIL may wait for."""
    import threading

    torch.neuron.memory._record_memory_history(max_entries=500)
    try:
        def work():
            for i in range(300):
                torch.empty(i + 1, device="neuron").add_(1)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        assert len(torch.neuron.memory._snapshot()["device_traces"][0]) <= 500
    finally:
        torch.neuron.memory._record_memory_history(False)


def test_storage_resize_keeps_the_storage():
    x = torch.arange(8.0).to("neuron")
    storage = x.untyped_storage()
    storage.resize_(0)
    assert x.untyped_storage().data_ptr() == 0
    storage.resize_(32)
    x.fill_(2)
    assert x.cpu().tolist() == [2] * 8
    storage.resize_(64)
    assert x.cpu().tolist() == [2] * 8


def test_untyped_storage():
    storage = torch.UntypedStorage(16, device="neuron")
    storage.copy_(torch.arange(16, dtype=torch.uint8).untyped_storage())
    assert storage.cpu().tolist() == list(range(16)) and storage.clone().device.type == "neuron"
    assert storage[3] == 3
    storage[3] = 9
    assert torch.tensor([], dtype=torch.uint8, device="neuron").set_(storage)[3].item() == 9


def test_pinned_memory():
    x = torch.arange(10.0).pin_memory()
    assert x.is_pinned() and x[3:7].is_pinned() and not torch.arange(3.0).is_pinned()
    y = x[2:5].to("neuron", non_blocking=True)
    assert y.cpu().tolist() == [2, 3, 4]
    host = torch.empty(3, pin_memory=True)
    host.copy_(y, non_blocking=True)
    torch.neuron.synchronize()
    assert host.tolist() == [2, 3, 4]
    torch.accelerator.empty_host_cache()


def test_pinned_memory_outlives_its_tensor():
    stream = torch.neuron.Stream()
    with torch.neuron.stream(stream):
        torch.neuron._sleep(40 * 1_400_000)
        target = torch.empty(1 << 16, device="neuron")
        source = torch.full((1 << 16,), 5.0).pin_memory()
        target.copy_(source, non_blocking=True)
        del source
        noise = [torch.zeros(1 << 16).pin_memory() for _ in range(4)]
    stream.synchronize()
    assert target.cpu().eq(5).all()
    del noise


def test_data_loader_pins():
    data = torch.utils.data.TensorDataset(torch.arange(12.0).view(6, 2), torch.arange(6))
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=workers, pin_memory=True)
        batches = [(x.to("neuron", non_blocking=True), y) for x, y in loader]
        assert all(y.is_pinned() for _x, y in batches)
        assert torch.cat([x.cpu() for x, _y in batches]).equal(torch.arange(12.0).view(6, 2))
