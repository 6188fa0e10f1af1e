"""The longer conditions of the triggers: what a policy may not say, who may end a review (B2, H2)."""
# ruff: noqa: S608 - constants only

from jobs.core.cases import TWO_PEOPLE

OUTWARD_RETRY = "no policy repeats external side effects by itself"
# A policy document whose budget or whose rule would do that (B2); the schema refuses it first.
SQLITE_RETRIES_OUTSIDE = (
    "EXISTS (SELECT 1 FROM json_each(NEW.document, '$.budgets') AS budget"
    " WHERE json_extract(budget.value, '$.risk') = 'external_side_effect'"
    " AND json_extract(budget.value, '$.attempts') IS NOT 1)"
    " OR EXISTS (SELECT 1 FROM json_each(NEW.document, '$.rules') AS rule"
    " WHERE json_extract(rule.value, '$.action') IN ('retry', 'wait') AND EXISTS"
    " (SELECT 1 FROM json_each(rule.value, '$.risks') AS risk WHERE risk.value = 'external_side_effect'))"
)
POSTGRESQL_RETRIES_OUTSIDE = (
    "EXISTS (SELECT 1 FROM jsonb_array_elements(NEW.document::jsonb -> 'budgets') AS budget"
    " WHERE budget ->> 'risk' = 'external_side_effect' AND (budget ->> 'attempts') IS DISTINCT FROM '1')"
    " OR EXISTS (SELECT 1 FROM jsonb_array_elements(NEW.document::jsonb -> 'rules') AS rule"
    " WHERE rule ->> 'action' IN ('retry', 'wait') AND rule -> 'risks' @> '[\"external_side_effect\"]')"
)
# Who may decide rests on copies in the decision's own row: they must be true (H2).
FALSE_COPIES = (
    "NOT EXISTS (SELECT 1 FROM jobs_reviewcase c JOIN jobs_job j ON j.id = c.job_id WHERE c.id = NEW.case_id"
    " AND j.id = NEW.job_id AND j.requested_by = NEW.requested_by AND c.risk = NEW.risk)"
)
UNTRUE = "a decision names its own case, requester and risk"
# SQLite: a REPLACE would push out the decision that is unique by a condition.
OUSTS_DECISION = (
    "EXISTS (SELECT 1 FROM jobs_reviewdecision d WHERE d.case_id = NEW.case_id AND ((d.closing AND NEW.closing)"
    f" OR (d.actor = NEW.actor AND d.decision IN {TWO_PEOPLE} AND NEW.decision IN {TWO_PEOPLE})))"
)
# A case ends with the job's leaving review; where two people must decide, not before they did (H2).
ENDS_TOO_EARLY = (
    "OLD.closed_at IS NULL AND NEW.closed_at IS NOT NULL AND (EXISTS (SELECT 1 FROM jobs_job j WHERE j.id = NEW.job_id"
    " AND (j.state = 'review' OR (NEW.required_approvals > 1 AND j.state = 'queued' AND NOT EXISTS"
    " (SELECT 1 FROM jobs_reviewdecision d WHERE d.case_id = NEW.id AND d.closing))))"
    " OR EXISTS (SELECT 1 FROM jobs_reviewdecision d WHERE d.case_id = NEW.id AND d.closing"
    f" AND d.decision IN {TWO_PEOPLE}"
    " AND CASE WHEN d.break_glass THEN NOT EXISTS (SELECT 1 FROM jobs_followup f WHERE f.case_id = NEW.id)"
    " ELSE (SELECT count(DISTINCT o.actor) FROM jobs_reviewdecision o WHERE o.case_id = NEW.id"
    " AND o.decision = d.decision AND o.outcome = d.outcome AND o.job_version = d.job_version"
    " AND o.result_digest = d.result_digest) < NEW.required_approvals END))"
)
TOO_EARLY = "a risky case takes two people"
