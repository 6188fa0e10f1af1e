"""A console in processes of its own, on a file database in a folder of its own, as a first user would run it."""

import os
import socket
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME, PASSWORD = "li", "correct horse battery"


@dataclass
class Site:
    """`base` is its address. `run` lets Python code act in its database, as a worker or a person elsewhere would."""

    folder: Path
    base: str = ""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Migrated, one person, one repository, gunicorn listening."""
        self._command("manage.py", "migrate", "--verbosity", "0")
        self.run(
            f"""
            from django.contrib.auth.models import Group, User
            from tests import factories
            li = User.objects.create_user({NAME!r}, password={PASSWORD!r}, first_name="Li", last_name="Wei")
            li.groups.add(Group.objects.get(name="owners"))
            factories.repository(Path({str(self.folder / "source")!r}), "demo/docs-site")
            """
        )
        # The socket listens before the server starts: there is no moment to wait for.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.base = f"http://127.0.0.1:{listener.getsockname()[1]}"
            bind = ("--bind", f"fd://{listener.fileno()}", "--workers", "2", "--log-level", "warning")
            with (self.folder / "web.log").open("wb") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "gunicorn", "agentq_site.wsgi", *bind],
                    cwd=ROOT,
                    env=self._env(),
                    stdout=log,
                    stderr=log,
                    pass_fds=[listener.fileno()],
                )

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)

    def run(self, code: str) -> str:
        """What the code prints; it sees the project, `Path` and the test factories."""
        head = "import django; django.setup()\nfrom pathlib import Path\n"
        return self._command("-c", head + textwrap.dedent(code)).strip()

    def job(self, text: str) -> int:
        """A queued job whose payload holds this text."""
        return int(
            self.run(
                f"""
                from jobs.models import Repository
                from tests import factories
                print(factories.job(Repository.objects.get(), text={text!r}).pk)
                """
            )
        )

    def claim(self, job_id: int, worker: str = "w-7") -> None:
        """A worker holds the job from now on."""
        self.run(f"from jobs.services import leases; leases.claim({job_id}, worker={worker!r})")

    def state(self, job_id: int) -> str:
        return self.run(f"from jobs.models import Job; print(Job.objects.get(pk={job_id}).state)")

    def _command(self, *args: str) -> str:
        done = subprocess.run(
            [sys.executable, *args], cwd=ROOT, env=self._env(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _env(self) -> dict[str, str]:
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTQ_", "DATABASE_"))}
        return mine | {
            "AGENTQ_DATA_DIR": str(self.folder / "data"),
            "AGENTQ_INSTANCE": "browser",
            "DJANGO_SETTINGS_MODULE": "agentq_site.settings",
            "PYTHONPATH": str(ROOT),
        }
