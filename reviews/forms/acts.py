"""What a person may ask of jobs that exist: cancel, run again. Each needs a reason, which goes to the audit."""

from django import forms
from django.utils.translation import gettext_lazy as _


class Reasoned(forms.Form):
    """One sentence that others read later."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=500,
        error_messages={"required": _("Say why: it is what others read later.")},
    )


class CancelMany(Reasoned):
    """Jobs picked in a list."""

    job = forms.TypedMultipleChoiceField(
        coerce=int, error_messages={"required": _("Pick at least one job.")}, label=_("Jobs")
    )

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        # Any number may be picked; whether there is such a job is the service's to say.
        self.fields["job"].valid_value = lambda value: value.isascii() and value.isdigit() and len(value) < 19  # type: ignore[attr-defined]
