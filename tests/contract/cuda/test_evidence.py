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


@pytest.fixture
def compiled(tmp_path):
    def compile_text(text):
        source = tmp_path / "planted.cu"
        source.write_text(text)
        return evidence.compile_file(evidence.find_nvcc(), source, 80, tmp_path)

    return compile_text


def test_a_kernel_that_is_fine(compiled):
    (kernel,) = compiled(KERNEL.format("x[i] = x[i] * y[i] + 1.0f / y[i];"))
    assert (kernel.name, kernel.threads, kernel.stack, kernel.spills) == ("kernel", 256, 0, 0)
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
def test_forbidden_instructions(compiled, body, found):
    with pytest.raises(SystemExit, match=f"forbidden in PTX: .*{found}"):
        compiled(KERNEL.format(body))


def test_spills_are_seen(compiled):
    """Of 96 numbers that live at once in 32 registers."""
    body = "float a[96]; for (int k = 0; k < 96; ++k) a[k] = y[k * i]; __syncthreads(); "
    body += "for (int k = 0; k < 96; ++k) x[k * i] = a[95 - k];"
    (kernel,) = compiled(KERNEL.format(body).replace("(256)", "(1024, 2)"))
    assert kernel.stack > 0 and kernel.spills > 0


def test_a_kernel_without_launch_bounds(compiled):
    with pytest.raises(SystemExit, match="without __launch_bounds__"):
        compiled("__global__ void kernel(float* x) { x[0] = 1; }")
