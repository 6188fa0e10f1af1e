"""What a reviewer types: a decision with its reason, a hand-over, a snooze (H1, H2)."""

import json
from datetime import timedelta
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from jobs.core.stages import Stage
from jobs.core.states import Event
from jobs.services.people import Role, at_least
from jobs.services.reviews import Decision
from jobs.wording import stage_text

SHORTEST = 10
SPANS = {"1": _("1 hour"), "4": _("4 hours"), "24": _("1 day"), "72": _("3 days"), "168": _("7 days")}


class DecisionForm(forms.Form):
    """A decision bound to what was read: version, digest and policy travel in hidden fields."""

    choice = forms.CharField(error_messages={"required": _("Choose what should happen.")})
    reason = forms.CharField(
        label=_("Reason"),
        min_length=SHORTEST,
        max_length=500,
        widget=forms.Textarea({"rows": 3, "class": "inp"}),
        help_text=_("10 characters or more; it goes into the audit."),
        error_messages={"required": _("Say why: it is what others read later.")},
    )
    note = forms.CharField(
        label=_("Note for the next attempt"),
        required=False,
        widget=forms.Textarea({"rows": 3, "class": "inp"}),
        help_text=_("What should change or what was missing. Never a secret."),
    )
    stage = forms.ChoiceField(label=_("Stage that reads the note"), required=False)
    payload = forms.CharField(
        label=_("Another input (JSON)"),
        required=False,
        widget=forms.Textarea({"rows": 4, "class": "inp mono", "spellcheck": "false"}),
        help_text=_("Changed: a new job is made and this one ends as superseded. Left empty: the key stays."),
    )
    reference = forms.CharField(
        label=_("Where you saw it"),
        required=False,
        max_length=500,
        help_text=_("An id or a page title, never a token."),
    )
    looked = forms.BooleanField(label=_("I looked at the other end myself"), required=False)
    attempts = forms.IntegerField(label=_("Grant attempts"), required=False, min_value=0, max_value=5)
    minutes = forms.IntegerField(label=_("Grant minutes"), required=False, min_value=0, max_value=24 * 60)
    alone = forms.BooleanField(label=_("Decide alone, as an owner"), required=False)
    job_version = forms.IntegerField(widget=forms.HiddenInput)
    result_digest = forms.CharField(widget=forms.HiddenInput, required=False)
    policy = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, stages: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["stage"].choices = [("", _("the usual one")), *((each, stage_text(each)) for each in stages)]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        typed = super().clean() or {}
        if typed.get("choice", "").startswith("resolve:") and typed["choice"] != "resolve:unknown":
            if not typed.get("reference"):
                self.add_error("reference", _("Name where you saw it."))
            if not typed.get("looked"):
                self.add_error("looked", _("Look first: this is what the ledger will say."))
        if typed.get("choice") == "request_changes" and not typed.get("note", "").strip():
            self.add_error("note", _("Say what should change: the next attempt reads it."))
        if typed.get("payload"):
            typed["payload"] = self._object(typed["payload"])
        elif typed.get("choice") == "supply" and not typed.get("note", "").strip():
            self.add_error("note", _("Say what was missing, or give another input."))
        return typed

    def decision(self) -> Decision:
        """What was decided, of a form that is valid."""
        typed = self.cleaned_data
        event, _colon, outcome = typed["choice"].partition(":")
        noted = event in (Event.REQUEST_CHANGES, Event.SUPPLY)
        return Decision(
            event=Event(event),
            reason=typed["reason"],
            job_version=typed["job_version"],
            grants=self._grants(),
            note=typed["note"] if noted else "",
            stage=Stage(typed["stage"]) if noted and typed["stage"] else None,
            outcome={"happened": "confirmed"}.get(outcome, outcome),
            reference=typed["reference"],
            result_digest=typed["result_digest"],
            policy=typed["policy"],
            break_glass=typed["alone"],
        )

    def _grants(self) -> dict[str, int] | None:
        given = {"attempts": self.cleaned_data["attempts"], "seconds": 60 * (self.cleaned_data["minutes"] or 0)}
        return {name: amount for name, amount in given.items() if amount} or None

    def _object(self, text: str) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except ValueError as error:
            self.add_error("payload", _("This is no JSON: %(why)s.") % {"why": error})
            return {}
        if not isinstance(found, dict):
            self.add_error("payload", _("The input is a JSON object."))
            return {}
        return found


class HandOver(forms.Form):
    """Another reviewer gets the case."""

    to = forms.ChoiceField(label=_("Hand over to"))
    reason = forms.CharField(label=_("Why"), max_length=500, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        people = [
            (user.get_username(), user.get_full_name() or user.get_username()) for user in at_least(Role.REVIEWER)
        ]
        self.fields["to"].choices = [("", _("choose a person")), *people]  # type: ignore[attr-defined]


class Snooze(forms.Form):
    """The case leaves the queue for some time."""

    hours = forms.ChoiceField(label=_("Snooze for"), choices=list(SPANS.items()))
    reason = forms.CharField(label=_("Why"), max_length=500, required=False)

    def until(self) -> Any:
        return timezone.now() + timedelta(hours=int(self.cleaned_data["hours"]))
