from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.ntf_app import App
from tests.support.ntf_scene import AppScene, serving_apps


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[AppScene]:
    async with serving_apps(tmp_path) as scene:
        yield scene


@pytest.fixture
async def app(scene: AppScene) -> AsyncIterator[App]:
    async with await App.connect(scene.address) as app:
        yield app
