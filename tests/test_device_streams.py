"""torch.neuron.Stream and Event, torch.Stream and torch.Event: order, waiting, timing, misuse."""

import threading
import time

import pytest
import torch

CYCLES_PER_MS = 1_400_000


def busy(milliseconds):
    torch.neuron._sleep(int(milliseconds * CYCLES_PER_MS))


def test_constructors():
    stream, high = torch.neuron.Stream(), torch.neuron.Stream(device="neuron:0", priority=-1)
    assert isinstance(stream, torch.Stream) and stream.device == torch.device("neuron:0")
    assert stream != high and stream.stream_id != high.stream_id and high.priority <= stream.priority
    assert isinstance(torch.neuron.Event(), torch.Event)
    assert isinstance(torch.accelerator.current_stream(), torch.neuron.Stream)
    assert isinstance(torch.Event("neuron"), torch.neuron.Event) and not isinstance(3, torch.neuron.Stream)
    assert not isinstance(torch.Stream("cpu"), torch.neuron.Stream)
    assert stream.native_handle and "stream_id" in repr(stream)


def test_default_and_current():
    default = torch.neuron.default_stream()
    assert torch.neuron.current_stream() == default == torch.neuron.current_stream(device="neuron")
    stream = torch.neuron.Stream()
    with torch.neuron.stream(stream):
        assert torch.neuron.current_stream() == stream == torch.accelerator.current_stream()
        with torch.neuron.stream(None):
            assert torch.neuron.current_stream() == stream
    with stream:
        assert torch.neuron.current_stream() == stream
    assert torch.neuron.current_stream() == default
    torch.neuron.set_stream(stream)
    assert torch.neuron.current_stream() == stream
    torch.neuron.set_stream(default)
    same = torch.neuron.Stream(stream_id=stream.stream_id, device_index=0, device_type=stream.device_type)
    assert same == stream and hash(same) == hash(stream)


def test_current_stream_is_per_thread():
    stream, seen = torch.neuron.Stream(), []
    with torch.neuron.stream(stream):
        thread = threading.Thread(target=lambda: seen.append(torch.neuron.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.neuron.default_stream()]


def test_external_stream():
    stream = torch.neuron.Stream()
    assert torch.neuron.ExternalStream(stream.native_handle) == stream
    with pytest.raises(ValueError, match="native handle"):
        torch.neuron.ExternalStream(0x1234)


def test_host_runs_ahead():
    stream = torch.neuron.Stream()
    start = time.monotonic()
    with torch.neuron.stream(stream):
        busy(200)
    assert time.monotonic() - start < 0.15 and not stream.query()
    stream.synchronize()
    assert stream.query() and time.monotonic() - start >= 0.19


def test_event_orders_streams():
    producer, consumer = torch.neuron.Stream(), torch.neuron.Stream()
    x = torch.zeros(1000, device="neuron")
    torch.neuron.synchronize()
    event = torch.neuron.Event()
    with torch.neuron.stream(producer):
        busy(50)
        x.fill_(3)
        event.record()
    with torch.neuron.stream(consumer):
        consumer.wait_event(event)
        y = x + x
    assert not event.query()
    with torch.neuron.stream(consumer):
        assert y.sum().item() == 6000
    assert event.query()


def test_wait_stream_and_record_event():
    first, second = torch.neuron.Stream(), torch.neuron.Stream()
    x = torch.zeros(64, device="neuron")
    torch.neuron.synchronize()
    with torch.neuron.stream(first):
        busy(30)
        x.add_(1)
    event = first.record_event()
    second.wait_stream(first)
    with torch.neuron.stream(second):
        x.mul_(5)
    second.synchronize()
    assert event.query() and x.cpu().tolist() == [5] * 64


def test_a_blocked_stream_blocks_no_other():
    slow, blocked, free = (torch.neuron.Stream() for _ in range(3))
    with torch.neuron.stream(slow):
        busy(300)
    blocked.wait_stream(slow)
    with torch.neuron.stream(free):
        x = torch.ones(8, device="neuron") + 1
        assert x.cpu().tolist() == [2] * 8
    assert not slow.query() and not blocked.query()
    torch.neuron.synchronize()
    assert blocked.query()


def test_slow_streams_overlap():
    streams = [torch.neuron.Stream(), torch.neuron.Stream()]
    start = time.monotonic()
    for stream in streams:
        with torch.neuron.stream(stream):
            busy(200)
    torch.neuron.synchronize()
    assert time.monotonic() - start < 0.36


@pytest.mark.parametrize("make", [
    lambda: torch.neuron.Event(enable_timing=True), lambda: torch.Event("neuron", enable_timing=True),
    lambda: torch.Event(enable_timing=True)])
def test_elapsed_time_is_measured(make):
    start, end = make(), make()
    start.record()
    busy(30)
    end.record()
    end.synchronize()
    assert 25 < start.elapsed_time(end) < 300


def test_event_misuse():
    timed, untimed = torch.neuron.Event(enable_timing=True), torch.neuron.Event()
    assert untimed.query()
    untimed.synchronize()
    untimed.wait()
    with pytest.raises((RuntimeError, ValueError)):
        timed.elapsed_time(torch.neuron.Event(enable_timing=True))
    timed.record()
    untimed.record()
    torch.neuron.synchronize()
    with pytest.raises((RuntimeError, ValueError), match="timing"):
        timed.elapsed_time(untimed)
    with pytest.raises(NotImplementedError, match="processes"):
        torch.neuron.Event(interprocess=True)
    assert torch.ones(2, device="neuron").sum().item() == 2


def test_stream_of_another_device():
    with pytest.raises((RuntimeError, ValueError)):
        torch.neuron.set_stream(torch.Stream("cpu"))
    x = torch.ones(4, device="neuron")
    with pytest.raises(RuntimeError, match="stream"):
        x.record_stream(torch.Stream("cpu"))
    x.record_stream(torch.neuron.Stream())


def test_record_stream_delays_reuse():
    side = torch.neuron.Stream()
    x = torch.full((1 << 16,), 7.0, device="neuron")
    torch.neuron.synchronize()
    with torch.neuron.stream(side):
        busy(50)
        y = x + 1
    x.record_stream(side)
    del x
    torch.full((1 << 16,), -1.0, device="neuron")  # would take the freed memory at once
    side.synchronize()
    assert y.cpu().eq(8).all()


def test_backward_on_a_side_stream():
    stream = torch.neuron.Stream()
    w = torch.ones(16, device="neuron", requires_grad=True)
    torch.neuron.synchronize()
    with torch.neuron.stream(stream):
        (w * 3).relu().sum().backward()
    torch.neuron.current_stream().wait_stream(stream)
    assert w.grad.cpu().eq(3).all()


def test_many_threads():
    failures = []

    def work(seed):
        try:
            with torch.neuron.stream(torch.neuron.Stream()):
                for i in range(50):
                    x = torch.full((33,), float(seed), device="neuron")
                    assert (x * 2 + i).cpu().eq(seed * 2 + i).all()
        except Exception as error:  # the main thread reports it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)
