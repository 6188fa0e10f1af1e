"""What kind of program ran (agent, verifier, installer, runner, publisher), and which commands act outside."""

import re
from typing import Final

AGENT, VERIFIER, INSTALLER, RUNNER, PUBLISHER = "agent", "verifier", "installer", "runner", "publisher"

_AGENTS: Final = re.compile(
    r"codex|claude|gemini|cursor|cursor-agent|opencode|aider|openhands|qwen|qwen-code|openclaude|goose|amp|copilot|droid"
    r"|crush|cline|kimi|continue|cn|swe-agent|auggie|kilo|kilocode|roo|q|pi|devin|junie|grok|iflow|plandex"
)
_VERIFIERS: Final = re.compile(
    r"pytest|py\.test|mypy|ruff|flake8|pylint|pyright|black|isort|bandit|tox|nox|unittest|eslint|tsc|jest|vitest|mocha|ava"
    r"|prettier|stylelint|biome|phpunit|phpstan|psalm|rspec|rubocop|golangci-lint|staticcheck|shellcheck|hadolint"
    r"|pre-commit|gitleaks|trufflehog|semgrep|trivy|detect-secrets|codespell|ctest|cppcheck|clang-tidy|ktlint|detekt"
    r"|checkstyle|spotbugs|swiftlint|playwright|cypress|karma|coverage|import-linter|lint-imports|djlint|actionlint"
    r"|yamllint|markdownlint|sqlfluff|vulture|pip-audit|safety|knip|deptry|nose2|behave|robot|mutmut"
)
_VERIFYING_VERBS: Final = re.compile(r"tests?|check|lint|clippy|vet|type-?check|fmt|format|audit|verify|unit|e2e|it")
_BUILDERS: Final = re.compile(
    r"make|npm|pnpm|yarn|npx|cargo|go|gradlew?|mvnw?|dotnet|bun|deno|just|task|rake|sbt|mix|swift|composer|bazel|uv|poetry"
    r"|hatch|pdm|python3?|node|bundle|nx|turbo|ng|dart|flutter|zig|terraform|helm"
)
_INSTALLERS: Final = re.compile(
    r"pip3?|uv|poetry|pdm|npm|pnpm|yarn|cargo|go|bundle|gem|apt|apt-get|dnf|apk|brew|composer|mvn|gradle|conda|mamba|docker"
    r"|podman|wget|curl|git|nuget|dotnet|bun|playwright|hg|svn|rustup|pipx"
)
_FETCHING_VERBS: Final = re.compile(
    r"install|ci|i|add|sync|fetch|pull|clone|download|lfs|submodule|update|get|restore|build|mod|lock|ls-remote|wget|curl"
)
_RUNNERS: Final = re.compile(r"github-actions|gitlab-runner|actions-runner|buildkite|jenkins|woodpecker|circleci")
_WRAPPERS: Final = re.compile(r"env|sudo|nice|timeout|uvx|pipx|npx|bunx|time|xvfb-run|nohup|bash|sh|-c|exec")

