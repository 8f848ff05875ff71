"""The format as Spark calls it: misspelt options and other modes are refused."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from headgate.errors import PipelineError
from headgate.pipeline.jobs import sink
from headgate.pipeline.source import feed, options
from headgate.pipeline.source.format import BATCH_SINK, SINK, SOURCE, Headgate, check_options
from headgate.pipeline.source.schema import FACTS

ROWS = StructType().add("body", "string")


@pytest.mark.parametrize("call", ["reader", "streamReader"])
def test_a_misspelt_option_of_the_source_is_refused(call: str) -> None:
    made = Headgate({"path": "/nowhere", "maxfacts2": "3"})
    with pytest.raises(PipelineError, match="no option maxfacts2; did you mean maxFacts"):
        getattr(made, call)(FACTS)


@pytest.mark.parametrize("call", ["writer", "streamWriter"])
def test_a_misspelt_option_of_the_sink_is_refused(call: str) -> None:
    made = Headgate({"router": "http://127.0.0.1:1", "quue": "bmq://orders/q"})
    with pytest.raises(PipelineError, match="no option quue; did you mean queue"):
        getattr(made, call)(ROWS, False)


def test_options_of_spark_itself_pass() -> None:
    """A stream's writer is given these, and perhaps others."""
    check_options({"checkpointLocation": "there", "queryName": "orders"}, SINK)


def test_messages_are_not_overwritten() -> None:
    made = Headgate({"router": "http://127.0.0.1:1", "queue": "bmq://orders/q"})
    with pytest.raises(PipelineError, match=r'write with \.mode\("append"\)'):
        made.writer(ROWS, True)


def test_every_option_that_is_read_exists() -> None:
    text = "".join(Path(inspect.getfile(it)).read_text() for it in (options, feed, sink))
    read = set(re.findall(r'\b(?:given|options)(?:\.get\(|\[)"(\w+)"', text))
    known = {name.lower() for name in (*SOURCE, *BATCH_SINK)}
    assert len(read) > 10
    assert read - known == set()
