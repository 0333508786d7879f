"""The program can always be stopped: by signals, and by what it may not take for ever."""

import fcntl
import signal
import struct
import subprocess
import termios
import time

import pytest
from program import PROGRAM, planck, planck_json, raw_file

PATIENCE = 120  # seconds until a run counts as one that never ends; fine ones take milliseconds


def empty_tensors(path, names):
    raw_file(path, {name: {"dtype": "F32", "shape": [0, 4], "data_offsets": [0, 0]} for name in names})


@pytest.mark.parametrize("option", ["--include", "--exclude"])
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b$", "(.*a){20}$"])
def test_patterns_that_backtrack_for_ever_elsewhere_end(tmp_path, option, pattern):
    """A matcher that goes back needs 2^n steps for these; the names also are longer than a stack would bear."""
    names = ["a" * 64 + "!.weight", "a" * 1_000_000 + "!.weight"]
    header = {n: {"dtype": "F32", "shape": [1, 1], "data_offsets": [i * 4, i * 4 + 4]} for i, n in enumerate(names)}
    raw_file(tmp_path / "x.safetensors", header, b"\0" * 8)
    ran = subprocess.run(
        [PROGRAM, "quantize", tmp_path / "x.safetensors", "--dry-run", "--format", "plain", option, pattern],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.returncode in (0, 4), ran.stderr


@pytest.mark.parametrize("pattern", ["(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", "[", "a{2,1}"])
def test_what_re2_does_not_have_is_refused_and_said(tmp_path, pattern):
    empty_tensors(tmp_path / "x.safetensors", ["a.weight"])
    message = planck("quantize", tmp_path / "x.safetensors", "--dry-run", "--include", pattern, code=2)
    assert f'--include "{pattern}" is no regular expression: ' in message
    assert "RE2" in message and "no look-around" in message and "no back-references" in message
    assert message.count("\n") == 1  # RE2's own log is silent


def test_names_of_any_length_are_matched_as_utf8(tmp_path):
    names = ["ä" * 5000 + ".weight", "b.weight"]
    header = {n: {"dtype": "F32", "shape": [1, 1], "data_offsets": [i * 4, i * 4 + 4]} for i, n in enumerate(names)}
    raw_file(tmp_path / "x.safetensors", header, b"\0" * 8)
    run = planck_json("quantize", tmp_path / "x.safetensors", "--dry-run", "--include", r"^ä{5}.*[^b]\.weight$")
    assert [each["quantized"] for each in run["tensors"]] == [True, False]


def test_the_second_signal_ends_a_run_that_is_blocked(tmp_path):
    """Nobody reads the pipe: the program hangs in a write, where the first signal does not reach a check."""
    empty_tensors(tmp_path / "x.safetensors", [f"{i:05}" * 20 for i in range(5000)])
    for first, second in [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT)]:
        run = subprocess.Popen(
            [PROGRAM, "inspect", tmp_path / "x.safetensors", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            full, end = -1, time.monotonic() + PATIENCE
            while True:  # until the pipe takes no more
                time.sleep(0.05)
                held = struct.unpack("i", fcntl.ioctl(run.stdout, termios.FIONREAD, b"\0" * 4))[0]
                if held == full > 0:
                    break
                full = held
                assert time.monotonic() < end and run.poll() is None
            run.send_signal(first)
            with pytest.raises(subprocess.TimeoutExpired):
                run.wait(timeout=0.2)
            run.send_signal(second)
            assert run.wait(timeout=PATIENCE) == 128 + second
            assert b"stopped at once" in run.stderr.read()
        finally:
            run.kill()
            run.wait()
            run.stdout.close()
            run.stderr.close()
