"""What a workflow file may say (K4): the schema of one versioned document."""

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from jobs.core import side_effects
from jobs.core.keys import canonical_json, sha256_hex
from jobs.errors import BadStageInputs
from jobs.executors.agents import TOOLS, read_task
from jobs.payloads import PayloadField

AGENTS = frozenset({"codex", "claude"})
SHORT_SECONDS = 10  # jobs that one worker may run in a row on one message; see the broker
MONEY = re.compile(
    "pay|paid|payments?|paying|buy|purchases?|checkout|charge|renew|renewals?|subscribe|subscriptions?|topup|recharge"
    "|donate|donations?|transfer|invoices?|billing|orders?|refunds?|credits?"
)
PLACEHOLDER = re.compile(r"\{\{\s*([a-z][a-z0-9_]*)\s*\}\}")
# A path, file:///path, https://host/path, ssh://user@host/path or user@host:path; a password stands nowhere (Z5).
REMOTE = re.compile(
    r"/\S*|file:///\S*|https://[A-Za-z0-9][^/@\s]*/\S+|ssh://([A-Za-z0-9][^/@:\s]*@)?[A-Za-z0-9][^/@\s]*/\S+"
    r"|[A-Za-z0-9][^/@:\s]*@[A-Za-z0-9][^/@:\s]*:\S+"
)

