"""A part of the other tests once more, with clients of a front. `TEST_FRONT=1` does so for all."""

from __future__ import annotations

import pytest

from tests.interop.smp.conftest import StartRig
from tests.interop.smp.test_delivering import (
    test_a_subscription_and_its_message_come_in_one_block,
    test_only_what_is_in_flight_can_be_acknowledged,
    test_the_second_message_waits_for_the_acknowledgement_of_the_first,
)
from tests.interop.smp.test_services import (
    test_a_block_of_subscribes_is_one_association_each,
    test_case_2_a_service_takes_the_queue_of_another_service,
    test_case_3_a_plain_session_takes_the_queue_of_a_service,
)
from tests.support.smp_router import Rig

__all__ = [
    "test_a_block_of_subscribes_is_one_association_each",
    "test_a_subscription_and_its_message_come_in_one_block",
    "test_case_2_a_service_takes_the_queue_of_another_service",
    "test_case_3_a_plain_session_takes_the_queue_of_a_service",
    "test_only_what_is_in_flight_can_be_acknowledged",
    "test_the_second_message_waits_for_the_acknowledgement_of_the_first",
]

pytestmark = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


@pytest.fixture
async def router(start_rig: StartRig) -> Rig:
    return await start_rig(fronted=True)
