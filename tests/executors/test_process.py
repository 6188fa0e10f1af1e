"""A program in its shim: what it gets, how it ends, what is kept (L2, Z3, A4; design section 3)."""

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.executors.process import (
    ProcessResult,
    ProcessSpec,
    RunningProcess,
    minimal_environment,
    start,
)
from jobs.executors.processes import alive, read_stat

pytestmark = pytest.mark.engine
Make = Callable[..., ProcessSpec]
Until = Callable[[Callable[[], object]], object]


def finish(running: RunningProcess) -> ProcessResult:
    while (result := running.wait(0.2)) is None:
        pass
    return result


def run(spec: ProcessSpec) -> ProcessResult:
    with start(spec) as running:
        return finish(running)


def test_exit_code_and_output_come_back(make_spec: Make) -> None:
    spec = make_spec("sh", "-c", "echo out; echo err >&2; exit 3")
    result = run(spec)
    assert (result.exit_code, result.signal, result.clean) == (3, None, False)
    assert (spec.stdout_path.read_text(), spec.stderr_path.read_text()) == ("out\n", "err\n")
    assert (result.stdout_bytes, result.stderr_bytes, result.survivors) == (4, 4, 0)


def test_a_clean_exit_is_clean(make_spec: Make) -> None:
    assert run(make_spec("true")).clean


def test_a_signal_is_told_from_an_exit_code(make_spec: Make) -> None:
    result = run(make_spec("sh", "-c", "kill -SEGV $$"))
    assert (result.exit_code, result.signal, result.stopped) == (None, signal.SIGSEGV, None)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"argv": ("/no/such/program",)}, "exec:ENOENT"),
        ({"argv": ("/etc",)}, "exec:EACCES"),
        ({"argv": ("true", "nul\0")}, "exec:ValueError"),
        ({"cwd": Path("/no/such/directory")}, "cwd:ENOENT"),
        ({"stdin_path": Path("/no/such/file")}, "stdin:ENOENT"),
        ({"stdout_path": Path("/usr")}, "output:EISDIR"),
    ],
)
def test_what_never_started_says_at_which_step(make_spec: Make, change: dict[str, object], error: str) -> None:
    result = run(make_spec(*change.pop("argv", ("true",)), **change))  # type: ignore[misc]
    assert (result.start_error, result.exit_code, result.clean) == (error, None, False)


