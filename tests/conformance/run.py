"""Conformance of the device with the CPU over the databases of torch.testing._internal.

    python -m tests.conformance.run --jobs 2                  everything
    python -m tests.conformance.run --share 1/20              a twentieth of the units, always the same ones
    python -m tests.conformance.run --database op --name nn.functional.gelu --dtype float32

Every unit (an operator, module or optimizer in one dtype) runs in a worker process; a worker that crashes or hangs is
one failed check, and the next one goes on. Exits with 1 when a case fails that exceptions.py does not name, or when a
case passes that it names.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import queue
import select
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter

from .exceptions import EXCEPTIONS

UNIT_SECONDS = 120  # without a word from the worker
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Worker:
    """A worker process and the dialogue with it."""

    def __init__(self):
        self.process, self.buffer = None, b""

    def start(self):
        environment = dict(os.environ, TORCH_NEURONX_NUM_THREADS="1", OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
        self.process = subprocess.Popen([sys.executable, "-m", "tests.conformance.worker"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=ROOT)
        self.buffer = b""
        ready = self.read()
        if ready is None or ready["event"] != "ready":
            raise RuntimeError("a conformance worker does not start; run `python -m tests.conformance.worker` to see why")

    def read(self):
        """The next message; None when the worker died, TimeoutError when it hangs."""
        deadline = time.monotonic() + UNIT_SECONDS
        while b"\n" not in self.buffer:
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def run(self, unit):
        """Yields one row per check of the unit."""
        if self.process is None:
            self.start()
        self.process.stdin.write((" ".join(unit) + "\n").encode())
        self.process.stdin.flush()
        check = "setup"
        while True:
            try:
                message = self.read()
                lost = "worker died" if message is None else None
            except TimeoutError:
                lost = f"no answer for {UNIT_SECONDS} s"
            if lost:
                yield dict(check=check, result="failed", message=f"Crash: {lost}{self.stop()}", host=[], seconds=0)
                return
            if message["event"] == "end":
                return
            check = message["check"]
            if message["event"] == "done":
                yield message

    def stop(self):
        """Ends the process; says by which signal it had died."""
        process, self.process = self.process, None
        if process is None:
            return ""
        process.stdin.close()
        try:
            code = process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        return f" ({signal.Signals(-code).name})" if code < 0 else ""


def list_units(options):
    """(database, name, dtype) of the share asked for."""
    from . import modules, operators, optimizers
    found = [(database, name, dtype)
             for database, module in (("op", operators), ("module", modules), ("optim", optimizers))
             for name, dtype in module.units()]
    number, of = (int(part) for part in options.share.split("/"))
    return [unit for unit in found if zlib.crc32(" ".join(unit).encode()) % of == number - 1
            and (options.database in (None, unit[0])) and (options.dtype in (None, unit[2]))
            and (options.name is None or fnmatch.fnmatch(unit[1], options.name))]


def excepted(case):
    return any(all(mine in ("*", theirs) for mine, theirs in zip(key.split(), case)) for key in EXCEPTIONS)


def execute(units, jobs, on_row):
    """Runs the units on `jobs` workers; on_row(case, row) is called under a lock."""
    todo, lock = queue.SimpleQueue(), threading.Lock()
    for unit in units:
        todo.put(unit)

    def serve():
        worker = Worker()
        while True:
            try:
                unit = todo.get_nowait()
            except queue.Empty:
                worker.stop()
                return
            for row in worker.run(unit):
                with lock:
                    on_row((*unit, row["check"]), row)

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run(options):
    """All rows by case, and the unexpected ones as text."""
    rows, wrong = {}, []

    def on_row(case, row):
        rows[case] = row
        failed = row["result"] == "failed"
        if row["result"] != "none" and failed != excepted(case):
            text = f"{' '.join(case)}: " + (row["message"] if failed else "passes, but is listed in exceptions.py")
            wrong.append(text)
            if not options.quiet:
                print(text, flush=True)

    execute(list_units(options), options.jobs, on_row)
    return rows, sorted(wrong)


def native_table(rows):
    """Per operator the dtypes whose forward ran without a host kernel, and those that used one."""
    table = {}
    for (database, name, dtype, check), row in rows.items():
        if database == "op" and check == "forward" and row["result"] == "passed":
            table.setdefault(name, {"native": [], "host": []})["host" if row["host"] else "native"].append(dtype)
    return table


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", default="1/1", help="i/n: the i-th of n parts, dealt by a checksum of the unit's name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--database", choices=("op", "module", "optim"))
    parser.add_argument("--name", help="only these operators; may hold * and ?")
    parser.add_argument("--dtype")
    parser.add_argument("--json", help="write all rows to this file")
    parser.add_argument("--native", action="store_true", help="print for each operator where it ran")
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args(arguments)


def main():
    options = parse()
    began = time.perf_counter()
    rows, wrong = run(options)
    if options.json:
        with open(options.json, "w") as file:
            json.dump([{"case": case, **row} for case, row in sorted(rows.items())], file, indent=0)
    if options.native:
        for name, where in sorted(native_table(rows).items()):
            print(f"{name}: native {' '.join(where['native']) or '-'}; host {' '.join(where['host']) or '-'}")
    results = Counter(row["result"] for row in rows.values())
    print(f"{results['passed']} passed, {results['failed']} failed ({len(wrong)} unexpected), "
          f"{results['none']} without such a variant, {time.perf_counter() - began:.0f} s")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
