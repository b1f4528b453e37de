#include <Python.h>

#include "wait.h"

#include <torch/csrc/Exceptions.h>

#include "error.h"

namespace neuron {
namespace {

constexpr int64_t kSliceNanoseconds = 100'000'000;

// Releases the GIL if this thread holds it.
class WithoutGil {
  public:
    WithoutGil() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
    ~WithoutGil()
    {
        if (state_)
            PyEval_RestoreThread(state_);
    }
    WithoutGil(const WithoutGil&) = delete;

  private:
    PyThreadState* state_;
};

void check_signals()
{
    if (!Py_IsInitialized() || _Py_IsFinalizing() || !PyGILState_GetThisThreadState())
        return;
    pybind11::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) {
        python_error interrupted; // carries KeyboardInterrupt through C++ frames without the GIL
        interrupted.persist();
        throw interrupted;
    }
}

template <class Wait>
void wait_interruptibly(Wait wait)
{
    for (;;) {
        tn_status status;
        {
            WithoutGil without_gil;
            status = wait(kSliceNanoseconds);
        }
        if (status != TN_TIMEOUT)
            return check(status);
        check_signals();
    }
}

} // namespace

void wait_stream(tn_stream* stream)
{
    wait_interruptibly([=](int64_t timeout) { return tn_stream_wait(stream, timeout); });
}

void wait_device(int device)
{
    wait_interruptibly([=](int64_t timeout) { return tn_device_wait(device, timeout); });
}

void wait_event(tn_event* event)
{
    wait_interruptibly([=](int64_t timeout) { return tn_event_wait(event, timeout); });
}

void wait_until_done(const std::function<tn_status()>& attempt)
{
    wait_interruptibly([&](int64_t) { return attempt(); });
}

} // namespace neuron
