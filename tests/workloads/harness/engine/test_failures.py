import pytest
import torch

from workloads.harness.engine.correctness import WrongError, check, first_step
from workloads.harness.engine.device import UnsupportedError, open_device
from workloads.harness.engine.failures import finding, findings_of_failures
from workloads.harness.prepared import Prepared
from workloads.harness.records.case import Case, smaller
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Verdict

CASE = Case.of("image_pipeline", {"pixels": 4096, "batch": 32}, "fp16")
OF_CUDA = (
    "CUDA out of memory. Tried to allocate 2.26 GiB. GPU 0 has a total capacity of 23.65 GiB of which 11.06 MiB is "
    "free. Including non-PyTorch memory, this process has 23.60 GiB memory in use."
)
OF_THE_CPU = (
    "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "160000000000 bytes. Error code 12 (Cannot allocate memory)"
)
NO_KERNEL = (
    "CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors might be asynchronously "
    "reported at some other API call, so the stacktrace below might be incorrect."
)
OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by downloading "
    "and installing a new version"
)

# torch's words on a machine with NVSwitch and no fabric manager: huggingface_hub#4128, kata-containers#11730.
NOT_READY = (
    "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that "
    "might have already set an error? Error 802: system not yet initialized"
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (OF_CUDA, "2.43 GB more could not be allocated"),
        (OF_CUDA.replace("2.26 GiB", "264.00 MiB"), "277 MB more could not be allocated"),
        (OF_CUDA.replace("2.26 GiB", "1024.00 KiB"), "1.05 MB more could not be allocated"),
        (OF_THE_CPU, "160 GB more could not be allocated"),
        ("CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA`", "CUDA error: out of memory"),
        ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "CUDA error: CUBLAS"),
        ("std::bad_alloc", "std::bad_alloc"),
        ("[Errno 12] Cannot allocate memory", "Cannot allocate memory"),
        ("libtorch_cpu.so: cannot map zero-fill pages", "cannot map zero-fill pages"),
    ],
)
def test_out_of_memory_names_the_size_the_bytes_and_a_size_to_try(text, wanted):
    verdict, reason = finding(RuntimeError(text), CASE)
    assert verdict is Verdict.OUT_OF_MEMORY
    assert reason.startswith("memory ran out at pixels=4096,batch=32: ")
    assert wanted in reason
    assert reason.endswith("; try batch=16")
    assert "\n" not in reason


def test_memory_errors_need_no_words():
    import torch

    for error in (MemoryError(), torch.OutOfMemoryError("")):
        verdict, reason = finding(error, CASE)
        assert verdict is Verdict.OUT_OF_MEMORY
        assert reason == f"memory ran out at pixels=4096,batch=32: {type(error).__name__}; try batch=16"


def prepared(step, reference):
    return Prepared(step, (), reference, lambda result: result, 1, "steps", 0, 0, 0)


def refused(*_):
    raise torch.OutOfMemoryError(OF_CUDA)


def test_memory_that_runs_out_in_the_reference_is_not_the_steps():
    result = torch.ones(2)
    with findings_of_failures(CASE) as found:
        check(prepared(lambda: result, refused), result, "fp16")
    why = "memory ran out while computing the reference at pixels=4096,batch=32: 2.43 GB more could not be allocated; try batch=16"
    assert found == [(Verdict.UNCHECKED, f"the step ran, but its result is unchecked: {why}")]
    with findings_of_failures(CASE) as found:
        first_step(prepared(refused, lambda: result))
    assert [verdict for verdict, _ in found] == [Verdict.OUT_OF_MEMORY]


def test_another_error_in_the_reference_keeps_its_verdict():
    with findings_of_failures(CASE) as found:
        check(prepared(None, lambda: torch.ones(2) @ torch.ones(3)), torch.ones(2), "fp16")
    assert [verdict for verdict, _ in found] == [Verdict.CRASHED]


@pytest.mark.parametrize(
    ("size", "advice"),
    [
        ({"pixels": 4096, "batch": 3}, "; try batch=1"),
        ({"pixels": 4096, "batch": 1}, "; try pixels=2048"),
        ({"batch": 1, "workers": 4}, ""),
        ({"epochs": 9, "samples": 8, "batch": 1}, "; try samples=4"),
        ({"n": 1}, ""),
        ({"millions": 8030, "batch": 1, "context": 2048}, "; try context=1024"),
    ],
)
def test_advice_is_a_smaller_value_of_the_size_that_fills_memory(size, advice):
    assert smaller(Case.of("any", size)) == advice


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("\"slow_conv2d_cpu\" not implemented for 'Half'"),
        NotImplementedError("Could not run 'aten::_sparse_mm' with arguments from the 'CUDA' backend."),
        RuntimeError(NO_KERNEL),
        RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a"),
        RuntimeError(
            "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx( handle, opa, opb)`"
        ),
        RuntimeError("cuDNN error: CUDNN_STATUS_ARCH_MISMATCH"),
        RuntimeError("GET was unable to find an engine to execute this computation"),
    ],
)
def test_an_operation_that_a_device_lacks_is_unsupported(error):
    verdict, reason = finding(error, CASE)
    assert verdict is Verdict.UNSUPPORTED
    assert reason.startswith("this device or torch build does not support the step in fp16: ")
    assert str(error).splitlines()[0] in reason
    assert "\n" not in reason


class FakeGpu:
    def __init__(self, monkeypatch, used_share, refusals=0):
        import torch

        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int((1 - used_share) * 2**40), 2**40))
        monkeypatch.setattr(torch.cuda, "memory_stats", lambda: {"num_ooms": refusals})


