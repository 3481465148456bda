"""How long figures take to answer: python lab/bench.py [PAGE ...]

Every slider of every figure is moved a step back and forth; the time is from the move until the browser has laid out
what it changed, with what a worker had to compute for it, and is about to paint. Printed are the median and the slowest
of the moves, in milliseconds, beside the goal: 50, and 300 for the experiment on saturation.
"""

import argparse
import functools
import statistics
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import sync_playwright
from screenshots import SITE, Quiet, launch

MOVES = 16  # even, so that the slider ends where it was
GOAL, SATURATION_GOAL = 50, 300
TIMED = """async (slider, moves) => {
    const moved = slider.value === slider.max ? -1 : 1, start = Number(slider.value), step = Number(slider.step) || 1;
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const busy = () => slider.closest("figure")?.querySelector('[aria-busy="true"]');
    const times = [];
    for (let at = 0; at < moves; at++) {
        await frame();
        const before = performance.now();
        slider.value = start + (at % 2 ? 0 : moved * step);
        slider.dispatchEvent(new Event("input", {bubbles: true}));
        await Promise.resolve();
        while (busy()) await new Promise((done) => setTimeout(done, 1));
        document.body.getBoundingClientRect();
        times.push(performance.now() - before);
    }
    return times;
}"""


def main() -> None:
    """Prints a line for each slider."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="names such as why-scale.html; all with a figure without any")
    asked = parser.parse_args().pages or sorted(path.name for path in Path(SITE).glob("*.html"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page()
        for name in asked:
            page.goto(f"http://127.0.0.1:{server.server_port}/{name}")
            page.get_by_role("heading", level=1).wait_for()
            for slider in page.get_by_role("slider").all():
                times = slider.evaluate(TIMED, MOVES)
                goal = SATURATION_GOAL if name == "why-scale.html" else GOAL
                label = slider.evaluate("(each) => each.labels[0]?.textContent ?? each.getAttribute('aria-label')")
                verdict = "met" if max(times) <= goal else "MISSED"
                median = statistics.median(times)
                print(f"{name:28} {label:34} {median:7.1f} ms, slowest {max(times):7.1f}   <= {goal} ms: {verdict}")
        browser.close()


if __name__ == "__main__":
    main()
