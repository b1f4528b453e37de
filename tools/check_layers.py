"""Checks who includes whom.

core/: base < prof < op < kernel < {comm, graph} < codegen; sim stands on kernel and comm; runtime may use all of
them. Files of the same layer may include each other. glue/ and python/ see only include/ and their own files.
Unit tests and the benchmarks may use everything.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)

BELOW = {
    "base": set(),
    "prof": {"base"},
    "op": {"base", "prof"},
    "kernel": {"base", "prof", "op"},
    "comm": {"base", "prof", "op", "kernel"},
    "graph": {"base", "prof", "op", "kernel"},
    "codegen": {"base", "prof", "op", "kernel", "graph"},
    "sim": {"base", "prof", "op", "kernel", "comm"},
    "runtime": {"base", "prof", "op", "kernel", "comm", "graph", "codegen", "sim"},
}


def sources(folder):
    return sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in {".c", ".h", ".cpp", ".hpp", ".def"})


def core_faults():
    for path in sources("core"):
        layer = path.relative_to(ROOT / "core").parts[0]
        if path.stem.endswith("_test"):
            continue
        if layer not in BELOW:
            yield path, f"no layer is called {layer}"
            continue
        for name in INCLUDE.findall(path.read_text()):
            target = name.split("/")[0] if "/" in name else layer
            if target != "tn" and target != layer and target not in BELOW[layer]:
                yield path, f"{layer} may not include {name}"


def outer_faults():
    for folder in ("glue", "python", "include"):
        for path in sources(folder):
            for name in INCLUDE.findall(path.read_text()):
                if name.split("/")[0] in BELOW:
                    yield path, f"{folder} sees only include/, not {name}"


def main():
    faults = [*core_faults(), *outer_faults()]
    for path, text in faults:
        print(f"{path.relative_to(ROOT)}: {text}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
