"""Which operators ran on the device and which on the host. A fallback is any run of a host kernel; views, `.item()` and
copies between host and device are none."""

import contextlib

from torch_neuronx import _C


def get_executed_ops():
    """Names, such as "aten::add.Tensor", of the operators that ran on the device since the last clear."""
    return sorted(name for name, _count in _C.executed_ops())


def get_fallback_ops():
    """Names of the operators that ran on the host since the last clear."""
    return [row["op"] for row in _C.fallback_rows()]


def clear_op_tracking():
    """Empties both lists and the fallback report."""
    _C.clear_executed_ops()
    _C.clear_fallback_rows()


class FallbackReport(list):
    """One dict per operator that ran on the host: op, overload, reason, count, bytes_copied, nanoseconds, location.
    Printing it shows a table."""

    def __str__(self):
        if not self:
            return "no operator ran on the host"
        lines = [f"{'operator':40} {'runs':>8} {'ms':>10} {'MiB copied':>11}  first seen at"]
        for row in sorted(self, key=lambda row: -row["nanoseconds"]):
            lines.append(f"{row['op']:40} {row['count']:8} {row['nanoseconds'] / 1e6:10.3f} "
                         f"{row['bytes_copied'] / 2**20:11.3f}  {row['location'] or 'unknown'}")
        return "\n".join(lines)


def fallback_report():
    report = FallbackReport()
    for row in _C.fallback_rows():
        name, _, overload = row["op"].partition("::")[2].partition(".")
        report.append({**row, "overload": overload or "default", "reason": "no native kernel for these arguments"})
    return report


@contextlib.contextmanager
def expect_no_fallback():
    """Raises AssertionError at its end if an operator ran on the host inside."""
    before = {row["op"]: row["count"] for row in _C.fallback_rows()}
    yield
    grown = [row for row in fallback_report() if row["count"] > before.get(row["op"], 0)]
    if grown:
        raise AssertionError(f"operators ran on the host:\n{FallbackReport(grown)}")
