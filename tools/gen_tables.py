"""Generates the C and Python tables of core/op/ops.def.

usage: gen_tables.py header|python OPS_DEF OUTPUT

`header` writes tn/op.h (the enum); `python` writes a module with one `Op` tuple per line of the table, which the
documentation, the tests and the registration generator read.
"""

import re
import sys
from typing import NamedTuple


class Op(NamedTuple):
    name: str
    kernel: str
    outputs: str
    inputs: str
    cost: str
    aten: tuple
    scalars: tuple
    section: str


LINE = re.compile(r'^OP\((\w+), (\w+), (\w+), (\w+), (\w+(?:\(\d+\))?), "([^"]*)", "([^"]*)"\)$')
SECTION = re.compile(r"^/\* ---- (\w+)")


def read(path):
    """The table as a list of Op; raises ValueError with file:line on a line that does not parse."""
    ops, section = [], ""
    with open(path) as file:
        for number, line in enumerate(file, 1):
            if heading := SECTION.match(line):
                section = heading[1]
            if not line.startswith("OP("):
                continue
            match = LINE.match(line.rstrip())
            if not match:
                raise ValueError(f"{path}:{number}: not an OP line: {line.strip()}")
            name, kernel, outputs, inputs, cost, aten, scalars = match.groups()
            ops.append(Op(name, kernel, outputs, inputs, cost, tuple(filter(None, aten.split(","))),
                          tuple(filter(None, scalars.split(","))), section))
    names = [op.name for op in ops]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"{path}: op defined twice: {sorted(twice)}")
    return ops


def header(ops):
    lines = "".join(f"    TN_OP_{op.name},\n" for op in ops)
    return ("/* Generated from core/op/ops.def. */\n#ifndef TN_OP_H\n#define TN_OP_H\n"
            f"typedef enum tn_op {{\n{lines}    TN_OP_COUNT\n}} tn_op;\n#endif\n")


def python(ops):
    lines = "".join(f"    {tuple(op)!r},\n" for op in ops)
    fields = " ".join(Op._fields)
    return ('"""Generated from core/op/ops.def."""\nfrom collections import namedtuple\n\n'
            f'Op = namedtuple("Op", "{fields}")\nOPS = [Op(*row) for row in (\n{lines})]\n')


if __name__ == "__main__":
    kind, source, output = sys.argv[1:]
    with open(output, "w") as out:
        out.write({"header": header, "python": python}[kind](read(source)))
