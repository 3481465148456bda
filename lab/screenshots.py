"""A picture of every page of the built site, in light and dark, for docs/images/lab.

    python lab/screenshots.py [PAGE ...]

They are there to be looked at: what a change of style does to a page shows in the difference. The dark ones are as wide
as a phone, so that both ends are seen.
"""

import argparse
import functools
import http.server
import io
import shutil
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Playwright, sync_playwright

HERE = Path(__file__).parent
SITE = HERE / "src" / "qkv_lab" / "site"
OUT = HERE.parent / "docs" / "images" / "lab"
LOOKS = {"light": 1120, "dark": 390}  # the theme, and how wide its window is
QUALITY = 70  # of WebP: letters stay sharp, and the pictures of all pages take few megabytes

SCROLLED = """async () => {
    for (let at = 0; at < document.body.scrollHeight; at += 500) {
        scrollTo({top: at, behavior: "instant"});
        await new Promise((done) => setTimeout(done, 60));
    }
    scrollTo({top: 0, behavior: "instant"});
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A plain server, as a school may have it, that does not talk."""

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def launch(playwright: Playwright) -> Browser:
    """Chromium, as `make test` finds or installs it."""
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    return playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])


def take(browser: Browser, address: str, name: str) -> None:
    """Writes the pictures of one page."""
    for theme, width in LOOKS.items():
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce"
        )
        page = context.new_page()
        page.goto(f"{address}/{name}")
        page.get_by_role("heading", level=1).wait_for()
        page.wait_for_load_state("networkidle")
        page.evaluate("document.fonts.ready")
        # What waits until it is seen, an editor for one, sees itself once.
        page.evaluate(SCROLLED)
        shot = Image.open(io.BytesIO(page.screenshot(full_page=True)))
        shot.convert("RGB").save(OUT / f"{Path(name).stem}-{theme}.webp", quality=QUALITY, method=6)
        context.close()


def main() -> None:
    """Takes the pages named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="names such as one-token.html; all without any")
    asked = parser.parse_args().pages or sorted(path.name for path in SITE.glob("*.html"))
    OUT.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for name in asked:
            take(browser, f"http://127.0.0.1:{server.server_port}", name)
            print(name)
        browser.close()


if __name__ == "__main__":
    main()
