"""A policy's own cases: what it must answer, and which of its rules no case proves (P3)."""

from dataclasses import dataclass

from jobs.core.adapters.cases import to_run
from jobs.core.adapters.runs import gather
from jobs.core.failures import Classification, classify, named
from jobs.core.policy import Policy
from jobs.policies.document import CasePart, PolicyDocument
from jobs.policies.loading import to_policy


@dataclass(frozen=True, slots=True)
class Answered:
    """A case and what the policy says of it."""

    case: CasePart
    answer: Classification

    @property
    def passes(self) -> bool:
        """Class and action are the expected ones, and the rule too where the case names one."""
        case, answer = self.case, self.answer
        return (answer.class_, answer.action) == (case.expected_class, case.expected_action) and (
            case.expected_rule in ("", answer.rule)
        )


def answers(document: PolicyDocument) -> list[Answered]:
    """Every case of the document under its own rules, in order."""
    policy = to_policy(document)
    return [Answered(case, _answer(case, policy)) for case in document.cases]


def unproven(document: PolicyDocument, parent: PolicyDocument | None) -> list[str]:
    """Ids of rules that the parent does not have and that decide none of the document's own cases."""
    known = {rule.id for rule in parent.rules} if parent else {rule.id for rule in document.rules}
    proven = {answered.answer.rule for answered in answers(document) if answered.passes}
    return [rule.id for rule in document.rules if rule.id not in known | proven]


def _answer(case: CasePart, policy: Policy) -> Classification:
    facts = gather(to_run(case.model_dump()))
    shown = classify(facts, policy)
    return named(case.code, facts, policy, shown) if case.code else shown
