"""Speed beside cp is printed, not asserted; memory is asserted: it does not grow with the checkpoint."""

import subprocess
import sys

from conftest import ROOT


def peak_memory(build_dir, planck, folder, megabytes):
    model = folder / f"model-{megabytes}"
    subprocess.run([build_dir / "examples" / "synthetic_checkpoint", model, str(megabytes)], check=True)
    peaks = [planck("quantize", model, "-o", folder / f"int8-{megabytes}")["peak_memory_bytes"]]
    peaks.append(
        planck("dequantize", folder / f"int8-{megabytes}", "-o", folder / f"out-{megabytes}")["peak_memory_bytes"]
    )
    return peaks


def test_memory_does_not_grow(build_dir, planck, tmp_path):
    """Ten times the layers, the same memory; docs/cli.md has 4 GB."""
    small = peak_memory(build_dir, planck, tmp_path, 60)
    large = peak_memory(build_dir, planck, tmp_path, 380)
    print(f"peak memory of 60 MB and 380 MB, quantize and dequantize: {small}, {large}")
    for before, after in zip(small, large, strict=True):
        assert 1e6 < after < 300e6 and after < before + 16e6


def test_the_benchmark_runs(build_dir, tmp_path):
    programs = [build_dir / "apps" / "planck", build_dir / "examples" / "synthetic_checkpoint"]
    command = [sys.executable, ROOT / "bench" / "checkpoint.py", *programs, "--megabytes", "60", "--rounds", "1"]
    done = subprocess.run([*command, "--work-dir", tmp_path / "work"], capture_output=True, text=True, check=True)
    print(done.stdout)
    for name in ("cp ", "cp, sync", "planck quantize", "planck dequantize"):
        assert f"  {name}" in done.stdout
    assert done.stdout.count("GB/s  ") == 4 and done.stdout.count("MB memory") == 2 and not (tmp_path / "work").exists()
