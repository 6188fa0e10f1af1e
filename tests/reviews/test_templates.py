"""No template may carry what the content policy forbids or what would let agent text act (U1, trust: CSP with htmx)."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.template.loader import get_template

FOLDER = Path(settings.BASE_DIR) / "templates"
TEMPLATES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.html"))
FORBIDDEN = {
    "an inline style": r"\sstyle\s*=|<style",
    "an inline script": r"<script(?![^>]*\ssrc=)",
    "an event attribute": r"\son[a-z]+\s*=|hx-on",
    "a trigger filter": r"hx-trigger\s*=\s*[\"'][^\"']*\[",
    "a value computed by script": r"\bjs:|javascript:",
    "inherited request headers": r"hx-headers",
    "unescaped text": r"\|\s*safe\b|autoescape\s+off",
    "another host": r"(?:src|href|action|hx-(?:get|post))\s*=\s*[\"'](?:https?:)?//",
}


def faults(text: str) -> list[str]:
    return [name for name, pattern in FORBIDDEN.items() if re.search(pattern, text, re.IGNORECASE)]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_compiles_and_holds_nothing_the_policy_forbids(name):
    get_template(name)
    assert faults((FOLDER / name).read_text()) == []


@pytest.mark.parametrize(
    "markup",
    [
        '<p style="color: red">',
        "<style>p {}</style>",
        "<script>go()</script>",
        '<a onclick="go()">',
        '<a hx-on:click="go()">',
        '<a hx-trigger="click[ctrlKey]">',
        """<a hx-vals='js:{"a": 1}'>""",
        '<body hx-headers="{}">',
        "{{ text|safe }}",
        '<img src="//cdn.example/x.png">',
    ],
)
def test_the_lint_finds_each_kind_of_fault(markup):
    assert len(faults(markup)) == 1


def test_htmx_is_configured_to_evaluate_nothing_and_keep_no_pages():
    base = (FOLDER / "base.html").read_text()
    for setting in (
        '"allowEval": false',
        '"includeIndicatorStyles": false',
        '"allowScriptTags": false',
        '"selfRequestsOnly": true',
        '"historyCacheSize": 0',
    ):
        assert setting in base


def test_every_shape_that_python_or_a_template_names_is_in_the_sprite():
    drawn = set(re.findall(r'<symbol id="([^"]+)"', (FOLDER / "components/_sprite.html").read_text()))
    sources = [FOLDER / name for name in TEMPLATES] + sorted((Path(settings.BASE_DIR) / "reviews").rglob("*.py"))
    named = {shape for path in sources for shape in re.findall(r'"([isc]-[a-z_]+)"', path.read_text())}
    named -= {name for name in named if name.startswith("c-") and name not in drawn}  # paint classes of charts
    assert "s-queued" in named
    assert named <= drawn
