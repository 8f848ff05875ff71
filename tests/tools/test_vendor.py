"""What lies in the tree of others is what we took, with its licence."""

from __future__ import annotations

import pytest

from tools.vendor import FILES, VENDOR, Vendored, digest


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.path.name)
def test_a_vendored_file_is_the_one_that_was_taken(file: Vendored) -> None:
    assert digest(file.path.read_bytes()) == file.sha256


def test_nothing_else_lies_there() -> None:
    assert sorted(VENDOR.iterdir()) == sorted(file.path for file in FILES)


def test_every_package_has_its_licence() -> None:
    for package in {file.package for file in FILES}:
        assert "The MIT License" in (VENDOR / f"{package}.LICENSE").read_text()


def test_no_vendored_script_makes_code_or_markup_of_text() -> None:
    for file in FILES:
        if file.path.suffix == ".js":
            text = file.path.read_text()
            assert [word for word in ("innerHTML", "eval(", "new Function") if word in text] == []
