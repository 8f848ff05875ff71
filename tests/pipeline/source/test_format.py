"""The format as Spark calls it: options and modes that do not exist are refused."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from headgate.errors import PipelineError
from headgate.pipeline.jobs import sink
from headgate.pipeline.source import feed, options
from headgate.pipeline.source.format import BATCH_SINK, SOURCE, STREAM_SINK, Headgate
from headgate.pipeline.source.schema import FACTS

ROWS = StructType().add("body", "string")


@pytest.mark.parametrize("call", ["reader", "streamReader"])
def test_an_option_of_the_source_that_does_not_exist_is_refused(call: str) -> None:
    made = Headgate({"path": "/nowhere", "maxfacts2": "3"})
    with pytest.raises(PipelineError, match="no option maxfacts2; did you mean maxFacts"):
        getattr(made, call)(FACTS)


@pytest.mark.parametrize("call", ["writer", "streamWriter"])
def test_an_option_of_the_sink_that_does_not_exist_is_refused(call: str) -> None:
    made = Headgate({"router": "http://127.0.0.1:1", "quue": "bmq://orders/q"})
    with pytest.raises(PipelineError, match="no option quue; did you mean queue"):
        getattr(made, call)(ROWS, False)


def test_an_option_like_no_other_is_answered_with_all_of_them() -> None:
    with pytest.raises(PipelineError, match="no option zzz; there are router, token, "):
        Headgate({"zzz": ""}).reader(FACTS)


def test_a_name_that_only_streams_have_is_no_option_of_a_batch() -> None:
    made = Headgate({"checkpointlocation": "there"})
    with pytest.raises(PipelineError, match="no option checkpointlocation"):
        made.writer(ROWS, False)


def test_messages_are_not_overwritten() -> None:
    made = Headgate({"router": "http://127.0.0.1:1", "queue": "bmq://orders/q"})
    with pytest.raises(PipelineError, match=r'write with \.mode\("append"\)'):
        made.writer(ROWS, True)


def test_every_option_that_is_read_exists() -> None:
    text = "".join(Path(inspect.getfile(it)).read_text() for it in (options, feed, sink))
    read = set(re.findall(r'\b(?:given|options)(?:\.get\(|\[)"(\w+)"', text))
    known = {name.lower() for name in (*SOURCE, *BATCH_SINK, *STREAM_SINK)}
    assert len(read) > 10
    assert read - known == set()
