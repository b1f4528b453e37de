"""The environment variables of the device: one table, validated once at import.

Each row says what a variable means here: `honoured` as documented, `mapped` to our nearest setting, `accepted` without
an effect (the reason stands beside it), `later` (accepted now; the part it steers is not built yet) or `rejected`.
`torch.neuron.config()` shows the rows with their present values. The core reads NEURON_RT_NUM_CORES, NEURON_RT_VISIBLE_CORES,
LOCAL_WORLD_SIZE, NEURON_PLATFORM_TARGET_OVERRIDE and TORCH_NEURONX_NUM_THREADS itself when it opens the device.
"""

import os
import re
from typing import NamedTuple


class Setting(NamedTuple):
    name: str
    kind: str
    default: str
    effect: str
    note: str = ""


def _rows(effect, text):
    """`NAME kind default note...` per line."""
    for line in text.strip().splitlines():
        name, kind, default, *note = line.split(None, 3)
        yield Setting(name, kind, "" if default == "-" else default, effect, note[0] if note else "")


_HONOURED = """
NEURON_RT_VISIBLE_CORES cores - the devices of this process
NEURON_RT_NUM_CORES devices - how many devices this process has
NEURON_PLATFORM_TARGET_OVERRIDE chip trn2 the chip whose time is modelled and reported
NEURON_LAUNCH_BLOCKING flag 0 every op is complete when its call returns
TORCH_NEURONX_ENABLE_ASYNC_NRT flag 1 0 = launch blocking
TORCH_NEURONX_NUM_THREADS positive - host threads of one op
TORCH_NEURONX_STRICT flag 0 an op without a native kernel raises instead of running on the host
NEURON_FALLBACK_ENABLED flag 1 0 = TORCH_NEURONX_STRICT=1
TORCH_NEURONX_LOG_LEVEL level warning of the logger torch_neuronx
TORCH_NEURONX_LOG_FILE path - where the logger writes; stderr otherwise
NEURON_RT_LOG_LEVEL level error used for the logger when TORCH_NEURONX_LOG_LEVEL is not set
TORCH_NEURONX_DYNAMO_BACKEND_ONLY flag 0 registers torch.compile's backend and no device
TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY flag 0 compiled graphs do not move CPU inputs to the device
TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION flag 1 0 = a graph that fails to compile runs eagerly
TORCH_NEURONX_METRICS_ENABLED flag 0 writes the compile metrics as CSV at exit
TORCH_NEURONX_METRICS_DIR path - folder of the CSV files
"""

_MAPPED = """
TORCH_NEURONX_SEGMENT_ALLOCATOR_CONFIG pairs - kMaxSplitSizeBytes is max_split_size of PYTORCH_ALLOC_CONF
"""

