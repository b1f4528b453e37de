"""Leaving the process. Registered with atexit: the interpreter is whole, other threads may still run Python code.

A thread of the autograd engine drops the graph it has worked on after backward() has returned, and needs the GIL for that. If the
interpreter is going down by then, Python ends the thread inside a C++ destructor, which aborts the process. So the last
backward() is given the time to come to rest.
"""

import os
import time

from torch_neuronx import _C

_LONGEST_SECONDS = 1.0
_STEP_SECONDS = 0.002


def quiesce():
    if _C.in_bad_fork():
        return
    _wait_for_autograd_threads()
    _C.quiesce()


def _wait_for_autograd_threads():
    threads = _autograd_threads()
    deadline = time.monotonic() + _LONGEST_SECONDS
    previous = None
    while threads and time.monotonic() < deadline:
        state = [_state(thread) for thread in threads]
        if state == previous and all(sleeping for sleeping, _switches in state):
            return
        previous = state
        time.sleep(_STEP_SECONDS)  # without the GIL


def _autograd_threads():
    found = []
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/comm") as file:
                if file.read().startswith("pt_autograd"):
                    found.append(thread)
    except OSError:
        pass  # a thread ended, or there is no /proc
    return found


def _state(thread):
    """(whether it sleeps, how often it went to sleep): two equal samples mean that it did nothing in between. A thread that
    waits for the GIL wakes up every few milliseconds."""
    try:
        with open(f"/proc/self/task/{thread}/status") as file:
            rows = dict(line.split(":", 1) for line in file if ":" in line)
    except OSError:
        return True, 0
    return rows["State"].split()[0] == "S", int(rows["voluntary_ctxt_switches"])