Stage = Literal["read", "plan", "modify", "test", "inspect", "deliver"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Risk = Literal["read_only", "writes_files", "external_side_effect"]
Expects = Literal["diff", "diff_or_none", "report"]


def _clean_argv(argv: list[str]) -> list[str]:
    if not argv or not argv[0] or any("\0" in word for word in argv):
        raise ValueError("a command is a list of texts, the program first, without NUL characters")
    return argv


def _clean_glob(glob: str) -> str:
    parts = glob.split("/")
    if "\0" in glob or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{glob!r} is no path pattern inside a repository, such as src/** or docs/*.md")
    return glob


def _no_money(kind: str) -> str:
    words = kind.split("-")
    pairs = [first + second for first, second in pairwise(words)]  # top-up
    if any(MONEY.fullmatch(word) for word in (*words, *pairs)):
        raise ValueError("payments, orders and renewals are never performed by AgentQ")
    return kind


Slug = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]
Argv = Annotated[list[str], AfterValidator(_clean_argv)]
Glob = Annotated[str, AfterValidator(_clean_glob)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Check(_Part):
    """A command that must end with 0 on the result, in a clean checkout. `seconds` limits its wall clock."""

    name: Slug
    argv: Argv
    kind: Literal["tests", "static"]
    seconds: int = Field(default=600, ge=1, le=86_400)


class Effect(_Part):
    """An act that leaves the machine, run by the worker in deliver and through the ledger (X1).

    `lookup` is a read-only command that finds an existing result: exit 0 and its first line names it, exit 1 means
    that there is none, anything else that it cannot tell. `target` is what is acted on; it is part of the key (K3).
    Words may hold {{ branch }}, {{ commit }}, {{ key }}, {{ job }} and {{ repo }}. The kind `push-branch` is built in:
    its argv is the remote. `credentials` are names that AGENTQ_CREDENTIALS has references for, for the environment of
    this act and its lookup alone (Z5). Kinds about money are refused (X3).
    """

    kind: Annotated[Slug, Field(max_length=40), AfterValidator(_no_money)]
    argv: Argv
    target: str = Field(default="", max_length=200)
    lookup: Argv | None = None
    seconds: int = Field(default=60, ge=1, le=3600)
    credentials: list[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=64)]] = []

    @property
    def template(self) -> side_effects.Template:
        """The same in the ledger's words."""
        target = self.target or (self.argv[0] if self.kind == side_effects.PUSH else "{{ repo }}")
        lookup = tuple(self.lookup) if self.lookup else None
        return side_effects.Template(self.kind, target, tuple(self.argv), lookup, self.seconds, tuple(self.credentials))


class WorkflowDefinition(_Part):
    """One version of one workflow. `name` is the action that operators enqueue; `seconds` is the wall clock of
    one attempt; `max_attempts` left out means that the policy decides by risk. `service` names what the agent calls:
    its use counts against the team's budget of that name (B3)."""

    name: Slug
    version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)
    title: str = Field(min_length=1, max_length=80)
    summary: str = Field(default="", max_length=400)
    executor: Slug
    service: Slug | None = None
    risk: Risk
    stages: list[Stage] = list(STAGES)
    identity: list[Literal["base_sha", "date"]] = []
    expects: Expects
    short: bool = False
    seconds: int = Field(default=1800, ge=1, le=86_400)
    max_attempts: int | None = Field(default=None, ge=1, le=100)
    prompt: str = Field(default="", max_length=65_536)
    fields: list[PayloadField] = []
    allowed_paths: list[Glob] = ["**"]
    checks: list[Check] = []
    tools: list[str] = []
    effects: list[Effect] = []
    parameters: dict[str, Any] = {}

    @cached_property
    def document_text(self) -> str:
        """The whole document as canonical JSON, as it is stored (K4).

        Only what the file says: a default that a later AgentQ changes or adds does not make other content.
        """
        return canonical_json(self.model_dump(mode="json", exclude_unset=True))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `document_text`: the same name and version must always have this digest (K4)."""
        return sha256_hex(self.document_text)

    @model_validator(mode="after")
    def _hangs_together(self) -> "WorkflowDefinition":
        for rules in _RULES:
            for key, why in rules(self):
                raise PydanticCustomError("workflow_rule", "{why}", {"key": key, "why": why})
        return self


Problem = tuple[str, str]  # the key at fault and why


def _stage_problems(workflow: WorkflowDefinition) -> Iterator[Problem]:
    if workflow.stages != [stage for stage in STAGES if stage in workflow.stages]:
        yield "stages", f"must keep this order, each at most once: {', '.join(STAGES)}"
    if not {"inspect", "deliver"} <= set(workflow.stages):
        yield "stages", "must hold inspect and deliver: nothing is accepted without them"
    if workflow.expects == "diff" and "modify" not in workflow.stages:
        yield "stages", "must hold modify, because a diff is expected"
    if workflow.short and workflow.seconds > SHORT_SECONDS:
        yield "seconds", f"must be at most {SHORT_SECONDS} in a short workflow"


def _risk_problems(workflow: WorkflowDefinition) -> Iterator[Problem]:
    if workflow.risk == "read_only" and workflow.expects != "report":
        yield "expects", "must be report, because a read_only workflow changes no file"
    if workflow.effects and workflow.risk != "external_side_effect":
        yield "risk", "must be external_side_effect in a workflow with effects"


def _effect_problems(workflow: WorkflowDefinition) -> Iterator[Problem]:
    """What would give two acts one key, leave a placeholder open or put a password into a stored document."""
    templates = [effect.template for effect in workflow.effects]
    keyed = [(template.kind, template.target) for template in templates]
    for template in templates:
        if keyed.count((template.kind, template.target)) > 1:
            yield "effects", f"must not hold {template.kind} twice for one target: give each a target of its own"
        unknown = sorted(set(side_effects.placeholders(template)) - set(side_effects.PLACEHOLDERS))
        if unknown:
            known = ", ".join(side_effects.PLACEHOLDERS)
            yield "effects", f"must not use {unknown[0]} in {template.kind}; there are: {known}"
        if "key" in PLACEHOLDER.findall(template.target):
            yield "effects", f"must not use key in the target of {template.kind}: the key is made of it"
        if template.kind == side_effects.PUSH and (len(template.argv) != 1 or template.lookup or not _remote(template)):
            yield "effects", f"must give {template.kind} one remote in argv, without a password, and no lookup"


def _remote(template: side_effects.Template) -> bool:
    return REMOTE.fullmatch(template.argv[0]) is not None


def _naming_problems(workflow: WorkflowDefinition) -> Iterator[Problem]:
    fields = [field.name for field in workflow.fields]
    checks = [check.name for check in workflow.checks]
    for key, names in (("fields", fields), ("checks", checks), ("identity", workflow.identity)):
        if twice := next((name for name in names if list(names).count(name) > 1), ""):
            yield key, f"must not hold {twice} twice"
    for name in PLACEHOLDER.findall(workflow.prompt):
        if name not in fields:
            yield "prompt", f"must not use {name}, which is not among the fields"
    for field in workflow.fields:
        if field.excludes and field.excludes not in fields:
            yield "fields", f"must hold {field.excludes}, which {field.name} excludes"
    try:
        canonical_json(workflow.parameters)
    except (TypeError, ValueError):
        yield "parameters", "must hold only texts, numbers, booleans, lists and tables (no dates)"


def _command_problems(workflow: WorkflowDefinition) -> Iterator[Problem]:
    """The command executor runs what an owner registered, or a script that ships with AgentQ; see inputs.py."""
    if workflow.executor != "command":
        return
    named = [field for field in workflow.fields if field.kind == "argv"]
    script = "script" in workflow.parameters
    if len(named) > 1 or not (named or script):
        yield "fields", "must hold one field of kind argv, or parameters must name a script"
    elif named and not script and not named[0].required:
        yield "fields", f"must make {named[0].name} required, because there is no script to run instead"


def _agent_problems(workflow: WorkflowDefinition) -> Iterator[Problem]:
    """What an agent is asked, and the limits that its executor knows; see executors/agents.py."""
    if workflow.executor not in AGENTS:
        return
    if not workflow.prompt.strip():
        yield "prompt", "must say what the agent shall do"
    if not set(workflow.tools) <= set(TOOLS):
        yield "tools", f"must be among: {', '.join(TOOLS)}"
    try:
        read_task({**workflow.parameters, "prompt": "any"})
    except BadStageInputs:
        yield "parameters", "must hold only what an agent takes: model, plan, max_turns and the like"


_RULES = (
    _stage_problems,
    _risk_problems,
    _effect_problems,
    _naming_problems,
    _command_problems,
    _agent_problems,
)
