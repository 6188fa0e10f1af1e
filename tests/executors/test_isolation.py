"""What runs apart from the host sees an allow-list of files, its own processes and, when asked, no network (Z3)."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.executors import isolation
from jobs.executors.process import PATH, ProcessResult, ProcessSpec, start
from tests import needs

pytestmark = pytest.mark.engine
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=["unshare", "bwrap"])
def way(request: pytest.FixtureRequest) -> str:
    needs.isolation(request.param)
    return str(request.param)


@pytest.fixture
def rooms(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("checkout", "home", "tmp")}
    for path in found.values():
        path.mkdir()
    return found


@pytest.fixture
def run(rooms: dict[str, Path], way: str) -> Run:
    def call(*argv: str, network: bool = False, readonly: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
        wrapped = isolation.wrap(argv, **rooms, readonly=readonly, network=network, method=way)
        return subprocess.run(wrapped, env={"PATH": PATH}, capture_output=True, text=True, timeout=60, check=False)

    return call


def test_a_file_outside_cannot_be_read_nor_seen(run: Run, tmp_path: Path):
    secret = tmp_path / "other-repository" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("canary")
    assert subprocess.run(["cat", secret], capture_output=True, text=True, check=True).stdout == "canary"
    result = run("sh", "-c", f"cat {secret}; ls {tmp_path}; cat /etc/shadow")
    assert "canary" not in result.stdout
    assert "other-repository" not in result.stdout
    assert "root:" not in result.stdout


def test_a_named_folder_can_be_read_and_not_written(run: Run, tmp_path: Path):
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "pack").write_text("content")
    line = f"cat {tmp_path}/objects/pack; echo x > {tmp_path}/objects/pack; echo x > /usr/made; echo $?"
    result = run("sh", "-c", line, readonly=(tmp_path / "objects", tmp_path / "absent"))
    assert result.stdout.startswith("content")
    assert result.stderr.count("Read-only file system") == 2
    assert (tmp_path / "objects" / "pack").read_text() == "content"


def test_the_three_rooms_can_be_written_and_hold_the_result(run: Run, rooms: dict[str, Path]):
    result = run("sh", "-c", f"pwd; echo a > made; echo b > {rooms['home']}/made; echo c > {rooms['tmp']}/made")
    assert result.stdout.strip() == str(rooms["checkout"])
    assert [(rooms[name] / "made").read_text() for name in ("checkout", "home", "tmp")] == ["a\n", "b\n", "c\n"]


def test_without_network_the_hosts_loopback_is_gone_and_an_own_one_works(run: Run):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        call = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        own = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 5)"
        assert run(sys.executable, "-c", call, network=True).returncode == 0
        assert "ConnectionRefusedError" in run(sys.executable, "-c", call).stderr
        assert run(sys.executable, "-c", own).returncode == 0


def test_no_process_of_the_host_is_seen(run: Run):
    seen = run(sys.executable, "-c", "import os; print(sorted(int(n) for n in os.listdir('/proc') if n.isdigit()))")
    numbers = [int(number) for number in seen.stdout.strip()[1:-1].split(",")]
    assert os.getpid() not in numbers
    assert len(numbers) <= 4


def test_the_host_cannot_be_mounted_back(run: Run, rooms: dict[str, Path]):
    device = next(line.split()[0] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[1] == "/")
    result = run("sh", "-c", f"mkdir m; mknod d b 254 0; mount {device} m; mount -t ext4 d m; ls m; ls /proc/1/root/")
    assert list((rooms["checkout"] / "m").iterdir()) == []
    assert "boot" not in result.stdout.split()


@pytest.mark.parametrize(
    ("line", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("exec nothing-here", 127)]
)
def test_the_end_of_the_program_is_handed_on(run: Run, line: str, code: int):
    assert run("sh", "-c", line).returncode == code


def test_a_program_that_is_not_there_says_so(run: Run):
    result = run("/nonexistent/program")
    assert result.returncode != 0
    assert "/nonexistent/program" in result.stderr


def test_term_reaches_the_program_and_nothing_is_left(
    rooms: dict[str, Path], way: str, make_spec: Callable[..., ProcessSpec], until: Callable[..., object]
):
    script = "trap 'echo heard; exit 5' TERM; (setsid sleep 600 &) ; echo up; while :; do sleep 0.1; done"
    spec = make_spec(*isolation.wrap(["sh", "-c", script], **rooms, network=False, method=way), grace_seconds=10)
    with start(spec) as running:
        until(lambda: spec.stdout_path.exists() and "up" in spec.stdout_path.read_text())
        running.stop("cancel")
        result: ProcessResult | None = None
        while result is None:
            result = running.wait(0.2)
    assert (result.stopped, result.survivors) == ("cancel", 0)
    if way == "unshare":  # bubblewrap ends its child with itself
        assert "heard" in spec.stdout_path.read_text()


def test_where_no_way_works_the_command_line_stays_as_it_is(rooms: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTQ_ISOLATION", "process")
    isolation.method.cache_clear()
    try:
        assert isolation.level() == "process"
        assert isolation.wrap(["ls", "-l"], **rooms, network=False) == ("ls", "-l")
    finally:
        isolation.method.cache_clear()
