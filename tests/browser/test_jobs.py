"""The main way through the console, by hand: enqueue, find, open, cancel; live refresh; no script (U3, U11, U12)."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watched
from tests.browser.site import Site

ASK_AGAIN = "document.querySelector('[data-poll]').dispatchEvent(new Event('poll'))"
HOSTILE = '<a hx-get="/jobs/?stolen" hx-trigger="load">x</a><img src="//evil.example/x.png">\u202e'


def pause_refresh(page: Page) -> None:
    """Only this test says when the page asks again."""
    page.select_option("[data-choice=rate]", "0")


def ask_again(page: Page, part: str) -> int:
    """The status of one refresh."""
    with page.expect_response(lambda response: part in response.url) as answer:
        page.evaluate(ASK_AGAIN)
    return answer.value.status


def test_a_job_is_enqueued_found_opened_and_cancelled(site: Site, window: Watched):
    page = window.signed_in()
    page.click("main a:has-text('Enqueue')")
    page.select_option("#id_action", "sample-agent")
    page.fill("#id_p-paths", "notes.md")
    page.fill("#id_p-text", "by hand")
    expect(page.locator("#preview .tag")).to_have_text("new")
    key = page.inner_text(".bigkey")[:12]
    page.click("button[value=enqueue]")
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    number = re.search(r"/jobs/(\d+)/", page.url)[1]
    expect(page.locator("#identity")).to_contain_text(key)

    page.click("nav[aria-label=Main] a:has-text('Jobs')")
    expect(page.locator(f"#job-{number}")).to_contain_text("queued")
    page.click(f"#open-{number}")
    page.fill("#cancel [name=reason]", "only a try")
    page.click("#cancel button")
    expect(page.locator("#live .st.big")).to_have_text("cancelled")
    expect(page.locator("#timeline")).to_contain_text("only a try")
    assert site.state(int(number)) == "cancelled"


def test_the_preview_says_that_an_input_is_there_already_and_so_does_enqueue(site: Site, window: Watched):
    number = site.job("twice")
    page = window.signed_in()
    page.goto(f"{site.base}/jobs/new/?action=sample-agent")
    page.fill("#id_p-paths", "notes.md")
    page.fill("#id_p-text", "twice")
    expect(page.locator("#preview .note")).to_contain_text(f"J-{number} has this key.")
    page.click("button[value=enqueue]")
    expect(page.locator("h1")).to_have_text("Already there")


def test_what_was_typed_survives_a_look_at_another_action(site: Site, window: Watched):
    page = window.signed_in()
    page.goto(f"{site.base}/jobs/new/?action=sample-agent")
    page.fill("#id_p-text", "half typed")
    page.select_option("#id_action", "run-command")
    expect(page.locator("#id_p-command")).to_be_visible()
    page.select_option("#id_action", "sample-agent")
    expect(page.locator("#id_p-text")).to_have_value("half typed")


def test_a_refresh_shows_the_new_state_and_keeps_tick_focus_and_typed_text(site: Site, window: Watched):
    moving, ticked = site.job("moves"), site.job("ticked")
    page = window.signed_in()
    pause_refresh(page)
    page.check(f"#pick-{ticked}")
    page.check(f"#pick-{moving}")
    page.fill(".picked [name=reason]", "half typed")
    assert ask_again(page, "shown=") == 204

    site.claim(moving)
    new = site.job("arrives")
    page.evaluate("window.stillHere = true")
    assert ask_again(page, "shown=") == 200
    expect(page.locator(f"#job-{moving}")).to_contain_text("running")
    expect(page.locator("#rows tr").first).to_have_id(f"job-{new}")
    expect(page.locator(f"#pick-{ticked}")).to_be_checked()
    expect(page.locator(f"#pick-{moving}")).to_be_checked()
    expect(page.locator("[data-picked]")).to_have_text("2")
    assert page.input_value(".picked [name=reason]") == "half typed"
    assert page.evaluate("document.activeElement.name") == "reason"
    assert page.evaluate("window.stillHere")
    assert ask_again(page, "shown=") == 204


def test_a_jobs_page_follows_it_and_keeps_open_details_and_typed_text(site: Site, window: Watched):
    number = site.job("followed")
    page = window.signed_in()
    page.goto(f"{site.base}/jobs/{number}/")
    pause_refresh(page)
    page.click("#event-1 summary")
    page.fill("#cancel [name=reason]", "half typed")
    site.claim(number)
    assert ask_again(page, "shown=") == 200
    expect(page.locator("#live .st.big")).to_have_text("running")
    assert page.evaluate("document.querySelector('#event-1').open")
    assert page.input_value("#cancel [name=reason]") == "half typed"
    assert ask_again(page, "shown=") == 204


def test_text_from_outside_acts_on_no_page(site: Site, window: Watched):
    number = site.job(HOSTILE)
    site.claim(number)
    site.run(
        f"""
        from django.utils import timezone
        from jobs.core.states import Event
        from jobs.services import transitions
        held = transitions.load({number})
        change = transitions.Change(attempt={{"error_tail": {HOSTILE!r}}})
        transitions.transition(
            held, Event.HOLD, actor="worker:w", at=timezone.now(), reason={HOSTILE[:60]!r}, change=change
        )
        """
    )
    page = window.signed_in()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site.base}/jobs/{number}/")
    expect(page.locator("#tail-1")).to_contain_text("stolen")
    page.evaluate("htmx.process(document.body)")
    page.wait_for_load_state("networkidle")
    assert not [url for url in asked if "stolen" in url or "evil" in url]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_scrolls_sideways(site: Site, window: Watched, theme: str, width: int):
    number = site.job("a-very-long-word-" * 20)
    page = window.signed_in()
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 800})
    for address in ("/jobs/", "/jobs/?state=paused", f"/jobs/{number}/", f"/jobs/{number}/diff/", "/jobs/new/"):
        page.goto(f"{site.base}{address}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address


def test_everything_works_without_javascript(site: Site, plain: Watched):
    page = plain.signed_in()
    page.click("main a:has-text('Enqueue')")
    page.select_option("#id_action", "sample-agent")
    page.click("button[value=fields]")
    page.fill("#id_p-paths", "notes.md")
    page.fill("#id_p-text", "no script")
    page.click("button[value=preview]")
    expect(page.locator("#preview .tag")).to_have_text("new")
    page.click("button[value=enqueue]")
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    number = re.search(r"/jobs/(\d+)/", page.url)[1]
    page.click("nav[aria-label=Main] a:has-text('Jobs')")
    page.select_option("[name=repository]", "demo/docs-site")
    page.click("button:has-text('Filter')")
    page.check(f"#pick-{number}")
    page.fill(".picked [name=reason]", "no script")
    page.click("text=Cancel selected jobs")
    expect(page.locator(".notices")).to_contain_text("1 job is cancelled")
    expect(page.locator(f"#job-{number}")).to_contain_text("cancelled")
