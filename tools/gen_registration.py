"""Generates the registration of the pointwise operators.

usage: gen_registration.py OPS_DEF OUTPUT...

The ops are dealt out over the outputs, so that they compile side by side.

For every overload that a `pointwise` line of core/op/ops.def names and that torchgen's yaml declares as structured,
writes the functional, in-place and out= registrations in terms of glue/pointwise.h. Overloads that are not structured
are registered by hand (glue/pointwise.cpp).
"""

import os
import sys

import torchgen
from torchgen import local
from torchgen.api.dispatcher import arguments
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import NativeFunctionsGroup, SchemaKind

sys.path.insert(0, os.path.dirname(__file__))
import gen_tables

# The result's dtype is bool whatever the inputs are.
BOOL_RESULT = {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "isposinf",
               "isneginf", "signbit"}

# Structured, but more than one launch of the line that names them: glue/pointwise.cpp.
BY_HAND = {"glu", "mse_loss", "smooth_l1_loss", "softshrink", "pow.Scalar"}


def structured_groups():
    """Structured groups of native_functions.yaml by the functional overload's name."""
    folder = os.path.join(os.path.dirname(torchgen.__file__), "packaged", "ATen", "native")
    parsed = parse_native_yaml(os.path.join(folder, "native_functions.yaml"), os.path.join(folder, "tags.yaml"))
    groups = get_grouped_native_functions(parsed.native_functions)
    return {str(group.functional.func.name): group for group in groups
            if isinstance(group, NativeFunctionsGroup) and group.structured
            and str(group.functional.func.name) not in BY_HAND}


def types(function):
    with local.parametrize(use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=False):
        return [argument.type for argument in arguments(function.func, symint=False)]


def emit(op, overload, group, lines, includes):
    base = overload.split(".")[0]
    meta = f"at::meta::structured_{group.functional.func.name.unambiguous_name()}"
    includes.add(f"#include <ATen/ops/{group.functional.root_name}_meta.h>")
    kind = "Result::Bool" if base in BOOL_RESULT else "Result::Same"
    for function in group.functions():
        name = str(function.func.name)
        key = f"Name_{op.name}_{name.replace('.', '__')}"
        plain, _, tail = name.partition(".")
        lines[0].append(f'struct {key} {{\n    static constexpr const char *name = "aten::{plain}", *overload = "{tail}";\n}};')
        args = types(function)
        schema = function.func.kind()
        if schema == SchemaKind.functional:
            target = f"Pointwise<{', '.join([meta, f'TN_OP_{op.name}', kind, key] + args)}>"
        elif schema == SchemaKind.inplace:
            target = f"PointwiseInPlace<{', '.join([meta, f'TN_OP_{op.name}', kind, key] + args[1:])}>"
        elif schema == SchemaKind.out:
            target = f"PointwiseOut<{', '.join([meta, f'TN_OP_{op.name}', key] + args[:-1])}>"
        else:
            continue
        lines[1].append(f'    m.impl("{name}", &{target}::call);')


def generate(overloads, groups):
    names, registrations, includes = [], [], set()
    for op, overload in overloads:
        emit(op, overload, groups[overload], (names, registrations), includes)
    return "\n".join(["// Generated from core/op/ops.def and native_functions.yaml.", "#include <torch/library.h>", "",
                      *sorted(includes), "", '#include "pointwise.h"',
                      *sorted(f'#include "tn/op/{section}.h"' for section in {op.section for op, _ in overloads}), "", "namespace neuron {", "namespace {", "",
                      *names, "", "void register_pointwise([[maybe_unused]] torch::Library& m)", "{", *registrations, "}", "",
                      "} // namespace", "} // namespace neuron", "",
                      "TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)", "{", "    neuron::register_pointwise(m);", "}", ""])


def main(ops_def, outputs):
    groups = structured_groups()
    overloads = [(op, overload) for op in gen_tables.read(ops_def) if op.kernel == "pointwise" for overload in op.aten
                 if overload in groups]
    for i, output in enumerate(outputs):
        gen_tables.write(output, generate(overloads[i::len(outputs)], groups))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
