"""Moves a graph whose inputs are all host tensors to the device: inputs are copied there, factories create there, and results
and mutated inputs come back to the host, so that the caller sees what the graph promised."""

import torch

_to = torch.ops.aten._to_copy.default


def _is_host_tensor(value):
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


def _device_type(node):
    value = node.meta.get("val")
    return value.device.type if isinstance(value, torch.Tensor) else None


def move_to_device(graph_module):
    """Rewrites the graph in place; leaves it alone if a tensor of another device takes part or no host tensor comes in."""
    graph = graph_module.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    host = [node for node in placeholders if _device_type(node) == "cpu"]
    devices = {_device_type(node) for node in graph.nodes} - {None}
    if not host or devices != {"cpu"} or any(node.op == "get_attr" for node in graph.nodes):
        return
    device = torch.device("neuron", torch._C._accelerator_getDeviceIndex())
    last = placeholders[-1]
    for node in reversed(host):
        with graph.inserting_after(last):
            moved = graph.call_function(_to, (node,), {"device": device})
        moved.meta = dict(node.meta)
        # An input that the graph writes keeps its place: copy_ brings the new value back to the host.
        node.replace_all_uses_with(
            moved, delete_user_cb=lambda user: user is not moved and not _writes(user, node), propagate_meta=False)
    for node in graph.nodes:
        if node.op == "call_function" and node.target is not _to and "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": device}
        elif node.op == "call_function" and node.target is _to and node.kwargs.get("device") == torch.device("cpu"):
            node.kwargs = {**node.kwargs, "device": device}
    _bring_results_back(graph)
    graph.lint()
    graph_module.recompile()


def _writes(user, node):
    return user.op == "output" or (user.target is torch.ops.aten.copy_.default and user.args[0] is node)


def _bring_results_back(graph):
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    with graph.inserting_before(output):
        def back(node):
            on_host = node.op == "placeholder" or node.target is torch.ops.aten.copy_.default
            if on_host or _device_type(node) is None:
                return node
            result = graph.call_function(_to, (node,), {"device": torch.device("cpu")})
            result.meta = dict(node.meta)
            return result

        output.args = torch.fx.map_arg(output.args, back)
