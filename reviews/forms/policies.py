"""What owners and judges type: a draft's text, why a version is to be active, what a sampled failure was."""

from django import forms
from django.utils.translation import gettext_lazy as _

from jobs.models.failure import Judgement
from reviews.forms.acts import Reasoned

MAX_SOURCE = 512 * 1024


class Draft(forms.Form):
    """A policy document in TOML."""

    note = forms.CharField(label=_("What changed, and why"), max_length=500)
    source = forms.CharField(
        label=_("Policy document (TOML)"),
        max_length=MAX_SOURCE,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 28, "class": "inp mono", "spellcheck": "false", "wrap": "off"}),
    )


class Activation(Reasoned):
    """Why this version is to decide from now on."""


class Judged(forms.Form):
    """What a sampled failure was."""

    judgement = forms.ChoiceField(
        label=_("Judgement"),
        choices=[choice for choice in Judgement.choices if choice[0]],
        error_messages={"required": _("Choose one.")},
    )
    note = forms.CharField(label=_("Note"), max_length=500, required=False)
