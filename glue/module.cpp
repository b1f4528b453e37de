// The extension module torch_neuronx._C: what Python needs from the glue. Importing it registers the device
// with torch; it opens nothing and starts no thread.
#include <Python.h>

#include "module.h"

#include "host_memory.h"
#include "source.h"
#include "tn/prof.h"
#include "tn/runtime.h"

PYBIND11_MODULE(_C, m)
{
    neuron::register_hooks();
    neuron::install_host_memory();
    tn_prof_set_source_hook(&neuron::source_line);
    neuron::bind_device(m);
    neuron::bind_memory(m);
    neuron::bind_tracking(m);
}
