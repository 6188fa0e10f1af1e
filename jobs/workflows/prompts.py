"""The text that an agent is given: a workflow's template with the payload's values; never stored in the database."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.workflows.definition import PLACEHOLDER

NOTHING = "(not given)"


def render(template: str, payload: Mapping[str, Any], notes: Sequence[str] = ()) -> str:
    """The template with every `{{ field }}` replaced once: a value that looks like a placeholder stays as it is.

    A list stands as one line for each entry, a field that was left out as "(not given)". `notes` are what people
    answered to this job's questions; they stand at the end.
    """
    text = PLACEHOLDER.sub(lambda found: _written(payload.get(found[1])), template).strip()
    if notes:
        text += "\n\nA person who looked at this job added:\n" + "\n".join(f"- {note}" for note in notes)
    return text + "\n"


def _written(value: Any) -> str:
    if value is None or value == []:
        return NOTHING
    if isinstance(value, list):
        return "\n".join(f"- {entry}" for entry in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
