// torch_neuronx._C: allocator settings, the snapshot and the history of device memory.
#include <Python.h>

#include "module.h"

#include <vector>

#include <torch/csrc/Exceptions.h>

#include "allocator.h"
#include "error.h"
#include "source.h"

namespace neuron {
namespace {

namespace py = pybind11;

// Rows of a call that reports how many there are; more may appear between asking and fetching.
template <class Row>
std::vector<Row> fetch(tn_status (*read)(Row*, size_t, size_t*))
{
    std::vector<Row> rows;
    size_t available = 0;
    do {
        rows.resize(available + available / 8 + 64);
        check(read(rows.data(), rows.size(), &available));
    } while (available > rows.size());
    rows.resize(available);
    return rows;
}

// In the order of tn_snapshot_row's states.
constexpr const char* kStates[] = {"active_allocated", "active_pending_free", "inactive"};
// In the order of tn_memory_trace_row's actions.
constexpr const char* kActions[] = {"alloc",        "free_requested", "free_completed", "segment_alloc",
                                    "segment_free", "oom",            "snapshot"};

py::list snapshot()
{
    py::list result;
    for (const auto& row : fetch(&tn_memory_snapshot)) {
        py::dict entry;
        entry["is_segment"] = row.is_segment;
        entry["is_large"] = row.is_large;
        entry["state"] = kStates[row.state];
        entry["device"] = row.device;
        entry["address"] = row.address;
        entry["bytes"] = row.bytes;
        entry["requested_bytes"] = row.requested_bytes;
        entry["allocated_bytes"] = row.allocated_bytes;
        entry["stream_id"] = row.stream_id;
        result.append(entry);
    }
    return result;
}

py::list history()
{
    py::list result;
    for (const auto& row : fetch(&tn_memory_history)) {
        py::dict entry;
        entry["action"] = kActions[row.action];
        entry["device"] = row.device;
        entry["source"] = source_text(row.source_line);
        entry["address"] = row.address;
        entry["bytes"] = row.bytes;
        entry["stream_id"] = row.stream_id;
        entry["time_us"] = row.time_us;
        result.append(entry);
    }
    return result;
}

int64_t tensor_frees(int device)
{
    tn_memory_stats stats;
    check(tn_memory_get_stats(device, &stats));
    return stats.num_tensor_frees;
}

} // namespace

void bind_memory(py::module_& m)
{
    using torch::wrap_pybind_function;
    m.def("memory_snapshot", wrap_pybind_function(snapshot));
    m.def("memory_history", wrap_pybind_function(history));
    m.def("record_memory_history", &tn_memory_record_history);
    m.def("memory_tensor_frees", wrap_pybind_function(tensor_frees));
    m.def("set_memory_fraction", wrap_pybind_function([](int device, double fraction) {
              check(tn_memory_set_fraction(device, fraction));
          }));
    m.def("follow_allocator_settings", wrap_pybind_function(follow_allocator_settings));
}

} // namespace neuron
