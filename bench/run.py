"""Runs the scripts of this folder, each in a process of its own: `python bench/run.py [NAME...]`, or ROW=NAME.

Prints every row, then which goals are met, and leaves the figures in results/.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = ("eager_small", "large", "launch", "gpt_step", "copies", "process", "memory", "matmul")
LIMIT_SECONDS = 600


def main():
    names = sys.argv[1:] or os.environ.get("ROW", "").split() or [n for n in SCRIPTS if (HERE / f"{n}.py").exists()]
    began, failed = time.perf_counter(), []
    for name in names:
        try:
            done = subprocess.run([sys.executable, "-W", "ignore", HERE / f"{name}.py"], timeout=LIMIT_SECONDS, check=False)
            if done.returncode:
                failed.append(f"{name} exited with {done.returncode}")
        except subprocess.TimeoutExpired:
            failed.append(f"{name} took more than {LIMIT_SECONDS} s")
    goals = []
    for name in names:
        path = HERE.parent / "results" / f"{name}.json"
        if path.exists():
            goals += json.loads(path.read_text()).get("goals", [])
    missed = [goal for goal in goals if not goal["met"]]
    print(f"\n{len(goals) - len(missed)} of {len(goals)} goals met in {time.perf_counter() - began:.0f} s")
    for goal in missed:
        print(f"  missed: {goal['goal']}: {goal['value']:.4g} ({goal['bound']})")
    for text in failed:
        print(f"  failed: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
