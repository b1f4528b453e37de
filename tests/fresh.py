"""Runs code in a process that is about to import torch_neuronx for the first time.

`import torch` takes a second, so one server process does it once, without the device, and forks for every run. The child imports
torch_neuronx, runs the code as its main program and leaves the interpreter the ordinary way."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from types import SimpleNamespace

_SERVER = r"""
import json, os, sys, time
import torch
import torch.distributed

def serve():
    for line in sys.stdin:
        task = json.loads(line)
        child = os.fork()
        if child == 0:
            return task
        deadline = time.monotonic() + task["timeout"]
        status, timed_out = 0, False
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() > deadline:
                timed_out = True
                os.kill(child, 9)
            time.sleep(0.002)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status), "timed_out": timed_out}), flush=True)

task = serve()
if task:
    for fd, (path, flags) in enumerate((("/dev/null", os.O_RDONLY), (task["stdout"], os.O_WRONLY), (task["stderr"], os.O_WRONLY))):
        os.dup2(os.open(path, flags), fd)
    os.environ.update(task["environment"])
    if not task["warnings"]:
        import warnings
        warnings.simplefilter("ignore")
    code = compile(task["source"], "<string>", "exec")
    if task["load"]:
        import torch_neuronx
    exec(code, {"__name__": "__main__"})
"""

_server = None


def _start():
    global _server
    if _server is None or _server.poll() is not None:
        _server = subprocess.Popen([sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
                                   env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
        atexit.register(_server.stdin.close)
    return _server


def run(code, timeout=60, check=True, load=True, warnings=False, **environment):
    """Returns returncode, stdout and stderr. `load=False` leaves the import of torch_neuronx to the code."""
    server = _start()
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        task = {"source": textwrap.dedent(code), "environment": environment, "stdout": out.name, "stderr": err.name,
                "timeout": timeout, "load": load, "warnings": warnings}
        server.stdin.write(json.dumps(task) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        result = SimpleNamespace(returncode=answer["code"], stdout=out.read(), stderr=err.read())
    assert not answer["timed_out"], f"no end after {timeout} s\n{result.stderr}"
    if check:
        assert result.returncode == 0, result.stderr
    return result
