"""Where the programs under test are, how they are called, and one browser for all tests that need it.

Nothing here may reach for a network.
"""

import json
import os
import subprocess
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest
from chromium import Chromium

ROOT = Path(__file__).parents[2]
# ctest runs these, with the program as it has built it.
collect_ignore = ["commands"]


def pytest_addoption(parser):
    parser.addoption("--build-dir", type=Path, default=ROOT / "build" / "release", help="a build with tests and apps")


@pytest.fixture(scope="session")
def build_dir(request):
    return request.config.getoption("--build-dir").resolve()


@pytest.fixture(scope="session")
def planck(build_dir):
    """planck("quantize", folder, "-o", out) runs the program and gives what it says with --json."""

    def run(*arguments, cwd=None, **environment):
        command = [build_dir / "apps" / "planck", *arguments, "--json"]
        environment = {**os.environ, **environment}
        done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def load(kind, folder):
    """A model and what its loading reported. One forward pass makes transformers restore the weights."""
    import torch

    model, info = kind.from_pretrained(folder, output_loading_info=True)
    with torch.no_grad():
        model(torch.tensor([[1, 2]]))
    return model.eval(), info


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    chromium = Chromium(tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()
