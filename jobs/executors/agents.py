"""What the agent CLIs have in common: one stage from a prompt to a verdict that rests on the CLI's terminal event."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from jobs.errors import BadStageInputs
from jobs.executors import clis, isolation
from jobs.executors.base import Control, StageContext, StageResult, record_inputs, stage_result, supervise
from jobs.executors.outputs import write_private
from jobs.executors.process import ProcessSpec, minimal_environment
from jobs.executors.story import Story
from jobs.executors.verdict import judge
from jobs.executors.watch import Patience, Watch

TOOLS = ("read", "edit", "shell", "web")
CLAIM_CHARACTERS = 4096
OUTPUT_BYTES = 64 * 1024 * 1024  # an agent's stream holds the files that it read
PLAN_WORDS = "First make a plan for the task below. Read whatever you need, but change no file yet.\n\n"


@dataclass(frozen=True)
class Task:
    """What a workflow and a payload ask of an agent; see workflows/inputs.py. `plan` runs the agent in plan as well."""

    prompt: str
    tools: tuple[str, ...] = ("read", "edit", "shell")
    model: str = ""
    plan: bool = False
    max_turns: int = 100
    max_budget_usd: float = 0.0
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True)
class Room:
    """Where one run of a CLI lives: its program, its fresh state directory, and how it is kept apart."""

    program: Path
    state: Path
    method: str  # of isolation; see isolation.method
    bwrap: Path | None


class AgentExecutor(ABC):
    """One stage by an agent CLI. Subclasses know the command line, the events and where a session is kept."""

    name = ""
    acts_outside = False
    takes: frozenset[str] = frozenset()
    credentials: frozenset[str] = frozenset()  # those of `takes` of which at least one must be there

    def run_stage(self, context: StageContext, control: Control) -> StageResult:
        """Ok needs exit code 0, the terminal event of success and no refused tool. Read never starts a process, plan
        only when the workflow says so. A session that is gone is replaced once by a fresh one. Raises
        BadStageInputs."""
        task = read_task(context.inputs)
        if context.stage == "read" or (context.stage == "plan" and not task.plan):
            return record_inputs(context)
        room, lack = self._room(context, task)
        if room is None:
            return _refused(context, *lack)
        transcript = self._earlier_transcript(context)
        result = self._run(context, control, task, room, transcript)
        lost = bool(context.session) and transcript is None
        if result.facts["session_refused"] and result.stopped is None and not result.survivors:
            lost = True
            result = self._run(context, control, task, room, None)
        return replace(result, facts={**result.facts, "session_lost": lost})

    @abstractmethod
    def refusal(self, task: Task, room: Room) -> tuple[str, str]:
        """(failure code, words for a person) when this CLI cannot work safely here; two empty texts when it can."""

    @abstractmethod
    def argv(self, context: StageContext, task: Task, room: Room, session: str) -> tuple[str, ...]: ...

    @abstractmethod
    def environment(self, room: Room) -> dict[str, str]: ...

    @abstractmethod
    def story(self) -> Story: ...

    @abstractmethod
    def transcript(self, state: Path, session: str) -> Path | None:
        """The file in a state directory that a session can be resumed from."""

    @abstractmethod
    def place(self, transcript: Path, state: Path) -> None:
        """Put a transcript where a fresh state directory has it."""

    @abstractmethod
    def settle(self, story: Story, transcript: Path | None, earlier: Path | None) -> dict[str, Any]:
        """Complete the story after the run; more facts about its failure: {"http_status": …}."""

    def _room(self, context: StageContext, task: Task) -> tuple[Room | None, tuple[str, str]]:
        program = clis.find(self.name)
        if program is None or not clis.version(program):
            words = (
                f"The {self.name} CLI was not found or does not start. Install it, or set AGENTQ_{self.name.upper()} "
                "to its path; `manage.py check_agents` says more."
            )
            return None, ("environment_broken", words)
        if not any(context.environment.get(name) for name in self.credentials):
            names = " or ".join(sorted(self.credentials))
            words = (
                f"No credential for the {self.name} CLI: name {names} in AGENTQ_CREDENTIALS, such as "
                f"{min(self.credentials)}=env:{min(self.credentials)}."
            )
            return None, ("input_missing", words)
        room = Room(program, context.output / f"{context.stage}.state", isolation.method(), clis.find("bwrap"))
        lack = self.refusal(task, room)
        return (None, lack) if lack[1] else (room, lack)

    def _earlier_transcript(self, context: StageContext) -> Path | None:
        """The wanted session's transcript, from this or an earlier attempt of the job on this host."""
        if not context.session:
            return None
        kept = list(context.output.parent.glob(f"*/transcripts/*{_file_part(context.session)}*"))
        return max(kept, key=lambda path: path.stat().st_mtime, default=None)

    def _run(
        self, context: StageContext, control: Control, task: Task, room: Room, transcript: Path | None
    ) -> StageResult:
        _make_empty(room.state)
        if transcript is not None:
            self.place(transcript, room.state)
        story = self.story()
        spec = self._spec(context, task, room, context.session if transcript is not None else "")
        watching = Watch(control, story, spec.stdout_path, task.patience, spec.output_cap_bytes)
        ended = supervise(spec, watching)
        watching.finish()
        left = self.transcript(room.state, story.session) if story.session else None
        facts = self.settle(story, left, transcript)
        self._keep(left, context.output, room.state)
        result = judge(stage_result(spec, ended), story, watching.reason, task.tools, facts)
        refused = transcript is not None and not story.asked and not story.succeeded and not watching.reason
        claim = context.output / f"{context.stage}.claim.txt"
        write_private(claim, story.claim[:CLAIM_CHARACTERS])
        more = {
            "isolation": isolation.LEVELS[room.method],
            "session_refused": refused,
            "resumed": transcript is not None,
        }
        return replace(result, facts={**result.facts, **more}, claim_path=claim if story.claim else None)

    def _spec(self, context: StageContext, task: Task, room: Room, session: str) -> ProcessSpec:
        prompt = context.output / f"{context.stage}.prompt.txt"
        write_private(prompt, (PLAN_WORDS if context.stage == "plan" else "") + task.prompt)
        given = {name: value for name, value in context.environment.items() if name in self.takes}
        argv = isolation.wrap(
            self.argv(context, task, room, session),
            checkout=context.checkout,
            home=context.home,
            tmp=context.tmp,
            writable=(room.state,),
            readonly=(clis.install_root(room.program), *context.readable, *_bwrap_parts(room)),
            network=True,
            method=room.method,
        )
        return ProcessSpec(
            argv=argv,
            cwd=context.checkout,
            env=minimal_environment(home=context.home, tmp=context.tmp, extra=given | self.environment(room)),
            stdout_path=context.output / f"{context.stage}.stdout",
            stderr_path=context.output / f"{context.stage}.stderr",
            token=context.token,
            seconds=context.limits.seconds,
            grace_seconds=context.limits.grace_seconds,
            fence_seconds=context.limits.fence_seconds,
            output_cap_bytes=max(context.limits.output_cap_bytes, OUTPUT_BYTES),
            stdin_path=prompt,
        )

    def _keep(self, transcript: Path | None, output: Path, state: Path) -> None:
        """Of the state directory only the transcript stays: the rest may hold caches and keys."""
        if transcript is not None and transcript.is_file() and not transcript.is_symlink():
            (output / "transcripts").mkdir(mode=0o700, exist_ok=True)
            transcript.chmod(0o600)
            shutil.move(transcript, output / "transcripts" / transcript.name)
        shutil.rmtree(state, ignore_errors=True)


