#include "error.h"

#include <string>

#include <c10/util/Exception.h>

#include "source.h"

namespace neuron {

void raise(tn_status status)
{
    const tn_error* error = tn_last_error();
    std::string text = error->message;
    if (error->source_line)
        text += " (launched at " + source_text(error->source_line) + ")";
    switch (status) {
    case TN_ERROR_VALUE:
        TORCH_CHECK_VALUE(false, text);
    case TN_ERROR_TYPE:
        TORCH_CHECK_TYPE(false, text);
    case TN_ERROR_INDEX:
        TORCH_CHECK_INDEX(false, text);
    case TN_ERROR_NOT_IMPLEMENTED:
        TORCH_CHECK_NOT_IMPLEMENTED(false, text);
    case TN_ERROR_OUT_OF_MEMORY:
        TORCH_CHECK_WITH(OutOfMemoryError, false, text);
    case TN_ERROR_DEVICE:
        throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, status, text);
    default:
        TORCH_CHECK(false, text);
    }
    __builtin_unreachable();
}

} // namespace neuron
