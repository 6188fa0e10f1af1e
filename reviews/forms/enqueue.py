"""The enqueue form: five fields that make the key, some that only plan. Rules are the service's (E1)."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.errors import AgentQError, EnqueueRefused
from jobs.models import Repository
from jobs.services.requests import MAX_PRIORITY, Request
from jobs.workflows.definition import WorkflowDefinition
from jobs.workspaces.source import inspect_source
from reviews.forms import payload as payloads

MOST_BRANCHES = 500


class EnqueueForm(forms.Form):
    """`definition` decides which payload fields there are, `repository` which branches and commands."""

    repo = forms.CharField(label=gettext_lazy("Repository"))
    branch = forms.CharField(label=gettext_lazy("Branch"))
    action = forms.CharField(label=gettext_lazy("Action"))
    workflow_version = forms.CharField(label=gettext_lazy("Workflow version"), required=False)
    date = forms.DateField(
        label=gettext_lazy("Planned day"),
        required=False,
        help_text=gettext_lazy("Left out: today, UTC."),
        widget=forms.DateInput({"type": "date"}),
    )
    priority = forms.IntegerField(
        label=gettext_lazy("Priority"),
        initial=0,
        required=False,
        help_text=gettext_lazy("Higher runs first."),
        widget=forms.NumberInput({"min": -MAX_PRIORITY, "max": MAX_PRIORITY}),
    )
    deadline = forms.DateTimeField(
        label=gettext_lazy("Deadline"),
        required=False,
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    batch = forms.CharField(
        label=gettext_lazy("Batch"),
        required=False,
        help_text=gettext_lazy("Jobs of one batch are watched and paused together."),
    )
    takeover_person = forms.CharField(
        label=gettext_lazy("Takeover person"), required=False, help_text=gettext_lazy("Who decides when it stops.")
    )

    def __init__(
        self,
        *args: Any,
        definitions: Sequence[WorkflowDefinition],
        definition: WorkflowDefinition | None,
        repositories: Sequence[Repository],
        repository: Repository | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.definition, self.repository = definition, repository
        actions = sorted({each.name: each.title for each in definitions}.items())
        versions = [each.version for each in definitions if definition and each.name == definition.name]
        _select(self, "repo", [(each.name, each.name) for each in repositories])
        _select(self, "action", [(name, f"{name}: {title}") for name, title in actions])
        _select(self, "workflow_version", [("", _("the newest")), *((version, version) for version in versions)])
        _select(self, "takeover_person", [("", _("nobody named")), *_people()])
        self.fields["deadline"].help_text = _("Time zone: %(zone)s.") % {"zone": timezone.get_current_timezone_name()}
        self.trouble = self._branches()
        if definition is not None:
            commands = repository.commands if repository else ()
            self.fields |= payloads.form_fields(definition.fields, commands)
        if definition is None or "date" not in definition.identity:
            del self.fields["date"]

    def request(self) -> Request:
        """What was asked for, of a form that is valid."""
        typed = self.cleaned_data
        day = typed.get("date")
        return Request(
            repo=typed["repo"],
            branch=typed["branch"],
            action=typed["action"],
            payload=payloads.payload(self.definition.fields if self.definition else (), typed),
            workflow_version=typed["workflow_version"] or None,
            priority=typed["priority"] or 0,
            batch=typed["batch"],
            deadline=typed["deadline"],
            takeover_person=typed["takeover_person"],
            date=day.isoformat() if day else "",
        )

    def refuse(self, refusal: EnqueueRefused) -> None:
        """The refusal stands at its field, or above the form when it has none here."""
        for name in (refusal.field, payloads.PREFIX + refusal.field):
            if refusal.field and name in self.fields:
                self.add_error(name, str(refusal))
                return
        self.add_error(None, str(refusal))

    @property
    def payload_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name.startswith(payloads.PREFIX)]

    def _branches(self) -> str:
        """Offers the repository's branches; returns why it cannot, in words."""
        if self.repository is None:
            return ""
        try:
            branches = inspect_source(self.repository.location).branches[:MOST_BRANCHES]
        except AgentQError as error:
            return str(error)
        typed = self.data.get("branch", "") if self.is_bound else ""
        names = [*branches, *([typed] if typed and typed not in branches else [])]
        _select(self, "branch", [(name, name) for name in names])
        self.fields["branch"].initial = self.repository.default_branch
        return ""


def _select(form: forms.Form, name: str, choices: Sequence[tuple[str, str]]) -> None:
    """Offers values; one that is not offered (any more) is refused by the service, in its own words."""
    form.fields[name].widget = forms.Select(choices=choices)
    form.fields[name].widget.is_required = form.fields[name].required


def _people() -> list[tuple[str, str]]:
    users = get_user_model()._default_manager.filter(is_active=True).order_by("username")
    return [(user.get_username(), user.get_full_name() or user.get_username()) for user in users[:500]]
