"""Suites that many test modules share are not test modules; pytest has to be told of them."""

import pytest

pytest.register_assert_rewrite("tests.conformance.store")
