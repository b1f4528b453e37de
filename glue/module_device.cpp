// torch_neuronx._C: the process, devices, streams, threads, generators.
#include <Python.h>

#include "module.h"

#include <mutex>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include "error.h"
#include "generator.h"
#include "guard.h"
#include "launch.h"
#include "tn/op/sleep.h"
#include "wait.h"

namespace neuron {
namespace {

namespace py = pybind11;

void init()
{
    check(tn_init());
    // torch's own first-use check then refuses a forked child, too.
    static std::once_flag once;
    std::call_once(once, [] {
        torch::utils::register_fork_handler_for_device_init(c10::DeviceType::PrivateUse1);
    });
}

// At exit, and before the interpreter goes down: nothing may run Python code afterwards.
void quiesce()
{
    py::gil_scoped_release no_gil;
    tn_quiesce();
}

py::dict device_properties(int device)
{
    tn_device_properties properties;
    check(tn_device_get_properties(device, &properties));
    py::dict result;
    result["name"] = properties.name;
    result["major"] = properties.major;
    result["minor"] = properties.minor;
    result["multi_processor_count"] = properties.multi_processor_count;
    result["total_memory"] = properties.total_memory;
    result["modelled_memory"] = properties.modelled_memory;
    result["host_cpu"] = properties.host_cpu;
    result["isa"] = properties.isa;
    result["physical_cores"] = properties.physical_cores;
    return result;
}

tn_stream* stream_of(int device, int64_t id)
{
    tn_stream* stream = nullptr;
    check(tn_stream_from_id(device, id, &stream));
    return stream;
}

// The id of the stream whose native handle is `handle`, without trusting the handle; -1 if there is none.
int64_t stream_id_of_handle(int device, uintptr_t handle)
{
    tn_stream* stream = nullptr;
    for (int64_t id = 0; tn_stream_from_id(device, id, &stream) == TN_OK; id++)
        if (reinterpret_cast<uintptr_t>(stream) == handle)
            return id;
    return -1;
}

// Drops what is pending on a device, errors included.
void drain(int device)
{
    py::gil_scoped_release no_gil;
    while (tn_device_wait(device, -1) != TN_OK && !tn_in_bad_fork()) {
    }
}

void sleep(int64_t cycles)
{
    Launch(TN_OP_sleep).scalar(cycles).run();
}

PyObject* default_generator_object(int device)
{
    return THPGenerator_Wrap(default_generator(static_cast<c10::DeviceIndex>(device)));
}

} // namespace

void bind_device(py::module_& m)
{
    using torch::wrap_pybind_function;
    m.def("device_count", &tn_device_count);
    m.def("init", wrap_pybind_function(init));
    m.def("is_initialized", &tn_is_initialized);
    m.def("in_bad_fork", &tn_in_bad_fork);
    m.def("quiesce", &quiesce);
    m.def("drain", wrap_pybind_function(drain));
    m.def("device_properties", wrap_pybind_function(device_properties));
    m.def("isa_name", &tn_isa_name);
    m.def("num_threads", &tn_num_threads);
    m.def("set_num_threads", &tn_set_num_threads);
    m.def("launch_blocking", &tn_launch_blocking);
    m.def("set_launch_blocking", &tn_set_launch_blocking);
    m.def("stream_priority", wrap_pybind_function([](int device, int64_t id) {
              return tn_stream_priority(stream_of(device, id));
          }));
    m.def("stream_id_of_handle", &stream_id_of_handle);
    m.def("sleep", wrap_pybind_function(sleep));
    m.def("default_generator", wrap_pybind_function([](int device) {
              return py::reinterpret_steal<py::object>(default_generator_object(device));
          }));
}

} // namespace neuron