def read_task(inputs: Mapping[str, Any]) -> Task:
    """The task in a stage's inputs. Raises BadStageInputs."""
    known = {part.name for part in fields(Task)} - {"patience"} | {part.name for part in fields(Patience)}
    given = dict(inputs)
    if not set(given) <= known or not isinstance(given.get("prompt"), str) or not given["prompt"].strip():
        raise BadStageInputs
    waits = {part.name: given.pop(part.name) for part in fields(Patience) if part.name in given}
    tools = given.pop("tools", None) or Task.tools
    if not isinstance(tools, list | tuple) or not set(tools) <= set(TOOLS):
        raise BadStageInputs
    numbers = [*waits.values(), given.get("max_turns", 1), given.get("max_budget_usd", 0)]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 for value in numbers):
        raise BadStageInputs
    if not isinstance(given.get("model", ""), str) or not isinstance(given.get("plan", False), bool):
        raise BadStageInputs
    return Task(**given, tools=tuple(tools), patience=Patience(**waits))


def _refused(context: StageContext, code: str, words: str) -> StageResult:
    """The stage was not started; the reason stands where a program's own complaint would."""
    context.output.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = context.output / f"{context.stage}.stderr"
    write_private(path, words + "\n")
    return StageResult(ok=False, stderr_path=path, facts={"error": {"code": code}, "terminal_event": False})


def _bwrap_parts(room: Room) -> tuple[Path, ...]:
    return (room.bwrap.parent,) if room.bwrap is not None else ()


def _make_empty(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700, parents=True)


def _file_part(session: str) -> str:
    """A session id as it stands in file names; anything else would be a pattern."""
    return "".join(character for character in session if character.isalnum() or character == "-") or "none"