_ACCEPTED = """
TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS flag 1 always so: a failing native op raises
TORCH_NEURONX_COMPLEX_DECOMPOSE flag 1 complex numbers are native
TORCH_NEURONX_RETAIN_DEVICE_MODE flag 0 device annotations stay
TORCH_NEURONX_SPMD_DISABLE flag 0 there is no SPMD partitioning
TORCH_NEURONX_HLO_CACHE_DIR path - there is no HLO
TORCH_NEURONX_CONCATENATION_QUEUE_LOW_THRESHOLD count 15 queued ops are not fused
TORCH_NEURONX_CONCATENATION_BUFFER_SIZE_LIMIT count 1024 queued ops are not fused
TORCH_NEURONX_APPLY_SKIP_INTERMEDIATE flag 1 queued ops are not fused
TORCH_NEURONX_ENABLE_PROLOGUE flag - queued ops are not fused
TORCH_NEURONX_MLIR_ATEN_OPS flag 1 there is one lowering route
TORCH_NEURONX_ENABLE_STABLEHLO flag 1 there is one lowering route
TORCH_NEURONX_ATEN_GMM_ALIGN count - no alignment is needed
TORCH_NEURONX_EMBEDDING_BWD_NKI_THRESHOLD count - one kernel serves all sizes
NEURON_EAGER_MODEL_CACHE_SIZE count - eager ops need no loaded programs
NEURON_MAX_RESOURCE_SLOTS count 4 eager ops need no loaded programs
TORCH_NEURONX_ENABLE_STACK_TRACE flag 0 errors always name the Python line
NEURON_ENHANCED_ERROR_HANDLING flag - errors always carry their context
NEURON_RT_ROOT_COMM_ID text - the store says it
NEURON_RT_VALIDATE_HASH flag 0 programs are always verified
TORCH_NEURONX_ENABLE_HOST_CC flag 0 always possible
NEURON_RT_ENABLE_HOST_CC flag 0 always possible
NEURON_USE_SPLIT_ALLGATHER flag 1 no effect on results
NEURON_USE_SPLIT_REDUCE_SCATTER flag 1 no effect on results
COLLECTIVE_BUCKETSIZE_IN_MB count 512 no effect on results
COLLECTIVE_MIN_BUCKETS count 0 no effect on results
NEURON_RT_ENABLE_DGE_NOTIFICATIONS flag 0 recorded when profiling
NEURON_FRAMEWORK_DEBUG flag 0 source lines are always kept
NKI_DEBUG_INFO flag 0 source lines are always kept
XLA_IR_DEBUG flag 0 source lines are always kept
XLA_HLO_DEBUG flag 0 source lines are always kept
NKI_SIMULATOR flag 0 kernels always run on the host
"""

_LATER = """
TORCH_NEURONX_DEBUG_DIR path - graph compiler
TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS flag 0 graph compiler
TORCH_NEURONX_ENABLE_NKI_SDPA flag 1 graph compiler
NEURON_CC_FLAGS text - graph compiler
NEURON_COMPILER_OPT_LEVEL text - graph compiler
NEURON_LOGICAL_NC_CONFIG lnc 2 kernels and topology
NEURON_RT_VIRTUAL_CORE_SIZE lnc - kernels and topology
TORCH_NEURONX_NEFF_CACHE_DIR path - program cache
TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR path - program cache
TORCH_NEURONX_NEFF_CACHE_LOCK_TIMEOUT count 1200 program cache
TORCH_NEURONX_NEFF_DISABLE_CACHE flag 0 program cache
NEURON_COMPILATION_CACHE_MAX_SIZE_MB count - program cache
NEURON_COMPILATION_CACHE_MAX_ENTRIES count - program cache
NKI_ENABLE_TRACE_CACHE flag 1 kernel cache
NKI_TRACE_CACHE_URL text - kernel cache
NKI_COMPILE_CACHE_URL text - kernel cache
TORCH_NEURONX_ENABLE_CONCATENATION flag 0 fusion of queued ops
TORCH_NEURONX_DUMP path - graph compiler
TORCH_NEURONX_DUMP_HLO_PB path - graph compiler
TORCH_NEURONX_ENABLED_METRIC_TABLES text - metrics
NEURON_DUMP_EXECUTION_ON_ERROR flag 0 error dumps
NEURON_ERROR_DUMP_DIR path - error dumps
NEURON_RT_EXEC_TIMEOUT count - execution limit
NEURON_PROCESS_TAG text - monitor
NEURON_RT_INSPECT_ENABLE flag 0 profiler
NEURON_RT_INSPECT_OUTPUT_DIR path ./output profiler
NEURON_RT_INSPECT_SYSTEM_PROFILE flag 1 profiler
NEURON_RT_INSPECT_DEVICE_PROFILE text 0 profiler
NEURON_RT_INSPECT_CPU_UTIL flag 0 profiler
NEURON_RT_INSPECT_HOST_MEMORY flag 0 profiler
NEURON_RT_INSPECT_EVENT_FILTER_NC text - profiler
NEURON_RT_INSPECT_EVENT_FILTER_TYPE text - profiler
NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC count 1000000 profiler
NEURON_RT_INSPECT_PRECACHE_ENABLE flag 1 profiler
NKI_PRECISE_FP flag 1 kernels
NKI_COMPILER_FRONTEND text tracing kernels
NKI_CHECKS text - kernels
"""

