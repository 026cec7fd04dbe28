"""Pages as the documentation shows them: a headless Chromium (needs selenium, chromium and chromedriver)."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from selenium import webdriver

from hiertree.io.files import replacing

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "figures"


@contextmanager
def chromium(width: int, height: int, *, dark: bool = False) -> Iterator[webdriver.Chrome]:
    """A browser with a window of that size."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={width},{height}"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    view = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", view)
    try:
        yield browser
    finally:
        browser.quit()


def keep(browser: webdriver.Chrome, name: str) -> None:
    """Save what is shown as a small PNG."""
    picture = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    with replacing(FIGURES / name) as temporary:
        few = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
        few.save(temporary, format="PNG", optimize=True)
    print(f"{FIGURES / name}: {(FIGURES / name).stat().st_size // 1000} kB")
