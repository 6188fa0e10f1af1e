"""Reviews in a real browser: ten decided by keyboard only, ticks kept, no barrier found by axe (H1, U2, U6)."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests import needs
from tests.browser.conftest import Watched
from tests.browser.site import Site

RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}"


def cases(site: Site, count: int, hits: str = "()", reason: str = "path_rule") -> list[int]:
    """New cases that wait for a person, the oldest first."""
    printed = site.run(
        f"""
        from uuid import uuid4
        from jobs.models import Repository
        from tests.services.test_two_people import in_review
        for _ in range({count}):
            print(in_review(Repository.objects.get(), hits={hits}, reason={reason!r}, text=str(uuid4())).pk)
        """
    )
    return [int(line) for line in printed.splitlines()]


def decisions(site: Site, ids: list[int]) -> list[str]:
    """Decision and reason of each, in the order of the cases."""
    return site.run(
        f"""
        from jobs.models import ReviewDecision
        for each in ReviewDecision.objects.filter(case__in={ids}).order_by("case"):
            print(each.decision, each.actor, each.reason)
        """
    ).splitlines()


def settle(site: Site) -> None:
    """No case is open any more."""
    site.run(
        """
        from jobs.models import ReviewCase
        from jobs.services import control
        for job_id in ReviewCase.objects.filter(closed_at=None).values_list("job_id", flat=True):
            try:
                control.cancel(job_id, actor="user:nobody", reason="between tests")
            except Exception as error:
                print(error)
        """
    )


@pytest.fixture(autouse=True)
def empty_queue(site: Site):
    settle(site)


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.name || document.activeElement.tagName")


def test_ten_reviews_are_decided_with_the_keyboard_alone(site: Site, window: Watched):
    ids = cases(site, 10)
    page = window.signed_in()
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/reviews/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    for number, case in enumerate(ids):
        page.wait_for_url(f"**/reviews/{case}/")
        page.keyboard.press("a" if number % 2 == 0 else "r")
        assert focused(page) == "reason"
        page.keyboard.type(f"review number {number}, a and r typed here choose nothing")
        page.keyboard.press("Control+Enter")
    expect(page.locator("h1")).to_have_text("0 decisions wait")
    said = decisions(site, ids)
    assert [line.split()[0] for line in said] == ["approve", "reject"] * 5
    assert all(f"review number {number}," in line and "user:li" in line for number, line in enumerate(said))


def test_keys_only_choose_and_ask_for_a_reason_and_can_be_switched_off(site: Site, window: Watched):
    first, second = cases(site, 2)
    page = window.signed_in()
    page.goto(f"{site.base}/reviews/{first}/")
    page.keyboard.press("a")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#id_reason")).to_be_focused()
    assert decisions(site, [first]) == []
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    expect(page.locator("#id_note")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    expect(page.locator("#id_hours")).to_be_focused()
    page.locator("body").click(position={"x": 2, "y": 2})
    page.keyboard.press("j")
    page.wait_for_url(f"**/reviews/{second}/")
    page.keyboard.press("?")
    page.wait_for_url("**/preferences/#h-keys")
    page.select_option("#choose-keys", "off")
    page.goto(f"{site.base}/reviews/{first}/")
    page.keyboard.press("a")
    expect(page.locator("input[value=approve]")).not_to_be_checked()


def test_a_stale_tab_is_told_what_changed_and_keeps_its_text(site: Site, window: Watched):
    (case,) = cases(site, 1)
    page = window.signed_in()
    page.goto(f"{site.base}/reviews/{case}/")
    site.run(
        f"""
        from jobs.core.states import Event
        from jobs.models import ReviewCase
        from tests.services.test_two_people import decide
        decide(ReviewCase.objects.get(pk={case}), "user:ana", Event.REJECT)
        """
    )
    page.check("input[value=approve]")
    page.fill("#id_reason", "typed in a tab that is old")
    window.complaints.clear()
    page.click("button:has-text('Decide')")
    expect(page.locator(".note[role=alert]")).to_contain_text("ana decided meanwhile: reject")
    window.complaints.clear()  # Chromium reports the 409 itself


def test_the_risky_case_takes_a_second_person_in_the_browser_too(site: Site, window: Watched):
    (case,) = cases(site, 1, hits="('billing',)")
    page = window.signed_in()
    page.goto(f"{site.base}/reviews/{case}/")
    expect(page.locator("#decide")).to_contain_text("First of two people")
    page.check("input[value=approve]")
    page.fill("#id_reason", "looks right to me")
    page.click("button:has-text('Decide')")
    page.goto(f"{site.base}/reviews/?tab=second")
    expect(page.locator(f"#case-{case}")).to_contain_text("1 of 2")
    page.goto(f"{site.base}/reviews/{case}/")
    expect(page.locator("input[value=approve]")).to_be_disabled()


def addresses(site: Site) -> list[str]:
    risky, plain = cases(site, 1, hits="('billing',)")[0], cases(site, 1, reason="input_missing")[0]
    known = ["/reviews/", "/reviews/mine/", "/ledger/", "/repositories/", "/preferences/"]
    return [*known, f"/reviews/{risky}/", f"/reviews/{plain}/"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_new_page_has_a_barrier_or_scrolls_sideways(site: Site, window: Watched, theme: str):
    axe = needs.axe()
    page = window.signed_in()
    page.emulate_media(color_scheme=theme)
    for address in addresses(site):
        for width in (360, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(f"{site.base}{address}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, address
            page.evaluate(axe)
            found = page.evaluate(f"axe.run(document, {RULES})")["violations"]
            assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == [], address


def test_djangos_own_admin_lives_under_the_strict_policy(site: Site, window: Watched):
    page = window.signed_in()
    for address in ("/admin/", "/admin/auth/user/", "/admin/auth/user/add/", "/admin/jobs/reviewcase/"):
        page.goto(f"{site.base}{address}")
        expect(page.locator("#content")).to_be_visible()
    page.goto(f"{site.base}/admin/auth/user/")
    page.click(".field-username a")
    page.wait_for_url(re.compile(r"/admin/auth/user/\d+/change/"))
    page.wait_for_load_state("networkidle")
