"""scripts/cuda-evidence must be able to fail: kernels with what it looks for."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "cuda-evidence"
loader = importlib.machinery.SourceFileLoader("cuda_evidence", str(SCRIPT))
evidence = importlib.util.module_from_spec(importlib.util.spec_from_loader("cuda_evidence", loader))
sys.modules["cuda_evidence"] = evidence  # dataclasses ask for it
loader.exec_module(evidence)

KERNEL = "__global__ void __launch_bounds__(256) kernel(float* x, const float* y) {{ const int i = threadIdx.x; {} }}"


@pytest.fixture(params=["compiled", "built"])
def read(request, tmp_path):
    """The kernels of a text, on both ways: compiled for the script, and in an object of a build."""
    nvcc = evidence.find_nvcc()
    cuobjdump = evidence.find_cuobjdump(nvcc)
    if request.param == "built" and cuobjdump is None:
        pytest.skip("cuobjdump was not found")

    def kernels(text):
        source = tmp_path / "planted.cu"
        source.write_text(text)
        if request.param == "compiled":
            return evidence.compile_file(nvcc, source, 80, tmp_path)
        file = source.with_suffix(".o")
        architectures = [f"--generate-code=arch=compute_{arch},code=[compute_{arch},sm_{arch}]" for arch in (80, 90)]
        evidence.run(nvcc, *evidence.FLAGS, *architectures, "-c", "-o", file, source)
        return evidence.read_object(cuobjdump, source.name, file, 80)

    return kernels


def test_a_kernel_that_is_fine(read):
    (kernel,) = read(KERNEL.format("x[i] = x[i] * y[i] + 1.0f / y[i];"))
    assert (kernel.name, kernel.threads, kernel.stack) == ("kernel", 256, 0)
    assert 0 < kernel.registers < 64 and kernel.occupancy(80) == 1.0


@pytest.mark.parametrize(
    ("body", "found"),
    {
        "x[i] = fmaf(x[i], y[i], 1.0f);": "fma.rn.f32",
        "x[i] = (float)fma((double)x[i], (double)y[i], 1.0);": "fma.rn.f64",
        "x[i] = __fdividef(x[i], y[i]);": "div.approx",
        "x[i] = __expf(x[i]);": "ex2.approx",
        'asm("add.ftz.f32 %0, %0, %1;" : "+f"(x[i]) : "f"(y[i]));': "add.ftz.f32",
    }.items(),
)
def test_forbidden_instructions(read, body, found):
    with pytest.raises(SystemExit, match=f"forbidden in PTX: .*{found}"):
        read(KERNEL.format(body))


def test_spills_are_seen(read):
    """Of 96 numbers that live at once in 32 registers."""
    body = "float a[96]; for (int k = 0; k < 96; ++k) a[k] = y[k * i]; __syncthreads(); "
    body += "for (int k = 0; k < 96; ++k) x[k * i] = a[95 - k];"
    (kernel,) = read(KERNEL.format(body).replace("(256)", "(1024, 2)"))
    assert kernel.stack > 0


def test_a_kernel_without_launch_bounds(read):
    with pytest.raises(SystemExit, match="without __launch_bounds__"):
        read("__global__ void kernel(float* x) { x[0] = 1; }")


def test_an_architecture_that_was_not_built(tmp_path):
    nvcc = evidence.find_nvcc()
    if (cuobjdump := evidence.find_cuobjdump(nvcc)) is None:
        pytest.skip("cuobjdump was not found")
    source, file = tmp_path / "planted.cu", tmp_path / "planted.o"
    source.write_text(KERNEL.format("x[i] = y[i];"))
    evidence.run(nvcc, *evidence.FLAGS, "-arch=sm_80", "-c", "-o", file, source)
    with pytest.raises(SystemExit, match="has no elf code for 90"):
        evidence.read_object(cuobjdump, source.name, file, 90)
