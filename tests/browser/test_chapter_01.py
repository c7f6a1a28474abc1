"""Chapter 01 as a learner meets it: JupyterLab in a real browser. The tests assert change, not time."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.bench.redraw import claims

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]
PATIENCE = 60_000  # milliseconds, for the first page of a cold JupyterLab
LOAD = os.getloadavg()[0]  # of other work: taken before the browser comes up
REDRAW = (Path(__file__).parent / "redraw.js").read_text(encoding="utf-8")

# said by JupyterLab or the browser about themselves, with or without our chapter
HARMLESS = ("favicon", "ResizeObserver loop")


class Lab:
    """The page, and everything that its console complained about."""

    def __init__(self, page: "playwright.Page") -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("console", lambda message: self._note(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self._note(str(error)))

    def _note(self, text: str) -> None:
        if not any(part in text for part in HARMLESS):
            self.errors.append(text)

    def run_all(self) -> None:
        """Run > Run All Cells, once the kernel is there; returns when it is idle again."""
        self.page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=PATIENCE)
        self._wait_for_idle()
        self.page.locator(".lm-MenuBar-itemLabel:text-is('Run')").click()
        self.page.locator(".lm-Menu-itemLabel:text-is('Run All Cells')").click()
        self.page.wait_for_selector(".noUi-handle", state="attached", timeout=PATIENCE)
        self._wait_for_idle()

    def _wait_for_idle(self) -> None:
        """The kernel says so, and no cell waits for its turn."""
        self.page.wait_for_function(
            "() => { const text = document.body.innerText; return text.includes('| Idle') && !text.includes('[*]') }",
            timeout=PATIENCE,
        )

    @property
    def slider(self) -> "playwright.Locator":
        """The handle of the capacity slider, the first of the two."""
        return self.page.locator(".noUi-handle").first

    @property
    def picture(self) -> str:
        """What the picture says to those who do not see it."""
        return self.page.locator(".widget-html-content svg desc").first.text_content() or ""

    @property
    def text(self) -> str:
        """The text under the picture."""
        return self.page.locator(".widget-html-content pre").first.text_content() or ""


@pytest.fixture(scope="module")
def lab(chapter_01: str, chromium: str) -> Iterator[Lab]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        opened = Lab(browser.new_page(viewport={"width": 1400, "height": 900}))
        opened.page.goto(chapter_01, timeout=PATIENCE)
        opened.run_all()
        opened.slider.scroll_into_view_if_needed()
        yield opened
        browser.close()


@pytest.mark.soak
def test_take_the_screenshot_of_the_readme(lab: Lab) -> None:
    target = ROOT / "docs" / "screenshot-ch01.png"
    target.parent.mkdir(exist_ok=True)
    lab.page.keyboard.press("Control+b")  # without the side bar
    lab.page.locator(".jp-CodeCell:has(.noUi-handle)").evaluate(
        "cell => cell.scrollIntoView({block: 'start'})"
    )
    lab.page.locator(".widget-html-content svg").nth(1).wait_for()
    lab.page.screenshot(path=target)
    assert target.stat().st_size < 300_000


def test_all_cells_run(lab: Lab) -> None:
    assert lab.page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    assert lab.page.locator(".jp-CodeCell").count() > 20


def test_the_last_cell_finds_no_leaks(lab: Lab) -> None:
    """JupyterLab draws only the cells in view: the panel is scrolled until the last one has spoken, and back."""
    panel = lab.page.locator(".jp-WindowedPanel-outer").first
    before = panel.evaluate("panel => panel.scrollTop")
    said = lab.page.wait_for_function(
        """() => {
            const panel = document.querySelector('.jp-WindowedPanel-outer');
            panel.scrollTop = panel.scrollHeight;
            const outputs = [...document.querySelectorAll('.jp-OutputArea-output')].map(output => output.innerText.trim());
            return outputs.find(text => text === 'no leaks' || text.includes('LeakError'));
        }""",
        timeout=PATIENCE,
    ).json_value()
    panel.evaluate("(panel, top) => { panel.scrollTop = top; }", before)
    assert said == "no leaks"


def test_moving_the_capacity_slider_changes_picture_and_text(lab: Lab) -> None:
    assert "sent AB, dropped CDE, paused 3, 5, 7, waste 3/5 = 60%" in lab.picture
    assert lab.text == lab.picture
    lab.slider.focus()
    lab.slider.press("End")
    lab.page.wait_for_function(
        "() => document.querySelector('.widget-html-content pre').textContent.includes('waste 5/7 = 71%')"
    )
    assert "sent AB, dropped CDEFG, paused never" in lab.picture
    assert lab.text == lab.picture
    lab.slider.press("Home")
    lab.page.wait_for_function(
        "() => document.querySelector('.widget-html-content pre').textContent.includes('waste 1/3 = 33%')"
    )


def test_clicking_a_tick_changes_pattern_text_and_picture(lab: Lab) -> None:
    tick = lab.page.locator(".widget-hbox button").nth(2)
    before = lab.picture
    tick.click()
    pattern = lab.page.locator(".widget-text input").first
    playwright.expect(pattern).to_have_value("1,0,1,0,1,0,1,0,0")
    lab.page.wait_for_function(
        "before => document.querySelector('.widget-html-content pre').textContent !== before", arg=before
    )
    assert "reads   1 0 1 0 1 0 1 0 0" in lab.picture
    pattern.fill("1,0,0,0,1,0,1,0,0")
    pattern.press("Enter")
    playwright.expect(tick).to_have_text("0")


def test_each_tick_shows_its_whole_number(lab: Lab) -> None:
    cut = lab.page.evaluate(
        "() => [...document.querySelectorAll('.jupyter-button')].filter(b => b.scrollWidth > b.clientWidth).length"
    )
    assert lab.page.locator(".jupyter-button").count() >= 9
    assert cut == 0


def test_a_pattern_that_is_none_is_answered_under_the_controls(lab: Lab) -> None:
    pattern = lab.page.locator(".widget-text input").first
    pattern.fill("7")
    pattern.press("Enter")
    playwright.expect(lab.page.locator("[role=alert]")).to_contain_text("digits from 0 to 3")


def test_each_redraw_shows_another_picture_and_the_console_stays_clean(lab: Lab) -> None:
    samples = lab.page.evaluate(REDRAW, 20)
    assert len(samples) == 20
    assert all(sample > 0 for sample in samples)
    assert claims(samples, load=LOAD, cpus=2)["moves"] == 20
    assert lab.errors == []


@pytest.mark.soak
def test_record_the_redraw_time(lab: Lab) -> None:
    """Takes the samples and writes the evidence. What they say is in the record, not in an assertion."""
    from lab import evidence

    samples = [round(sample, 1) for sample in lab.page.evaluate(REDRAW, 100)]
    recorded = evidence.record(
        ROOT / "evidence" / "01_one_slow_client" / "redraw.json",
        kind="measured",
        title="From a key press on the capacity slider to the frame with the new picture, in JupyterLab",
        recipe="lab.bench.redraw:claims",
        inputs={"samples_ms": samples, "load": round(LOAD, 2), "cpus": os.cpu_count()},
        command="python -m pytest -m soak tests/browser/test_chapter_01.py",
    )
    assert recorded.recompute() == recorded.result
