"""Where the programs under test are, and one browser for all tests that need it. Nothing here may reach for a network."""

import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest
from chromium import Chromium

ROOT = Path(__file__).parents[2]


def pytest_addoption(parser):
    parser.addoption("--build-dir", type=Path, default=ROOT / "build" / "release", help="a build with tests and apps")


@pytest.fixture(scope="session")
def build_dir(request):
    return request.config.getoption("--build-dir").resolve()


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    chromium = Chromium(tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()
