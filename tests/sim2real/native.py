"""Exported C of an environment's declarations with small untrained networks, as the independent runtime calls it."""

from __future__ import annotations

from pathlib import Path

from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.sim.env import Env
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.c import c_source, policy_arrays
from tests.sim2real.independent_runtime import Runtime


def small_policies(env: Env) -> dict[str, Policy]:
    """An untrained policy for each group."""
    return {
        name: Policy(standard(g.observation_size, g.action.size, (8,), "tanh", obs_clip=10.0, squash="clip"))
        for name, g in env.groups.items()
    }


def write_c(contract: Contract, policies: dict[str, Policy], group: str, folder: Path) -> Runtime:
    """The C of one group, compiled with every warning an error."""
    code, header = c_source(contract, group, policy_arrays(policies[group]), "rookery", "policy.h")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.c").write_text(code, encoding="ascii")
    (folder / "policy.h").write_text(header, encoding="ascii")
    return Runtime(folder)


def runtimes(env: Env, folder: Path) -> dict[str, Runtime]:
    """By group."""
    policies = small_policies(env)
    contract = build_contract(env, policies)
    return {group: write_c(contract, policies, group, folder / group) for group in env.groups}
