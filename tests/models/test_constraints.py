"""Every rule that a row carries refuses its violation, on SQLite and PostgreSQL (S2, L1, X1, K1).

The table is compared with the models: a new constraint or model without a case here fails.
"""

from datetime import timedelta

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from jobs import triggers

pytestmark = pytest.mark.django_db

MODELS = list(apps.get_app_config("jobs").get_models())
NOW = timezone.now()
LEASE = {"lease_owner": "w", "lease_expires_at": NOW}
SHARED = object()  # the same value as in another row

# Constraint → changes of a valid row, each of which it refuses; SHARED takes the other row's value.
VIOLATIONS = {
    "attempt_one_per_fence": [{"job_id": SHARED, "fence": SHARED, "ended_at": NOW, "outcome": "held"}],
    "attempt_one_open_per_job": [{"job_id": SHARED, "fence": 7}],
    "attempt_outcome_iff_ended": [{"outcome": "held"}, {"ended_at": NOW}],
    "attempt_outcome_known": [{"outcome": "vanished", "ended_at": NOW}],
    "attempt_isolation_known": [{"isolation": "hope"}],
    "attempt_worker_not_empty": [{"worker": ""}],
    "audit_one_per_stream_and_seq": [{"stream": SHARED, "seq": SHARED}],
    "audit_actor_not_empty": [{"actor": ""}],
    "audit_seq_from_one": [{"seq": 0}],
    "audit_hash_is_sha256": [{"hash": "short"}],
    "batch_name_not_empty": [{"name": ""}],
    "case_one_open_per_job": [{"job_id": SHARED}],
    "case_reason_not_empty": [{"reason": ""}],
    "case_risk_known": [{"risk": "none"}],
    "case_high_risk_takes_two": [
        {"risk": "high", "required_approvals": 1},
        {"risk": "medium", "required_approvals": 2},
        {"risk": "low", "required_approvals": 0},
    ],
    "case_claim_whole": [{"claimed_by": "user:li"}, {"claimed_until": NOW}],
    "checkpoint_one_per_stage_and_fence": [{"job_id": SHARED, "fence": SHARED, "stage": SHARED}],
    "checkpoint_stage_known": [{"stage": "dream"}],
    "decision_actor_not_empty": [{"actor": ""}],
    "decision_reason_not_empty": [{"reason": ""}],
    "decision_risk_known": [{"risk": "none"}],
    "decision_one_approval_per_person": [{"case_id": SHARED, "actor": SHARED, "closing": False, "risk": "high"}],
    "decision_one_closes_a_case": [{"case_id": SHARED, "actor": "user:other"}],
    "decision_not_on_own_risky_job": [{"risk": "high", "actor": "user:operator"}],
    "decision_open_only_as_first_of_two": [
        {"closing": False},
        {"closing": False, "risk": "high", "decision": "reject"},
        {"closing": False, "risk": "high", "break_glass": True},
    ],
    "evidence_one_per_check_and_fence": [{"job_id": SHARED, "fence": SHARED, "check_name": SHARED}],
    "evidence_verdict_known": [{"verdict": "maybe"}],
    "failure_one_per_attempt": [{"job_id": SHARED, "fence": SHARED}],
    "failure_class_known": [{"failure_class": "bad luck"}],
    "failure_action_known": [{"action": "hope"}],
    "failure_confidence_known": [{"confidence": "sure"}],
    "failure_facts_digest_is_sha256": [{"facts_digest": "short"}],
    "failure_outward_never_repeated": [
        {"risk": "external_side_effect", "action": "retry_with_backoff"},
        {"risk": "external_side_effect", "action": "wait"},
    ],
    "follow_up_has_person_and_reason": [{"reason": ""}],
    "follow_up_closed_whole": [{"closed_by": "user:li"}, {"closed_at": NOW}, {"note": "fine"}],
    "follow_up_by_another_person": [{"closed_by": "user:olga", "closed_at": NOW, "note": "fine"}],
    "job_state_known": [{"state": "asleep"}],
    "job_stage_known": [{"next_stage": "dream"}],
    "job_risk_known": [{"risk": "none at all"}],
    "job_key_is_sha256": [{"idempotency_key": "short"}],
    "job_lease_iff_active": [
        {"lease_owner": "w"},
        {"lease_expires_at": NOW},
        {"state": "running"},
        {"state": "verifying", "lease_owner": "w"},
        {"state": "running", "lease_expires_at": NOW},
    ],
    "job_finished_iff_final": [{"finished_at": NOW}, {"state": "cancelled"}],
    "job_pause_reason_iff_paused": [{"pause_reason": "requested"}, {"state": "paused"}],
    "job_accepted_has_digest": [
        {"state": "accepted", "finished_at": NOW},
        {"state": "accepted", "finished_at": NOW, "result_digest": "short"},
    ],
    "job_failed_has_stop_reason": [{"state": "failed_terminal", "finished_at": NOW}],
    "job_charged_within_budget": [{"charged": 9}, {"max_attempts": 0, "charged": 1}],
    "job_seconds_not_negative": [{"seconds_spent": -0.5}],
    "job_requester_not_empty": [{"requested_by": ""}],
    "job_flags_only_while_active": [{"cancel_requested": True}, {"pause_requested": "requested"}],
    "job_reservation_whole": [
        {"reserved_by": "cluster"},
        {"reserved_until": NOW},
        {"reserved_by": "cluster", "reserved_until": NOW, "state": "review"},
    ],
    "policy_number_from_one": [{"number": 0}],
    "policy_digest_is_sha256": [{"digest": "short"}],
    "policy_author_not_empty": [{"author": ""}],
    "policy_activation_actor_not_empty": [{"actor": ""}],
    "repository_name_unique_whatever_case": [{"name": SHARED}],
    "repository_name_not_empty": [{"name": ""}],
    "repository_autonomy_known": [{"autonomy": "total"}],
    "repository_concurrency_at_least_one": [{"concurrency": 0}],
    "sample_kind_known": [{"kind": "odd"}],
    "sample_judgement_known": [{"judgement": "odd", "judged_by": "user:ana", "judged_at": NOW}],
    "sample_judged_whole": [
        {"judgement": "rightly_stopped"},
        {"judged_by": "user:ana"},
        {"judged_at": NOW},
        {"judgement": "rightly_stopped", "judged_by": "user:ana"},
    ],
    "side_effect_one_per_key_and_try": [{"key": SHARED, "number": SHARED, "outcome": "absent", "settled_at": NOW}],
    "side_effect_one_not_absent_per_key": [{"key": SHARED, "number": 2}],
    "side_effect_outcome_known": [{"outcome": "perhaps", "settled_at": NOW}],
    "side_effect_settled_iff_outcome": [{"outcome": "unknown"}, {"settled_at": NOW}],
    "side_effect_try_from_one": [{"number": 0}],
    "notice_once": [{"case_id": SHARED, "kind": SHARED, "person": SHARED}],
    "notice_kind_known": [{"kind": "gossip"}],
    "viewed_once": [{"case_id": SHARED, "actor": SHARED, "path": SHARED}],
    "workflow_version_unique": [{"name": SHARED, "version": SHARED}],
    "workflow_digest_is_sha256": [{"digest": "short"}],
}
CONSTRAINTS = {constraint.name: (model, constraint) for model in MODELS for constraint in model._meta.constraints}


