"""Run `make torture`: all test files, or the named ones, at full scale; write the figures into docs/reliability.md.

Whatever the tests do, none of their processes, mounts, loop devices or files remain when the run ends.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from torture import figures  # noqa: E402

MARK = "MEMFS_TORTURE"  # environment variable of every process of a run
SHUTDOWN_SECONDS = 60  # for pytest to end after an interrupt


def main(names: Sequence[str]) -> int:
    """Run the tests, print the table, update the page; return the exit code of pytest."""
    here, began = Path(__file__).parent, time.monotonic()
    files = [str(here / f"test_{name}.py") for name in names] or [str(here)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # background jobs of a shell ignore SIGINT, and pytest would inherit that
    with run_directory() as folder:
        recorded = folder / "figures"
        code = _pytest([*files, "--durations=12"], folder, {figures.FIGURES_VARIABLE: str(recorded)})
        rows = [row for row in figures.read_figures(recorded) if row.guarantee]
        ran = {row.test for row in figures.read_figures(recorded)}
        print(f"\n{figures.table(rows)}\n\n{(time.monotonic() - began) / 60:.1f} minutes")
        if code in {0, 1}:
            page = figures.PAGE.read_text(encoding="utf-8")
            figures.PAGE.write_text(figures.update_page(page, rows, ran, figures.machine(folder)), encoding="utf-8")
    return code


def _pytest(arguments: Sequence[str], folder: Path, settings: dict[str, str]) -> int:
    """Run pytest with its temporary files in a directory; kill it SHUTDOWN_SECONDS after an interrupt."""
    env = {**os.environ, **settings, MARK: folder.name, "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "pytest", "-m", "torture", "-s", "-p", "no:cacheprovider", *arguments]
    with subprocess.Popen(command, cwd=figures.REPOSITORY, env=env) as process:
        try:
            return process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(SHUTDOWN_SECONDS)
            process.kill()
            raise


@contextmanager
def run_directory() -> Iterator[Path]:
    """Yield a directory for a run; afterwards remove its processes, mounts and files."""
    folder = Path(tempfile.mkdtemp(prefix="memfs-torture-"))
    folder.chmod(0o755)  # some tests run as another user
    try:
        yield folder
    finally:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        _end_processes(folder.name)
        _unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(signal.SIGINT, before)
        print("everything was removed" if not folder.exists() else f"{folder} could not be removed", file=sys.stderr)


def _end_processes(name: str) -> None:
    """Kill the processes whose environment carries the mark of this run."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and f"{MARK}={name}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)


def _unmount(folder: Path) -> None:
    """Unmount everything below a directory, and detach the loop devices of its files."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    for place in sorted((place for place in mounts if Path(place).is_relative_to(folder)), reverse=True):
        subprocess.run(["umount", "-l", place], check=False)
    listed = subprocess.run(["losetup", "-nO", "NAME,BACK-FILE"], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        device, _, file = line.partition(" ")
        if Path(file.strip()).is_relative_to(folder):
            subprocess.run(["losetup", "-d", device], check=False)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