@pytest.mark.parametrize(
    "text",
    [
        "FIND was unable to find an engine to execute this computation",
        "GET was unable to find an engine to execute this computation",
        "Unable to find a valid cuDNN algorithm to run convolution",
    ],
)
@pytest.mark.parametrize(
    ("used_share", "refusals", "verdict"),
    [
        (0.9, 0, Verdict.OUT_OF_MEMORY),
        (0.1, 3, Verdict.OUT_OF_MEMORY),  # the refused memory has been returned since
        (0.1, 0, Verdict.UNSUPPORTED),
    ],
)
def test_a_convolution_without_room_for_any_plan_is_out_of_memory(
    monkeypatch, text, used_share, refusals, verdict
):
    """CuDNN hides the refusal of each plan's workspace and only reports that no plan works."""
    FakeGpu(monkeypatch, used_share, refusals)
    case = Case.of("image_pipeline", {"pixels": 8192, "batch": 8})
    seen, reason = finding(RuntimeError(text), case)
    assert seen is verdict
    assert text in reason
    assert reason.endswith("; try batch=4") == (verdict is Verdict.OUT_OF_MEMORY)


def test_a_full_gpu_makes_no_other_error_one_of_memory(monkeypatch):
    FakeGpu(monkeypatch, 0.99, 5)
    assert finding(RuntimeError("CUDA error: device-side assert triggered"), CASE)[0] is Verdict.CRASHED


@pytest.mark.parametrize(
    "text",
    [
        OLD_DRIVER,
        "CUDA driver version is insufficient for CUDA runtime version",
        "Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW",
        "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
        "Error 803: system has unsupported display driver / cuda driver combination",
    ],
)
def test_an_incompatible_driver_is_unsupported_with_advice(text):
    verdict, reason = finding(RuntimeError(text), CASE)
    assert verdict is Verdict.UNSUPPORTED
    assert reason.startswith("the NVIDIA driver does not support this torch: ")
    assert reason.endswith("install a newer driver, or a torch built for an older CUDA")


@pytest.mark.parametrize(
    "text", [NOT_READY, "CUDA error: system not yet initialized", "CUDA_ERROR_SYSTEM_NOT_READY"]
)
def test_a_fabric_that_is_not_set_up_is_unsupported_and_names_its_service(monkeypatch, text):
    import torch

    def not_ready():
        raise RuntimeError(text)

    verdict, reason = finding(RuntimeError(text), CASE)
    assert verdict is Verdict.UNSUPPORTED and "nvidia-fabricmanager" in reason and "802" in reason
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", not_ready)
    with pytest.raises(UnsupportedError, match="nvidia-fabricmanager"):
        open_device("cuda", "fp32", 1)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"),
        ZeroDivisionError("division by zero"),
        KeyError("memory"),
        ImportError("libgomp.so.1: cannot allocate memory in static TLS block"),
    ],
)
def test_everything_else_is_a_crash(error):
    verdict, reason = finding(error, CASE)
    assert verdict is Verdict.CRASHED
    assert reason == f"the workload raised {type(error).__name__}: {error}"


def test_error_messages_of_the_installed_torch_are_recognised():
    import torch

    half = torch.eye(3).half()
    for verdict, step in (
        (Verdict.UNSUPPORTED, lambda: torch.linalg.inv(half)),
        (Verdict.UNSUPPORTED, lambda: torch.cdist(half, half)),
        (Verdict.OUT_OF_MEMORY, lambda: torch.empty(10**14)),
    ):
        with findings_of_failures(CASE) as found:
            step()
        assert [v for v, _ in found] == [verdict]
    assert "400 TB more could not be allocated" in found[0][1]


def test_the_engines_own_errors_keep_their_words():
    for error, verdict in (
        (UnsupportedError("no such"), Verdict.UNSUPPORTED),
        (WrongError("off"), Verdict.WRONG),
    ):
        with findings_of_failures(CASE) as found:
            raise error
        assert found == [(verdict, str(error))]
    with pytest.raises(WorkloadsError, match="a mistake"), findings_of_failures(CASE):
        raise WorkloadsError("a mistake")
    with findings_of_failures(CASE) as found:
        pass
    assert found == []


def test_no_cuda_device_says_why(monkeypatch):
    import torch

    def too_old():
        raise RuntimeError(OLD_DRIVER)

    if not torch.cuda.is_available():
        with pytest.raises(UnsupportedError, match=r"torch finds no CUDA device here: .+"):
            open_device("cuda", "fp32", 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", too_old)
    with pytest.raises(UnsupportedError, match=r"is too old \(found version 11040\)"):
        open_device("cuda", "fp32", 1)


def test_a_coloured_error_is_told_in_plain_letters():
    verdict, reason = finding(RuntimeError("\x1b[1;31mno \x00luck\ud800\x1b[0m"), CASE)
    assert (verdict, reason) == (Verdict.CRASHED, "the workload raised RuntimeError: no luck\ufffd")
    with findings_of_failures(CASE) as findings:
        raise WrongError("\x1b[31moff by 2\uffff")
    assert findings == [(Verdict.WRONG, "off by 2\ufffd")]


@pytest.mark.parametrize(
    "error",
    [
        "No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++')",
        "Cannot find a working triton installation. Either the package is not installed or it is too old.",
    ],
)
def test_a_machine_without_a_compiler_does_not_support_the_mode(error):
    assert finding(RuntimeError(error), CASE)[0] is Verdict.UNSUPPORTED
