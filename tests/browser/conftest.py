"""A real Chromium before a real server. Every browser test runs in one process, one after another."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests import needs
from tests.browser.site import NAME, PASSWORD, Site


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    needs.browser()
    site = Site(tmp_path_factory.mktemp("site"))
    try:
        site.start()
        yield site
    finally:
        site.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    # Not for the whole session: while it lives, Django takes this thread for an asynchronous one.
    path = needs.browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A browser window that remembers every complaint: console errors, policy violations, failed scripts."""

    def __init__(self, site: Site, context: BrowserContext) -> None:
        self.site, self.context, self.complaints = site, context, []  # type: ignore[var-annotated]
        context.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`))"
        )

    def page(self) -> Page:
        page = self.context.new_page()
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        return page

    def signed_in(self) -> Page:
        page = self.page()
        page.goto(f"{self.site.base}/")
        page.fill("#id_username", NAME)
        page.fill("#id_password", PASSWORD)
        page.click("button[type=submit]")
        page.wait_for_url("**/jobs/")
        return page


@pytest.fixture
def window(site: Site, chromium: Browser) -> Iterator[Watched]:
    """A window of 1280 × 900; at the end nothing may have been complained about."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    watched = Watched(site, context)
    yield watched
    context.close()
    assert watched.complaints == []


@pytest.fixture
def plain(site: Site, chromium: Browser) -> Iterator[Watched]:
    """A window without JavaScript."""
    context = chromium.new_context(java_script_enabled=False)
    yield Watched(site, context)
    context.close()