# Command lines that change something outside this machine, one line of alternatives per kind of tool.
_OUTWARD: Final = re.compile(
    "|".join(
        (
            r"\bgit\b[^\n|;&]{0,60}\bpush\b",
            r"\bgh (?:pr|issue|release|workflow|repo|secret|variable|gist) (?:create|merge|close|comment)",
            r"\bgh (?:pr|issue|release|workflow|repo|secret|variable|gist) (?:edit|delete)",
            r"\bgh (?:pr|issue|release|workflow|repo|secret|variable|label) (?:upload|run|review|reopen|set)",
            r"\bgh api\b[^\n]{0,200}(?:-x|--method|-f|--field|--input)\b",
            r"\bglab (?:mr|issue|release) (?:create|merge|note)",
            r"\b(?:npm|pnpm|yarn|cargo|poetry|uv|flit|hatch|bun|vsce|gem|lerna) (?:npm )?(?:publish|push|release)\b",
            r"\bnpm (?:unpublish|deprecate)\b",
            r"\btwine upload\b|\b(?:docker|podman|helm|nuget|skopeo|crane|oras) (?:\w{1,20} )?(?:push|copy)\b",
            r"\b(?:kubectl|oc) (?:apply|create|replace|delete|patch|scale|rollout|set)\b",
            r"\b(?:terraform|tofu|pulumi|cdk) (?:apply|destroy|up|deploy)\b",
            r"\bhelm (?:install|upgrade|rollback|uninstall)\b",
            r"\bcurl\b[^\n]{0,200}(?:-x ?(?:post|put|patch|delete)|--request|-d\b|--data|-f |-t )",
            r"\b(?:serverless|sls|fly|flyctl|vercel|netlify|wrangler|firebase|heroku|gcloud|eb|cap|sam)\b[^\n]{0,60}\bdeploy\b",
            r"\b(?:wrangler|firebase|heroku|gcloud)\b[^\n]{0,60}\b(?:publish|release)\b",
            r"\baws (?:s3 (?:cp|sync|rm|mv)|\w{1,30} (?:create|delete|put|update|send|publish|start|run|invoke))",
            r"\b(?:sendmail|mailx?|mutt|msmtp|swaks)\b|\bansible-playbook\b|\bssh \S|\b(?:scp|rsync) [^\n]{0,200}:",
            r"\bhttpx? (?:post|put|patch|delete)\b",
        )
    )
)
_ACTING_TOOL: Final = re.compile(
    r"(create|send|post|publish|delete|update|merge|push|comment|deploy|release|upload|write|submit|notify|pay|charge|refund)"
)
_MODEL_ERROR: Final = re.compile(
    r"^(openai|anthropic|litellm|google\.genai|google\.generativeai|mistralai|cohere|groq)\b"
)


def kind_of(program: str) -> str:
    """The kind of program by its command line; "" when unknown."""
    words = _words(program)
    if not words:
        return ""
    first, rest = words[0], words[1:]
    if _RUNNERS.match(program.lower()):
        return RUNNER
    if _verifies(first, rest, program):
        return VERIFIER
    if _AGENTS.fullmatch(first):
        return AGENT
    if is_outward_command(program):
        return PUBLISHER
    if _INSTALLERS.fullmatch(first) and (not rest or any(_FETCHING_VERBS.fullmatch(word) for word in rest)):
        return INSTALLER
    return ""


def is_outward_command(command: str) -> bool:
    """True when this command line changes something outside this machine."""
    return _OUTWARD.search(re.sub(r"\s{1,}", " ", command[:2000].lower())) is not None


def is_outward_tool(name: str) -> bool:
    """True when a tool of this name (an MCP tool) may change something outside; its verb decides."""
    lowered = name.lower()
    if not lowered.startswith(("mcp", "mcp__")) and "__" not in lowered and "." not in lowered:
        return False
    return _ACTING_TOOL.search(re.split(r"__|\.", lowered)[-1]) is not None


def is_model_error(type_name: str) -> bool:
    """True when the exception comes from a model provider's client: the call that failed was a model call."""
    return _MODEL_ERROR.match(type_name) is not None


def _words(program: str) -> list[str]:
    words = [word.strip("()").rpartition("/")[2] or word for word in program.lower().split()]
    while len(words) > 1 and (_WRAPPERS.fullmatch(words[0]) or "=" in words[0]):
        words = words[1:]
    return words


def _verifies(first: str, rest: list[str], program: str) -> bool:
    if _VERIFIERS.fullmatch(first):
        return not (first == "playwright" and "install" in rest)
    if "pre-commit" in program.lower() or "(pre-push" in program.lower():
        return True
    if len(rest) > 1 and rest[0] in ("exec", "run", "-m") and _BUILDERS.fullmatch(first):
        return _VERIFIERS.fullmatch(rest[1]) is not None or _is_verb(rest[1])
    if _BUILDERS.fullmatch(first):
        bare = [word for word in rest if not word.startswith("-")]
        return any(_is_verb(word) or _VERIFIERS.fullmatch(word) for word in bare[:2])
    return False


def _is_verb(word: str) -> bool:
    return _VERIFYING_VERBS.fullmatch(word.partition(":")[0]) is not None