def test_environment_is_exactly_what_was_given_and_the_token(
    make_spec: Make, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    spec = make_spec("env", "-0", env={"PATH": "/usr/bin:/bin", "ODD": "caf\u00e9\nline"})
    run(spec)
    entries = set(spec.stdout_path.read_bytes().rstrip(b"\0").split(b"\0"))
    assert entries == {
        b"PATH=/usr/bin:/bin",
        "ODD=caf\u00e9\nline".encode(),
        b"AGENTQ_TOKEN=" + token.encode(),
    }


@pytest.mark.parametrize("name", ["DATABASE_URL", "DJANGO_SETTINGS_MODULE", "SECRET_KEY", "AGENTQ_DATA_DIR"])
def test_what_is_ours_is_refused_for_a_child(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        minimal_environment(home=tmp_path, tmp=tmp_path, extra={name: "x"})


def test_the_environment_is_on_no_command_line(make_spec: Make) -> None:
    with start(make_spec("sleep", "1000", env={"PATH": "/usr/bin:/bin", "KEY": "swordfish"})) as running:
        assert running.identity is not None
        for pid in (running.identity.pid, running.identity.shim_pid):
            assert b"swordfish" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"swordfish" not in Path(f"/proc/{running.identity.shim_pid}/environ").read_bytes()


def test_stdin_is_empty_unless_a_file_is_given(make_spec: Make, tmp_path: Path) -> None:
    silent = make_spec("cat")
    assert run(silent).clean
    assert silent.stdout_path.read_text() == ""
    (tmp_path / "prompt").write_text("do it")
    fed = make_spec("cat", stdin_path=tmp_path / "prompt")
    assert run(fed).clean
    assert fed.stdout_path.read_text() == "do it"


def test_output_files_are_private_even_when_they_were_not(make_spec: Make, tmp_path: Path) -> None:
    spec = make_spec("true")
    spec.stdout_path.parent.mkdir()
    spec.stdout_path.touch(mode=0o644)
    run(spec)
    for path in (spec.stdout_path, spec.stderr_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_output_never_goes_through_a_link(make_spec: Make, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    result = run(make_spec("echo", "overwritten", stdout_path=tmp_path / "link"))
    assert (result.start_error, (tmp_path / "precious").read_text()) == ("output:ELOOP", "kept")


def test_signals_are_back_to_default_and_the_session_is_its_own(make_spec: Make) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])
    running = start(make_spec("sleep", "1000"))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with running:
        assert running.identity is not None
        status = Path(f"/proc/{running.identity.pid}/status").read_text()
        masks = {name: bits for name, _, bits in (line.partition(":") for line in status.splitlines())}
        assert (int(masks["SigIgn"], 16), int(masks["SigBlk"], 16)) == (0, 0)
        assert read_stat(running.identity.pid).session == running.identity.pid


def test_identity_tells_the_process_from_a_later_one_with_its_pid(make_spec: Make) -> None:
    with start(make_spec("sleep", "1000")) as running:
        identity = running.identity
        assert identity is not None
        assert read_stat(identity.pid).start == identity.start_ticks
        assert read_stat(identity.shim_pid).start == identity.shim_start_ticks
        assert identity.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_endless_output_is_capped_with_head_and_tail_and_flat_memory(make_spec: Make, until: Until) -> None:
    script = "echo first; head -c 200000000 /dev/zero; echo last; exec sleep 1000"
    spec = make_spec("sh", "-c", script, output_cap_bytes=200_000)
    with start(spec) as running:
        assert running.identity is not None
        child = Path(f"/proc/{running.identity.pid}/cmdline")
        until(lambda: child.read_bytes().startswith(b"sleep"))
        memory = Path(f"/proc/{running.identity.shim_pid}/status").read_text().split("VmHWM:")[1].split()[0]
        running.stop("cancel")
        result = finish(running)
    kept = spec.stdout_path.read_bytes()
    assert int(memory) < 40_000  # KiB
    assert (result.stdout_bytes, result.truncated) == (200_000_011, True)
    assert len(kept) <= 200_000
    assert kept.startswith(b"first\n")
    assert kept.endswith(b"last\n")
    assert b"bytes left out here" in kept


def test_output_up_to_the_cap_is_whole(make_spec: Make) -> None:
    spec = make_spec("sh", "-c", "seq 1 20000 | head -c 100000", output_cap_bytes=100_000)
    result = run(spec)
    assert spec.stdout_path.read_text() == "".join(f"{n}\n" for n in range(1, 20001))[:100_000]
    assert not result.truncated


def test_a_program_that_prints_too_much_is_killed_where_the_spec_says_so(make_spec: Make) -> None:
    result = run(make_spec("yes", output_cap_bytes=5000, on_cap="kill"))
    assert (result.stopped, result.signal, result.clean) == ("output_cap", signal.SIGKILL, False)


def test_a_full_disk_costs_output_but_not_the_run(make_spec: Make) -> None:
    result = run(make_spec("echo", "lost", stdout_path=Path("/dev/full")))
    assert (result.exit_code, result.output_error, result.stdout_bytes) == (0, "ENOSPC", 5)


def test_a_grandchild_that_holds_stdout_does_not_block_the_end(make_spec: Make, token: str) -> None:
    result = run(make_spec("sh", "-c", "sleep 1000 & echo done"))
    assert (result.exit_code, result.orphans_killed) == (0, 1)
    assert alive(token) == []


def test_a_daemonised_grandchild_deaf_to_term_is_dead_at_the_end(make_spec: Make, until: Until) -> None:
    inner = "trap '' TERM HUP; echo $$ > pid; exec sleep 1000"
    spec = make_spec("sh", "-c", f'(setsid env -i PATH="$PATH" sh -c "{inner}" &); until [ -s pid ]; do :; done')
    result = run(spec)
    assert (result.exit_code, result.orphans_killed, result.survivors) == (0, 1, 0)
    assert not Path("/proc", (spec.cwd / "pid").read_text().strip()).exists()


def test_a_program_that_forks_faster_than_proc_is_read_is_still_ended(make_spec: Make) -> None:
    hopper = "import os\nwhile True:\n if os.fork(): os._exit(0)"
    result = run(make_spec(sys.executable, "-I", "-S", "-c", hopper))
    assert result.survivors == 0


def test_two_processes_share_no_pipe(make_spec: Make, tmp_path: Path) -> None:
    with start(make_spec("sleep", "1000")) as first:
        second_spec = make_spec("sleep", "1000", stdout_path=tmp_path / "2.out", stderr_path=tmp_path / "2.err")
        with start(second_spec) as second:
            assert first.identity is not None
            assert second.identity is not None
            ours = {os.readlink(f"/proc/self/fd/{pipe.fileno()}") for pipe in (first._control, first._status)}
            assert len(ours) == 2
            for pid in (second.identity.shim_pid, second.identity.pid, first.identity.pid):
                held = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
                assert not held & ours
            assert {path.name for path in Path(f"/proc/{second.identity.pid}/fd").iterdir()} == {"0", "1", "2"}


def test_processes_start_from_many_threads_at_once(make_spec: Make, tmp_path: Path) -> None:
    results: list[ProcessResult] = []

    def work(number: int) -> None:
        paths = {"stdout_path": tmp_path / f"{number}.out", "stderr_path": tmp_path / f"{number}.err"}
        results.append(run(make_spec("sh", "-c", "sleep 0.1; exit 7", **paths)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.exit_code for result in results] == [7] * 6


def test_a_large_file_limit_and_no_core_files_reach_the_program(make_spec: Make) -> None:
    spec = make_spec("sh", "-c", "ulimit -c; ulimit -f; head -c 100000 /dev/zero > big", limits={"FSIZE": 51200})
    run(spec)
    assert spec.stdout_path.read_text().splitlines()[:2] == ["0", "100"]
    assert (spec.cwd / "big").stat().st_size == 51200


def test_the_shim_loads_neither_django_nor_site_packages() -> None:
    script = (
        "import sys; sys.path.append('.'); import jobs.executors.shim; "
        "print([m for m in sys.modules if m.split('.')[0] in ('django', 'site', 'pathlib', 'subprocess')])"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
