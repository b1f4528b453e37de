"""Checks that no source file is longer than 1000 lines."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_LINES = 1000
SUFFIXES = {".c", ".h", ".cpp", ".py"}


def tracked():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [name for name in names.decode().split("\0") if name]


def main():
    too_long = []
    for name in tracked():
        path = ROOT / name
        if path.suffix in SUFFIXES and path.exists():
            lines = len(path.read_text().splitlines())
            if lines > MOST_LINES:
                too_long.append(f"{name}: {lines} lines, more than {MOST_LINES}")
    print("\n".join(too_long), end="\n" if too_long else "")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
