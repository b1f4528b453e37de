// torch_neuronx._C: which operators ran on the device and which on the host.
#include <Python.h>

#include "module.h"

#include "fallback.h"
#include "tn/runtime.h"

namespace neuron {
namespace {

namespace py = pybind11;

py::list fallback_row_list()
{
    py::list rows;
    for (const auto& row : fallback_rows()) {
        py::dict entry;
        entry["op"] = row.op;
        entry["location"] = row.location;
        entry["count"] = row.count;
        entry["bytes_copied"] = row.bytes_copied;
        entry["nanoseconds"] = row.nanoseconds;
        rows.append(entry);
    }
    return rows;
}

py::list executed_ops()
{
    py::list rows;
    for (int op = 0; op < tn_op_count(); op++)
        if (uint64_t count = tn_op_launches(op))
            rows.append(py::make_tuple(tn_op_aten_name(op), count));
    return rows;
}

} // namespace

void bind_tracking(py::module_& m)
{
    m.def("fallback_rows", &fallback_row_list);
    m.def("clear_fallback_rows", &clear_fallback_rows);
    m.def("set_strict_mode", &set_strict_mode);
    m.def("strict_mode", &strict_mode);
    m.def("executed_ops", &executed_ops);
    m.def("clear_executed_ops", &tn_op_launches_reset);
}

} // namespace neuron
