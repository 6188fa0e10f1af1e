"""What a person wants to be told about reviews, and the keys of the console (H3)."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from jobs.services import notices


class Preferences(forms.Form):
    """E-mail about which reviews."""

    mail_mine = forms.BooleanField(
        label=gettext_lazy("Reviews that are given to me or escalated to me"), required=False
    )
    mail_second_person = forms.BooleanField(label=gettext_lazy("Reviews that wait for a second person"), required=False)
    mail_high_risk = forms.BooleanField(label=gettext_lazy("Every new review of high risk"), required=False)


@require_http_methods(["GET", "HEAD", "POST"])
def show(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        form = Preferences(request.POST)
        form.is_valid()
        notices.prefer(request.user, **form.cleaned_data)
        messages.success(request, _("Stored."))
        return redirect("preferences")
    form = Preferences(initial=notices.preferences(request.user))
    return render(request, "preferences.html", {"form": form, "address": request.user.email})  # type: ignore[union-attr]