_REJECTED = """
TORCH_NEURONX_SKIP_OP_PRECONDITIONS flag 0 arguments are always checked
"""

SETTINGS = {
    row.name: row
    for effect, text in (("honoured", _HONOURED), ("mapped", _MAPPED), ("accepted", _ACCEPTED), ("later", _LATER),
                         ("rejected", _REJECTED))
    for row in _rows(effect, text)
}

_FLAGS = {"0": False, "false": False, "off": False, "no": False, "1": True, "true": True, "on": True, "yes": True}
_CHIPS = {"trn2": "trn2", "gen3": "trn2", "trn3": "trn3", "gen4": "trn3"}
_LEVELS = {"trace": 10, "debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "critical": 50, "fatal": 50}
MAX_DEVICES = 64


def _flag(text):
    return _FLAGS[text.lower()]


def _count(text):
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def _positive(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _cores(text):
    """Core numbers of "2", "0-3" or "0,2,4-5"; each once, in the order written."""
    cores = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last) if dash else int(first)
        if low < 0 or high < low:
            raise ValueError
        cores.extend(range(low, high + 1))
    if len(set(cores)) != len(cores) or len(cores) > MAX_DEVICES:
        raise ValueError
    return cores


def _pairs(text):
    """`name:value,name:value` with whole numbers."""
    pairs = {}
    for part in re.split("[,;]", text):
        name, colon, value = re.sub(r"[{}\"' ]", "", part).replace("=", ":").partition(":")
        if not colon or name not in ("kMaxSplitSizeBytes", "kMaxNonSplitRoundingBytes"):
            raise ValueError
        pairs[name] = _count(value)
    return pairs


def _device_count(text):
    value = _count(text)
    if value > MAX_DEVICES:
        raise ValueError
    return value


def _lnc(text):
    return {"1": 1, "2": 2}[text]


_PARSERS = {
    "flag": (_flag, "0 or 1"),
    "count": (_count, "a whole number >= 0"),
    "positive": (_positive, "a whole number >= 1"),
    "cores": (_cores, f'core numbers such as "2", "0-3" or "0,2,4-5", at most {MAX_DEVICES} and none twice'),
    "devices": (_device_count, f"a whole number from 0 to {MAX_DEVICES}"),
    "chip": (lambda text: _CHIPS[text.lower()], "trn2 or trn3 (gen3, gen4)"),
    "level": (lambda text: _LEVELS[text.lower()], "trace, debug, info, warning, error or critical"),
    "lnc": (_lnc, "1 or 2"),
    "pairs": (_pairs, "kMaxSplitSizeBytes:N,kMaxNonSplitRoundingBytes:N"),
    "path": (str, ""),
    "text": (str, ""),
}


def get(name):
    """The parsed value of a variable: of the environment, else the default, else None."""
    row = SETTINGS[name]
    text = os.environ.get(name) or row.default
    if not text:
        return None
    parse, wanted = _PARSERS[row.kind]
    try:
        return parse(text.strip())
    except (ValueError, KeyError):
        raise ValueError(f"{name}={text!r}: expected {wanted}") from None


def validate():
    """Raises ValueError, naming the variable, for the first value that cannot be used; warns of unknown names."""
    unknown = []
    for name in os.environ:
        if name in SETTINGS:
            if get(name) and SETTINGS[name].effect == "rejected":
                raise ValueError(f"{name}={os.environ[name]!r} is not supported: {SETTINGS[name].note}")
        elif name.startswith("TORCH_NEURONX_"):
            unknown.append(name)
    if unknown:
        _warn_unknown(sorted(unknown))


def _warn_unknown(names):
    import difflib
    import warnings

    hints = []
    for name in names:
        near = difflib.get_close_matches(name, SETTINGS, 1)
        hints.append(f"{name} (did you mean {near[0]}?)" if near else name)
    warnings.warn(f"unknown environment variables are ignored: {', '.join(hints)}", RuntimeWarning, stacklevel=2)
