"""The HTML report in headless Chromium: no complaint, sorting and filtering, light and dark, and hostile names do nothing."""

import base64
import hashlib
import io
import re
import subprocess

import numpy as np
import pytest
from matplotlib import image
from safetensors.numpy import save_file

NAMES = "Array.from(document.querySelectorAll('tbody tr:not([hidden])'), row => row.cells[0].textContent)"
COLUMN = "Array.from(document.querySelectorAll('tbody tr'), row => row.cells[{}].textContent)"
HEADS = "Array.from(document.querySelectorAll('th'), head => head.textContent)"


@pytest.fixture(scope="module")
def pages(build_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    subprocess.run([build_dir / "tests" / "checkpoint" / "report_sample", folder], check=True)
    return folder


def pixels(png):
    return image.imread(io.BytesIO(png), format="png")


def click(browser, head):
    browser.evaluate(
        f"document.querySelectorAll('th')[{browser.evaluate(HEADS).index(head)}].firstElementChild.click()"
    )


def numbers(browser, head):
    texts = browser.evaluate(COLUMN.format(browser.evaluate(HEADS).index(head)))
    return [float(text.replace("−", "-")) for text in texts if text != "–"]


@pytest.mark.parametrize("name", ["usual", "hostile", "empty", "large"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_complaint_and_a_picture(browser, pages, tmp_path, name, scheme):
    browser.open(pages / f"{name}.html", scheme)
    assert browser.complaints == []
    # The picture of the largest table would be higher than Chromium draws.
    if name == "large":
        browser.evaluate("document.querySelector('.scroll').remove()")
        assert browser.evaluate("document.querySelectorAll('svg a').length") <= 4 * 500
    shot = pixels(browser.screenshot(tmp_path / "page.png"))
    background, brightest = shot[2, 2, :3], shot[:, :, :3].mean(axis=2).max()
    assert shot.shape[1] > 1200 and shot.shape[0] >= 900
    assert background.mean() > 0.9 if scheme == "light" else background.mean() < 0.2
    assert brightest > 0.8, "there is text, or a light page"
    assert len({tuple(p) for p in (shot[::3, ::3, :3] * 255).astype(int).reshape(-1, 3)}) > 20, "the page is not blank"
    assert browser.complaints == []


def test_wide_and_narrow(browser, pages):
    """The page never scrolls sideways: only the table does, inside its frame."""
    for width in (380, 800, 1320, 1900):
        browser.open(pages / "usual.html", width=width)
        assert browser.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), width


def test_totals(browser, pages):
    browser.open(pages / "usual.html")
    text = browser.evaluate("document.body.innerText").replace("\xa0", " ")
    assert browser.evaluate("document.querySelector('.tools button').hidden")
    for part in ["58.7 MB", "from 90.9 MB, 1.55 times smaller", "36", "of 61 tensors quantised", "41.2 dB", "727 MB/s"]:
        assert part in text
    assert "the worst tensor: encoder.layer.5.output.dense.weight" in text


def test_sorting(browser, pages):
    browser.open(pages / "usual.html")
    given = browser.evaluate(NAMES)
    click(browser, "SNR, dB")
    first = numbers(browser, "SNR, dB")
    assert len(first) == 36 and first == sorted(first, reverse=True)
    assert browser.evaluate("document.querySelector('[aria-sort]').textContent") == "SNR, dB"
    click(browser, "SNR, dB")
    again = numbers(browser, "SNR, dB")
    assert again == sorted(first)
    assert browser.evaluate(COLUMN.format(11))[36:] == ["–"] * 25, "what has no number comes last"
    click(browser, "Tensor")
    assert browser.evaluate(NAMES) == sorted(given, key=str.lower)
    assert sorted(browser.evaluate(NAMES)) == sorted(given), "no row is lost"
    click(browser, "Before")
    assert browser.evaluate(NAMES)[0] == "embeddings.word_embeddings.weight"
    assert browser.complaints == []


def test_layers_are_ordered_as_numbers(browser, pages):
    """Of many tensors the first thousand are shown; all of them if asked for."""
    browser.open(pages / "large.html")
    assert len(browser.evaluate(NAMES)) == 1000
    click(browser, "Tensor")
    assert len(browser.evaluate(NAMES)) == 1000
    browser.evaluate("more.click()")
    layers = [int(layer) for layer in re.findall(r"layer\.(\d+)", "\n".join(browser.evaluate(NAMES)))]
    assert len(layers) == 10000 and layers == sorted(layers)


def test_filter(browser, pages):
    browser.open(pages / "usual.html")
    browser.evaluate("search.value = 'LAYER.3.'; search.dispatchEvent(new Event('input'))")
    assert len(browser.evaluate(NAMES)) == 10 and all("layer.3." in name for name in browser.evaluate(NAMES))
    browser.evaluate("only.click()")
    assert len(browser.evaluate(NAMES)) == 6
    assert browser.evaluate("document.querySelector('output').textContent") == "6 of 61 tensors"


def test_plots_link_to_their_rows(browser, pages):
    browser.open(pages / "usual.html")
    links = browser.evaluate("Array.from(document.querySelectorAll('svg'), s => s.querySelectorAll('a').length)")
    assert links == [36, 36, 36, 36]
    pairs = browser.evaluate(
        "Array.from(document.querySelectorAll('svg a'), a => [a.querySelector('title').textContent.split('\\n')[0],"
        " document.querySelector(a.getAttribute('href')).cells[0].textContent])"
    )
    assert all(mark == row for mark, row in pairs)


def test_hostile_names_are_only_text(browser, pages):
    browser.open(pages / "hostile.html")
    browser.evaluate("document.querySelectorAll('*').forEach(e => e.dispatchEvent(new MouseEvent('mouseover')))")
    assert browser.complaints == []
    assert "owned' quantised" not in browser.evaluate("document.title")
    assert browser.evaluate("document.title") == "</title><script>document.title='owned'</script> quantised"
    assert browser.evaluate("document.scripts.length") == 1
    assert (
        browser.evaluate("document.querySelectorAll('img, b b, tbody i, tbody svg, [onmouseover], [onerror]').length")
        == 0
    )
    assert browser.evaluate("document.querySelectorAll('tbody tr').length") == 22
    names = browser.evaluate(NAMES)
    assert "<script>document.title='owned'</script>" in names and "&lt;script&gt; &amp;amp; &#x3c;" in names
    assert "zero\\u0000byte, line\\u000abreak, \\u001b[31mred\\u007f" in names
    assert "right to left \\u202egnp.exe, nothing \\u200b, mark \\ufeff" in names
    assert "broken ��� ��� ���� cut ��" in names
    assert not re.search(
        r"(x|y|cx|cy|y1|y2|width|height|r)=\"[^\"]*(nan|inf)", browser.evaluate("document.body.innerHTML")
    )


def test_an_injected_script_would_not_run(browser, pages, tmp_path):
    """The second line of defence: a page whose names were not escaped runs nothing but its own script."""
    page = (pages / "usual.html").read_text()
    bad = tmp_path / "bad.html"
    bad.write_text(
        page.replace(
            "<h1>", "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><h1>"
        )
    )
    browser.open(bad)
    assert "owned" not in browser.evaluate("document.title")
    assert any("Content Security Policy" in complaint for complaint in browser.complaints), "complaints are seen"


def test_the_policy_has_the_scripts_hash(pages):
    page = (pages / "usual.html").read_text()
    script = re.search(r"<script>(.*?)</script>", page, re.S).group(1)
    right = "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert right in page, f"kReportScriptHash must be {right}"
    assert not re.search(r"https?://|src=|@import|url\(", page)


def test_a_report_of_the_program(browser, planck, tmp_path):
    """What `planck quantize --report` writes shows what `--json` says, with names that would be markup."""
    rng = np.random.default_rng(5)
    names = ["<img src=x onerror=document.title='owned'>.weight", "a\"b'c&d.weight", "plain.weight", "plain.bias"]
    tensors = {name: rng.normal(size=(8, 16)).astype(np.float32) for name in names[:3]}
    tensors["plain.bias"] = np.zeros(8, np.float32)
    save_file(tensors, tmp_path / "model.safetensors")
    page = tmp_path / "report.html"
    said = planck("quantize", tmp_path / "model.safetensors", "-o", tmp_path / "int8", "--report", page)
    browser.open(page)
    assert browser.complaints == [] and "owned" not in browser.evaluate("document.title")
    assert sorted(browser.evaluate(NAMES)) == sorted(names)
    click(browser, "SNR, dB")
    ratios = sorted((row["snr_db"] for row in said["tensors"] if row["quantized"]), reverse=True)
    assert numbers(browser, "SNR, dB") == [round(ratio, 1) for ratio in ratios]
    text = browser.evaluate("document.body.innerText").replace("\xa0", " ")
    assert f"{said['bytes_after'] / 1000:.2f} kB" in text and f"from {said['bytes_before'] / 1000:.2f} kB" in text
