// The extension module torch_neuronx._C: what Python needs from the glue.
#include <Python.h>

#include <torch/csrc/utils/pybind.h>

#include "fallback.h"
#include "host_memory.h"
#include "source.h"
#include "tn/tn.h"

namespace neuron {
void register_hooks();
}

PYBIND11_MODULE(_C, m)
{
    neuron::register_hooks();
    neuron::install_host_memory();
    tn_prof_set_source_hook(&neuron::source_line);
    m.def("device_count", [] { return tn_device_count(); });
    m.def("is_initialized", [] { return tn_is_initialized(); });
    m.def("quiesce", [] { tn_quiesce(); }, pybind11::call_guard<pybind11::gil_scoped_release>());
    m.def("fallback_rows", [] {
        pybind11::list rows;
        for (const auto& row : neuron::fallback_rows()) {
            pybind11::dict entry;
            entry["op"] = row.op;
            entry["location"] = row.location;
            entry["count"] = row.count;
            entry["bytes_copied"] = row.bytes_copied;
            entry["nanoseconds"] = row.nanoseconds;
            rows.append(entry);
        }
        return rows;
    });
    m.def("clear_fallback_rows", &neuron::clear_fallback_rows);
    m.def("set_strict_mode", &neuron::set_strict_mode);
    m.def("strict_mode", &neuron::strict_mode);
}
