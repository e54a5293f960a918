"""Bundles of stored policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from rookery.experiments.runs import open_run
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.export.bundle import export_bundle
from tests.sim2real.runtime.programs import build


@pytest.fixture(scope="session")
def hover_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the stored drone-hover policy."""
    policies, contract = open_run(Path("drone-hover"))
    return export_bundle(policies, contract, tmp_path_factory.mktemp("hover") / "bundle")


@pytest.fixture(scope="session")
def hover_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the stored drone-hover policy with its C++ program, built."""
    bundle = export_bundle(*open_run(Path("drone-hover")), tmp_path_factory.mktemp("hover") / "bundle", target="linux")
    build(bundle)
    return bundle


@pytest.fixture(scope="session")
def walk_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the stored go2-velocity policy with its C++ program, built."""
    bundle = export_bundle(*open_run(Path("go2-velocity")), tmp_path_factory.mktemp("walk") / "bundle", target="linux")
    build(bundle)
    return bundle


@pytest.fixture(scope="session")
def walk_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the stored go2-velocity policy."""
    policies, contract = open_run(Path("go2-velocity"))
    return export_bundle(policies, contract, tmp_path_factory.mktemp("walk") / "bundle")


@pytest.fixture(scope="session")
def reach_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the stored table-reach policy."""
    policies, contract = open_run(Path("table-reach"))
    return export_bundle(policies, contract, tmp_path_factory.mktemp("reach") / "bundle")


@pytest.fixture(scope="session")
def reach_group() -> ContractGroup:
    """The contract's group of the stored table-reach policy, an arm's, without a bundle."""
    (group,) = open_run(Path("table-reach"))[1].groups.values()
    return group


@pytest.fixture(scope="session")
def drawer_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the stored table-drawer-open policy."""
    policies, contract = open_run(Path("table-drawer-open"))
    return export_bundle(policies, contract, tmp_path_factory.mktemp("drawer") / "bundle")