def test_every_constraint_has_a_violating_case():
    assert set(VIOLATIONS) == set(CONSTRAINTS)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_row_that_breaks_the_constraint_is_refused(row, name):
    model, constraint = CONSTRAINTS[name]
    for changes in VIOLATIONS[name]:
        first, other = row(model), row(model)
        values = {key: getattr(other, key) if value is SHARED else value for key, value in changes.items()}
        if name == "repository_name_unique_whatever_case":
            values["name"] = values["name"].upper()
        with triggers.lifted(connection), pytest.raises(IntegrityError) as refusal, transaction.atomic():
            model.objects.filter(pk=first.pk).update(**values)
        assert said(constraint, refusal.value), (changes, refusal.value)


def said(constraint: models.BaseConstraint, error: IntegrityError) -> bool:
    """The database names this constraint; SQLite names the columns of a plain unique one."""
    if constraint.name in str(error):
        return True
    fields = getattr(constraint, "fields", ())
    return connection.vendor == "sqlite" and bool(fields) and all(str(name) in str(error) for name in fields)


@pytest.mark.parametrize(
    ("model", "name"),
    [(model, field.name) for model in MODELS for field in model._meta.fields if field.unique and not field.primary_key],
)
def test_a_unique_column_is_unique(row, model, name):
    first, other = row(model), row(model)
    with triggers.lifted(connection), pytest.raises(IntegrityError), transaction.atomic():
        model.objects.filter(pk=first.pk).update(**{name: getattr(other, name)})


@pytest.mark.parametrize(
    ("model", "name"), [(model, field.name) for model in MODELS for field in model._meta.fields if field.choices]
)
def test_a_choice_field_takes_only_its_choices(row, model, name):
    made = row(model)
    # An outcome needs its time beside it, or another constraint refuses first.
    ends = [field.name for field in model._meta.fields if field.name in ("ended_at", "settled_at", "judged_at")]
    more = dict.fromkeys(ends if name in ("outcome", "judgement") else [], NOW)
    if name == "judgement":
        more["judged_by"] = "user:ana"
    with triggers.lifted(connection), pytest.raises(IntegrityError, match="known"), transaction.atomic():
        model.objects.filter(pk=made.pk).update(**{name: "other"}, **more)


def test_a_valid_change_of_each_kind_of_row_is_taken(row):
    """The cases above fail for what they say, not because no update works here."""
    for model in MODELS:
        made = row(model)
        with triggers.lifted(connection):
            assert model.objects.filter(pk=made.pk).update(id=made.pk) == 1


def test_flags_are_allowed_while_a_worker_holds_the_job(row):
    job = row(apps.get_model("jobs", "Job"))
    with triggers.lifted(connection):
        changed = type(job).objects.filter(pk=job.pk)
        assert changed.update(state="running", **LEASE, cancel_requested=True, pause_requested="requested") == 1


def test_a_reservation_is_whole_while_the_job_is_ready(row):
    job = row(apps.get_model("jobs", "Job"))
    until = NOW + timedelta(seconds=20)
    assert type(job).objects.filter(pk=job.pk).update(reserved_by="cluster", reserved_until=until) == 1
