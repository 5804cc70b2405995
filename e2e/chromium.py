"""The browser of the tests: the Chromium that is installed, else Playwright's own.

The headless shell is preferred: the same engine without a desktop browser around it, and a fresh context in it
costs a third of the time.
"""

import shutil

from playwright.sync_api import Browser, Playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def launch(playwright: Playwright) -> Browser:
    """Start it, without a window."""
    installed = next((path for name in NAMES if (path := shutil.which(name))), None)
    return playwright.chromium.launch(executable_path=installed, args=list(FLAGS))
