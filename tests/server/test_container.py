from __future__ import annotations

from pathlib import Path

from headgate.server.container import MARKS, is_in_container


def test_a_machine_of_its_own_is_no_container(tmp_path: Path) -> None:
    assert not is_in_container({}, tmp_path)


def test_docker_and_podman_leave_a_file(tmp_path: Path) -> None:
    for number, mark in enumerate(MARKS):
        path = tmp_path / str(number) / mark
        path.parent.mkdir(parents=True)
        path.touch()
        assert is_in_container({}, tmp_path / str(number))


def test_kubernetes_sets_a_variable(tmp_path: Path) -> None:
    assert is_in_container({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)
