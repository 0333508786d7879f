"""The HTML report in headless Chromium: no complaint, sorting and filtering, light and dark, desk and phone, names of
any length, and hostile names do nothing."""

import base64
import hashlib
import io
import itertools
import re
import subprocess

import numpy as np
import pytest
from matplotlib import image
from safetensors.numpy import save_file

NAMES = "Array.from(document.querySelectorAll('tbody tr:not([hidden])'), row => row.cells[0].textContent)"
COLUMN = "Array.from(document.querySelectorAll('tbody tr'), row => row.cells[{}].textContent)"
PAGES = ["usual", "hostile", "empty", "one", "three", "many", "large", "long"]
# The whole name, also of a row that shows a part of it.
WHOLE = "Array.from(document.querySelectorAll('tbody tr'), row => row.cells[0].dataset.v ?? row.cells[0].textContent)"
HEADS = "Array.from(document.querySelectorAll('th'), head => head.textContent)"


@pytest.fixture(scope="module")
def pages(build_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    subprocess.run([build_dir / "tests" / "report_sample", folder], check=True)
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


def texts(browser, selector):
    return browser.evaluate(f"Array.from(document.querySelectorAll({selector!r}), e => e.textContent)")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_complaint_and_a_picture(browser, pages, tmp_path, name, scheme):
    browser.open(pages / f"{name}.html", scheme)
    assert browser.complaints == []
    # The picture of the largest table would be higher than Chromium draws.
    if name == "large":
        browser.evaluate("document.querySelector('.scroll').remove()")
        assert browser.evaluate("document.querySelectorAll('svg a').length") <= 4 * 500
    assert browser.evaluate("document.querySelectorAll('figure').length") == (0 if name == "empty" else 4)
    shot = pixels(browser.screenshot(tmp_path / "page.png"))
    background, brightest = shot[2, 2, :3], shot[:, :, :3].mean(axis=2).max()
    assert shot.shape[1] > 1200 and shot.shape[0] >= 900
    assert background.mean() > 0.9 if scheme == "light" else background.mean() < 0.2
    assert brightest > 0.8, "there is text, or a light page"
    assert len({tuple(p) for p in (shot[::3, ::3, :3] * 255).astype(int).reshape(-1, 3)}) > 20, "the page is not blank"
    assert browser.complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_wide_and_narrow(browser, pages, name):
    """The page never scrolls sideways: only the table does, inside its frame, and not on a phone."""
    for width in (320, 390, 800, 1320, 1900):
        browser.open(pages / f"{name}.html", width=width)
        for wide in ("document.documentElement", *(["document.querySelector('.scroll')"] if width < 700 else [])):
            assert browser.evaluate(f"{wide}.scrollWidth <= {wide}.clientWidth"), (width, wide)


@pytest.mark.parametrize("name", ["usual", "hostile", "three", "large", "long"])
@pytest.mark.parametrize("width", [390, 1280])
def test_labels_are_readable(browser, pages, name, width):
    """Every text is at least 11 pixels high on the screen, also on a phone, and no label of an axis lies on another."""
    browser.open(pages / f"{name}.html", width=width)
    # What is drawn, not what the style sheet says: a picture that is scaled down scales its labels.
    small = browser.evaluate("""Array.from(document.querySelectorAll('main *')).filter(e => e.offsetParent !== null
        || e.ownerSVGElement).filter(e => Array.from(e.childNodes).some(n => n.nodeType === 3 && n.data.trim()))
        .filter(e => e.localName !== 'title').map(e => [e.textContent.slice(0, 40), parseFloat(getComputedStyle(e)
        .fontSize) * (e.ownerSVGElement ? e.getScreenCTM().d : 1)]).filter(([text, size]) => size < 11)""")
    assert small == []
    for ticks in browser.evaluate("""Array.from(document.querySelectorAll('figure'), f => Array.from(
            f.querySelectorAll('.axis .tick'), tick => tick.getBoundingClientRect().top))"""):
        assert len(ticks) >= 2 and all(low - high >= 12 for low, high in itertools.pairwise(ticks)), ticks
    assert browser.evaluate("""Array.from(document.querySelectorAll('.ends')).every(ends =>
        ends.firstChild.getBoundingClientRect().right < ends.lastChild.getBoundingClientRect().left
        || ends.children.length === 1)""")


def test_dots_are_round_at_any_width(browser, pages, tmp_path):
    """The pictures are stretched to the page's width; their dots are not."""
    for width in (390, 1900):
        browser.open(pages / "three.html", width=width)
        at = browser.evaluate(
            "(r => [r.x, r.y, r.width, r.height])(document.querySelector('.noise .dot').getBoundingClientRect())"
        )
        shot = pixels(browser.screenshot(tmp_path / "page.png"))
        x, y = (round(at[i] + at[i + 2] / 2) for i in (0, 1))
        part = shot[y - 12 : y + 12, x - 12 : x + 12, :3]
        teal = (part[:, :, 1] - part[:, :, 0]) > 0.2
        assert 5 <= teal.any(axis=0).sum() <= 9 and abs(teal.any(axis=0).sum() - teal.any(axis=1).sum()) <= 1


def test_the_title_is_the_models_name(browser, pages):
    browser.open(pages / "usual.html")
    assert browser.evaluate("document.title") == "all-MiniLM-L6-v2 quantised"
    assert texts(browser, "h1") == ["all-MiniLM-L6-v2"]
    assert texts(browser, "h1 + .path") == ["models/all-MiniLM-L6-v2/model.safetensors → out"]
    size = "parseFloat(getComputedStyle(document.querySelector('{}')).fontSize)"
    assert 2 * browser.evaluate(size.format(".path")) <= browser.evaluate(size.format("h1")), "the path is small"


@pytest.mark.parametrize("name", ["usual", "three", "large", "hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_colour_has_one_meaning(browser, pages, name, scheme):
    """Every colour of every plot is in that plot's legend, and no colour of the page is in two legends."""
    browser.open(pages / f"{name}.html", scheme)
    legends = browser.evaluate("""Array.from(document.querySelectorAll('.sizes, figure'), part => Array.from(
        part.querySelectorAll('.key:not(.beyond)'), key => getComputedStyle(key).backgroundColor))""")
    colours = [colour for legend in legends for colour in legend]
    assert len(legends) == 5 and all(legends) and len(set(colours)) == len(colours), legends
    drawn = browser.evaluate("""Array.from(document.querySelectorAll('figure'), f => Array.from(new Set(Array.from(
        f.querySelectorAll('svg a :not(title, .hit, .hole)'), e => e.localName === 'rect' ? getComputedStyle(e).fill :
        getComputedStyle(e).stroke))))""")
    assert all(set(marks) <= set(legend) for marks, legend in zip(drawn, legends[1:], strict=True)), drawn
    bars = "Array.from(document.querySelectorAll('.track i'), i => getComputedStyle(i).backgroundColor)"
    assert set(browser.evaluate(bars)) <= set(legends[0])


def test_legends(browser, pages):
    """Where neighbours share a mark, the legend says what its dots are, and how many tensors it stands for."""
    legend = "figure.noise .legend span"
    browser.open(pages / "usual.html")
    assert texts(browser, legend) == ["each quantised tensor"]
    assert texts(browser, "figure.errors .legend span") == ["mean", "largest"]
    browser.open(pages / "large.html")
    assert texts(browser, legend) == ["lowest", "highest", "a mark for every 12 tensors"]
    assert texts(browser, "figure.errors .legend span") == ["largest mean", "largest", "a mark for every 12 tensors"]
    first = browser.evaluate(f"({WHOLE}).slice(0, 12)")
    ratios = numbers(browser, "SNR, dB")[:12]
    dots = "Array.from(document.querySelector('figure.noise a').querySelectorAll('.one, .two'), e => e.getBBox().y)"
    low, high = browser.evaluate(dots)
    axis = browser.evaluate(
        "Array.from(document.querySelectorAll('figure.noise .axis .tick'), e => [+e.textContent,"
        " parseFloat(e.style.top) * 2])"
    )
    (v0, y0), (v1, y1) = axis[0], axis[-1]
    values = [v0 + (y - y0) * (v1 - v0) / (y1 - y0) for y in (low, high)]
    assert values == pytest.approx([min(ratios), max(ratios)], abs=0.1), first
    browser.open(pages / "hostile.html")
    assert texts(browser, legend) == ["each quantised tensor", "hollow: beyond the axis"]


def test_quantised_tensors_come_first(browser, pages):
    """The box is ticked; without the tick the others stand behind, and in a page without any it is not ticked."""
    browser.open(pages / "usual.html")
    assert texts(browser, ".tools label") == [" only quantised"] and browser.evaluate("only.checked")
    assert len(browser.evaluate(NAMES)) == 36 and texts(browser, "output") == ["36 of 61 tensors"]
    browser.evaluate("only.click()")
    classes = browser.evaluate("Array.from(document.querySelectorAll('tbody tr:not([hidden])'), row => row.className)")
    assert classes == [""] * 36 + ["c"] * 25 and texts(browser, "output") == ["61 tensors"]
    browser.open(pages / "empty.html")
    assert not browser.evaluate("only.checked")
    browser.open(pages / "one.html")
    assert texts(browser, "output") == ["1 tensor"]


def test_without_a_script_every_tensor_is_there(browser, pages):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages / "usual.html")
        shown = browser.evaluate("Array.from(document.querySelectorAll('tbody tr')).filter(r => r.offsetHeight).length")
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert shown == 61


def test_a_mark_leads_to_a_row_that_is_not_shown(browser, pages):
    browser.open(pages / "usual.html")
    browser.evaluate("search.value = 'layer.3.'; search.dispatchEvent(new Event('input'))")
    browser.evaluate(
        "new Promise(done => { addEventListener('hashchange', () => setTimeout(done, 50));"
        " document.querySelector('.card a').click(); })"
    )
    assert browser.evaluate(
        "(r => r.offsetHeight > 0 && r.getBoundingClientRect().top < innerHeight && "
        "r.cells[0].textContent)(document.querySelector('tr:target'))"
    ).startswith("encoder.layer.5.")


# Every place where a line ends inside a text: the character before it, and the one behind.
LINE_ENDS = """Array.from(document.querySelectorAll('{}')).flatMap(element => {{
  const found = [], walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let before = null, node;
  while ((node = walker.nextNode())) for (let i = 0; i < node.data.length; ++i) {{
    const range = document.createRange();
    range.setStart(node, i);
    range.setEnd(node, i + 1);
    const box = range.getBoundingClientRect();
    if (!box.width) {{  // a blank at the end of a line
      if (before) before.character = node.data[i];
      continue;
    }}
    if (before && box.left < before.left) found.push(before.character + node.data[i]);
    before = {{ left: box.left, character: node.data[i] }};
  }}
  return found; }})"""


@pytest.mark.parametrize("name", ["usual", "long"])
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_names_do_not_break_inside_words(browser, pages, name, width):
    """Lines end behind a dot, a slash or a blank, and behind _ or - in what has nothing else."""
    browser.open(pages / f"{name}.html", width=width)
    for selector in ("h1", ".path", ".card span", "td:first-child"):
        ends = browser.evaluate(LINE_ENDS.format(selector))
        assert [end for end in ends if end[0] not in "./ _-…"] == [], selector
    if name == "usual":
        assert not any(end[0] in "_-" for end in browser.evaluate(LINE_ENDS.format("td:first-child")))


def test_long_names_are_cut(browser, pages):
    """What is cut has the whole name as its title; it is searched and sorted by that, and rows stay distinct."""
    browser.open(pages / "long.html")
    shown, whole = browser.evaluate(NAMES), browser.evaluate(WHOLE)
    assert len(shown) == 24 and len(set(shown)) == 24 and max(map(len, whole)) > 100
    assert all(len(name) <= 96 and "…" in name for name in shown)
    titles = browser.evaluate("Array.from(document.querySelectorAll('td[title]'), cell => cell.title)")
    assert titles == whole[:24] and all(
        name.endswith(part.split("…")[-1]) for name, part in zip(titles, shown, strict=True)
    )
    model = browser.evaluate("document.title").removesuffix(" quantised")
    assert browser.evaluate("document.querySelector('h1').title") == model and len(texts(browser, "h1")[0]) <= 72 < len(
        model
    )
    assert browser.evaluate("document.querySelector('.card a').title") in whole
    browser.evaluate("search.value = 'base_model.model.model.language_model'; search.dispatchEvent(new Event('input'))")
    assert len(browser.evaluate(NAMES)) == 24, "also by the part that is cut away"
    click(browser, "Tensor")
    layers = [int(layer) for layer in re.findall(r"layers\.(\d+)", "\n".join(browser.evaluate(WHOLE)[:24]))]
    assert layers == sorted(layers)
    browser.open(pages / "hostile.html")
    assert browser.evaluate(f"({WHOLE}).find(name => name.startsWith('xxx'))") == "x" * 5000
    assert browser.evaluate("document.querySelector('tbody').offsetHeight") < 2500


def test_totals(browser, pages):
    browser.open(pages / "usual.html")
    text = browser.evaluate("document.body.innerText").replace("\xa0", " ")
    assert browser.evaluate("document.querySelector('.tools button').hidden")
    for part in ["58.7 MB", "from 90.9 MB, 1.55 times smaller", "36", "of 61 tensors quantised", "41.2 dB", "727 MB/s"]:
        assert part in text
    assert "the worst tensor:\nencoder.layer.5.output.dense.weight" in text
    browser.open(pages / "three.html")
    text = browser.evaluate("document.body.innerText").replace("\xa0", " ")
    assert "from 90.9 MB, 1.37 times larger" in text and "smaller" not in text
    assert "of 3 tensors quantised" in text and "copied" not in text
    browser.open(pages / "one.html")
    assert "of 1 tensor quantised" in browser.evaluate("document.body.innerText")


def test_sorting(browser, pages):
    browser.open(pages / "usual.html")
    browser.evaluate("only.click()")
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
    assert len(layers) == 6000 and layers == sorted(layers)
    browser.evaluate("only.click()")
    assert len(browser.evaluate(NAMES)) == 10001


def test_filter(browser, pages):
    browser.open(pages / "usual.html")
    browser.evaluate("only.click(); search.value = 'LAYER.3.'; search.dispatchEvent(new Event('input'))")
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
    names = browser.evaluate(WHOLE)
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
    assert sorted(browser.evaluate(WHOLE)) == sorted(names)
    click(browser, "SNR, dB")
    ratios = sorted((row["snr_db"] for row in said["tensors"] if row["quantized"]), reverse=True)
    assert numbers(browser, "SNR, dB") == [round(ratio, 1) for ratio in ratios]
    text = browser.evaluate("document.body.innerText").replace("\xa0", " ")
    assert f"{said['bytes_after'] / 1000:.2f} kB" in text and f"from {said['bytes_before'] / 1000:.2f} kB" in text


def test_the_name_of_a_model(planck, tmp_path):
    """A folder is named by itself, also in Hugging Face's cache, a file by itself unless all models are called so."""
    hub = tmp_path / "hub" / "models--org--some-model" / "snapshots" / ("0" * 40)
    named = {
        tmp_path / "Llama-3": "Llama-3",
        hub: "org/some-model",
    }
    for folder in named:
        folder.mkdir(parents=True)
        for name in ("model", "encoder", "model-00001-of-00002", "encoder-00001-of-00002"):
            save_file({f"{name}.weight": np.ones((4, 4), np.float32)}, folder / f"{name}.safetensors")
    llama = tmp_path / "Llama-3"
    named |= {
        f"{llama}/": "Llama-3",
        llama / "model.safetensors": "Llama-3",
        llama / "model-00001-of-00002.safetensors": "Llama-3",
        llama / "encoder.safetensors": "encoder",
        llama / "encoder-00001-of-00002.safetensors": "encoder",
        hub / "model.safetensors": "org/some-model",
        ".": "Llama-3",
        "model.safetensors": "Llama-3",
        "../Llama-3/.": "Llama-3",
    }
    page = tmp_path / "report.html"
    for number, (place, name) in enumerate(named.items()):
        options = ["-o", tmp_path / f"int8-{number}", "--format", "plain", "--force", "--report", page]
        planck("quantize", place, *options, cwd=llama)
        assert f"<title>{name} quantised</title>" in page.read_text(), place
