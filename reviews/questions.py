"""What a review asks, in one sentence, and what it waits for; by the code that stopped the job (H1)."""

from collections.abc import Callable

from django.utils.translation import gettext as _

from jobs.models import Job, ReviewCase
from jobs.wording import reason_text


def question(case: ReviewCase, job: Job) -> str:
    """The one sentence that a person answers."""
    words = _QUESTIONS.get(case.reason)
    if case.allowed == ["resolve"]:
        words = _QUESTIONS["side_effect_unknown"]
    if words is None:
        return _("It stopped: %(why)s. How should it go on?") % {"why": reason_text(case.reason)}
    return words() % {"action": job.action}


def waits_for(case: ReviewCase, approvals: int) -> str:
    """What the case needs next."""
    if case.required_approvals > 1:
        return _("second person") if approvals else _("first of two people")
    if case.reason == "input_missing":
        return _("an input")
    return _("a decision")


_QUESTIONS: dict[str, Callable[[], str]] = {
    "confirm_effects": lambda: _("May this result be delivered, and then act outside?"),
    "autonomy_prepare": lambda: _("May this prepared change become a branch?"),
    "confirm": lambda: _("May %(action)s act outside with exactly this input?"),
    "side_effect_unknown": lambda: _("Did the act outside happen? Nobody knows yet."),
    "secret_found": lambda: _("Is this a secret? Something in the result looks like one."),
    "path_rule": lambda: _("May this change be accepted? It touches guarded paths."),
    "check_failed": lambda: _("A check of the result failed. What should change?"),
    "target_moved": lambda: _("The target branch moved from under this result. Deliver it all the same?"),
    "tests_failed": lambda: _("The tests failed. What should change?"),
    "tests_not_run": lambda: _("The tests could not run. What do they need?"),
    "input_missing": lambda: _("Something is missing for %(action)s. What is it?"),
    "unknown": lambda: _("No rule knows this failure. How should it go on?"),
    "attempts_used_up": lambda: _("All attempts are used up. One more, or the end?"),
    "crashed_twice": lambda: _("Its worker was lost twice in a row. Is it safe to go on?"),
    "deadline": lambda: _("Its deadline passed. Go on later, or end it?"),
    "seconds_used_up": lambda: _("Its time is used up. Grant more, or end it?"),
    "tokens_used_up": lambda: _("Its tokens are used up. Grant more, or end it?"),
    "cancel_requested": lambda: _("Somebody asked to cancel it. End it, or go on?"),
    "conflict": lambda: _("The target moved meanwhile. Run again on it, or end?"),
    "delivery_refused": lambda: _("The repository did not take the branch. What now?"),
}
