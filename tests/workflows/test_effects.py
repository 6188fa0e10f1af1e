"""X1, X3, K3, Z5: what a workflow may declare as an effect."""

from pathlib import Path

import pytest

from jobs.core import side_effects
from jobs.errors import WorkflowRefused
from jobs.workflows.files import load_file

HEAD = """\
name = "publish"
version = "v1"
title = "Publish"
executor = "codex"
risk = "external_side_effect"
expects = "diff"
prompt = "Do it."
"""


@pytest.fixture
def load(tmp_path: Path):
    def load(*effects: str):
        path = tmp_path / "publish.toml"
        path.write_text(HEAD + "".join(f"\n[[effects]]\n{effect}\n" for effect in effects))
        return load_file(path)

    return load


def test_an_effect_without_a_target_acts_on_the_repository_and_a_push_on_its_remote(load):
    workflow = load('kind = "release"\nargv = ["x"]', 'kind = "push-branch"\nargv = ["/srv/a.git"]')
    assert [effect.template.target for effect in workflow.effects] == ["{{ repo }}", "/srv/a.git"]
    assert workflow.effects[1].template.kind == side_effects.PUSH


@pytest.mark.parametrize(
    ("effects", "why"),
    [
        (['kind = "a"\nargv = ["x"]', 'kind = "a"\nargv = ["y"]'], "twice for one target"),
        (['kind = "a"\nargv = ["{{ secret }}"]'], "must not use secret"),
        (['kind = "a"\nargv = ["x"]\nlookup = ["{{ sha }}"]'], "must not use sha"),
        (['kind = "a"\nargv = ["x"]\ntarget = "{{ key }}"'], "the key is made of it"),
        (['kind = "push-branch"\nargv = ["git", "push"]'], "one remote"),
        (['kind = "push-branch"\nargv = ["/srv/a.git"]\nlookup = ["x"]'], "no lookup"),
    ],
)
def test_an_effect_that_could_not_be_kept_apart_or_filled_in_is_refused(load, effects, why):
    with pytest.raises(WorkflowRefused, match=why):
        load(*effects)


@pytest.mark.parametrize(
    "remote", ["/srv/a.git", "file:///srv/a.git", "https://host/a.git", "ssh://git@host/a.git", "git@host:a.git"]
)
def test_a_remote_is_a_path_or_an_address(load, remote):
    assert load(f'kind = "push-branch"\nargv = ["{remote}"]').effects[0].argv == [remote]


@pytest.mark.parametrize(
    "remote",
    ["https://ana:word@host/a.git", "https://token@host/a.git", "ssh://git:word@host/a.git", "--upload-pack=x", "a.git",
     "ext::sh -c x", "ext::x", "http://host/a.git"],
)  # fmt: skip
def test_a_remote_with_a_password_or_one_that_git_could_read_as_something_else_is_refused(load, remote):
    with pytest.raises(WorkflowRefused, match="one remote"):
        load(f'kind = "push-branch"\nargv = ["{remote}"]')
