"""Generates the C and Python tables of core/op/ops.def.

usage: gen_tables.py header|sections|python OPS_DEF OUTPUT...

`sections` writes one header per section of the table, tn/op/<section>.h, with the numbers of its ops, so that a change to
one section builds only those files again that name ops of it or of later sections; `header` writes tn/op.h, which includes
them all; `python` writes a module with one `Op` tuple per line of the table, which the
documentation, the tests and the registration generator read.
"""

import os
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


def sections(ops):
    return list(dict.fromkeys(op.section for op in ops))


def header(ops):
    """tn/op.h: the headers of all sections, and the count."""
    lines = "".join(f'#include "tn/op/{section}.h"\n' for section in sections(ops))
    return ("/* Generated from core/op/ops.def. */\n#ifndef TN_OP_H\n#define TN_OP_H\n"
            f"{lines}enum {{ TN_OP_COUNT = {len(ops)} }};\n#endif\n")


def section_header(ops, section):
    lines = "".join(f"    TN_OP_{op.name} = {number},\n" for number, op in enumerate(ops) if op.section == section)
    guard = f"TN_OP_{section.upper()}_H"
    return f"/* Generated from core/op/ops.def. */\n#ifndef {guard}\n#define {guard}\nenum {{\n{lines}}};\n#endif\n"


def python(ops):
    lines = "".join(f"    {tuple(op)!r},\n" for op in ops)
    fields = " ".join(Op._fields)
    return ('"""Generated from core/op/ops.def."""\nfrom collections import namedtuple\n\n'
            f'Op = namedtuple("Op", "{fields}")\nOPS = [Op(*row) for row in (\n{lines})]\n')


def write(path, text):
    """Leaves a file that would not change as it is, so that nothing which includes it is built again."""
    if not os.path.exists(path) or open(path).read() != text:
        with open(path, "w") as out:
            out.write(text)


def write_sections(ops, outputs):
    named = [os.path.basename(path).removesuffix(".h") for path in outputs]
    if sorted(named) != sorted(sections(ops)):
        raise ValueError(f"the sections of ops.def are not those of include/tn/op/meson.build: "
                         f"{sorted(set(named) ^ set(sections(ops)))}")
    for section, path in zip(named, outputs):
        write(path, section_header(ops, section))


if __name__ == "__main__":
    kind, source, *outputs = sys.argv[1:]
    table = read(source)
    if kind == "sections":
        write_sections(table, outputs)
    else:
        write(outputs[0], {"header": header, "python": python}[kind](table))
