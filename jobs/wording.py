"""The words for codes: blockers, reasons, decisions and stages, in one place (design section 7)."""

from collections.abc import Callable

from django.utils.translation import gettext as _


def reason_text(code: str) -> str:
    """A stop or pause reason in words; a code without words of its own is spelled out, "" for none."""
    words = _REASONS.get(code)
    return words() if words else code.replace("_", " ")


def stage_text(stage: str) -> str:
    """A stage's name as people read it; `inspect` is the review stage."""
    return _STAGES[stage]()


def decision_text(decision: str) -> str:
    """A decision on a review case as people read it."""
    words = _DECISIONS.get(decision)
    return words() if words else decision


Words = dict[str, Callable[[], str]]  # functions, so that each reader's language counts

BLOCKERS: Words = {
    "finished": lambda: _("It is finished; nothing runs any more."),
    "state_running": lambda: _("It runs already: %(worker)s holds it."),
    "state_verifying": lambda: _("Its result is being checked already: %(worker)s holds it."),
    "state_review": lambda: _("A person must decide first: %(reason)s."),
    "state_paused": lambda: _("It is paused: %(reason)s."),
    "open_intent": lambda: _("Nobody knows yet what came of an act outside; repeating it could do harm."),
    "cancel_requested": lambda: _("Somebody asked to cancel it."),
    "pause_requested": lambda: _("Somebody asked to pause it."),
    "deadline_passed": lambda: _("Its deadline has passed."),
    "seconds_used_up": lambda: _("Its time is used up: %(seconds)d of %(max_seconds)d seconds."),
    "attempts_used_up": lambda: _("Its attempts are used up: %(charged)d of %(max)d."),
    "batch_paused": lambda: _("Its batch is paused."),
    "repository_full": lambda: _("Its repository runs as many jobs at once as it may."),
    "unconfirmed": lambda: _("It acts outside, and nobody has confirmed exactly this input under the active policy."),
    "not_due": lambda: _("It waits until its next try is due."),
}
_REASONS: Words = {
    "autonomy_prepare": lambda: _("its repository lets jobs prepare changes only: a person approves the branch"),
    "bad_input": lambda: _("what it was given can never work"),
    "check_failed": lambda: _("a check of the result failed"),
    "confirm_effects": lambda: _("it will act outside, which a person confirms first"),
    "effect_needs_decision": lambda: _("an act that did not happen is tried again only on a person's word"),
    "effect_not_started": lambda: _("an act outside could not be started"),
    "ledger_behind_anchor": lambda: _("the database was restored and may lack acts that happened"),
    "lookup_failed": lambda: _("nobody could look up whether an act happened before"),
    "path_rule": lambda: _("it touches files that a person always looks at"),
    "secret_found": lambda: _("the result holds something that looks like a secret"),
    "tests_not_run": lambda: _("the checks could not be run"),
    "workspace_error": lambda: _("the repository or its copy could not be used"),
    "attempts_used_up": lambda: _("all attempts are used up"),
    "batch_paused": lambda: _("its batch is paused"),
    "billing_unknown": lambda: _("only the account's owner can say whether it is paid"),
    "breaker": lambda: _("its cause stopped several jobs in a row"),
    "cancel_requested": lambda: _("somebody asked to cancel it"),
    "confirm": lambda: _("it acts outside and needs a confirmation first"),
    "crashed_twice": lambda: _("its worker was lost twice in a row"),
    "deadline": lambda: _("its deadline passed"),
    "delivery_refused": lambda: _("the repository did not take the branch"),
    "disk_full": lambda: _("the disk is full"),
    "drain": lambda: _("its worker was shut down in order"),
    "lease_expired": lambda: _("its worker was lost: the lease expired"),
    "input_missing": lambda: _("something it needs is not there"),
    "no_terminal_event": lambda: _("the agent broke off without saying that it was done"),
    "processes_alive": lambda: _("processes of the attempt could not be ended"),
    "requested": lambda: _("somebody asked for it"),
    "resumed_earlier": lambda: _("it must start at an earlier stage"),
    "seconds_used_up": lambda: _("its time is used up"),
    "side_effect_unknown": lambda: _("nobody knows what came of an act outside"),
    "target_moved": lambda: _("its branch moved on over the same files, or too far"),
    "tests_failed": lambda: _("the tests failed"),
    "timed_out": lambda: _("the attempt took longer than it may"),
    "tokens_used_up": lambda: _("its context tokens are used up"),
    "tools": lambda: _("it used a tool that it is not allowed to use"),
    "unknown": lambda: _("no rule knows this failure"),
    "upstream_unavailable": lambda: _("the service it needs is down"),
    "usage_limit": lambda: _("the plan's allowance is used up"),
}
_DECISIONS: Words = {
    "confirm": lambda: _("confirm"),
    "approve": lambda: _("approve"),
    "resume": lambda: _("go on from here"),
    "rerun": lambda: _("run from the start"),
    "supply": lambda: _("supply what is missing"),
    "request_changes": lambda: _("request changes"),
    "resolve": lambda: _("say what came of the act"),
    "reject": lambda: _("reject"),
    "cancel": lambda: _("cancel"),
}
_STAGES: Words = {
    "read": lambda: _("read"),
    "plan": lambda: _("plan"),
    "modify": lambda: _("modify"),
    "test": lambda: _("test"),
    "inspect": lambda: _("review"),
    "deliver": lambda: _("deliver"),
}
