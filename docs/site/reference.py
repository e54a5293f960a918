"""The API reference: one page a package, every public module on it."""

from __future__ import annotations

from pathlib import Path

PACKAGES = {
    "rookery": "Top level: make, register_task, list_tasks, project templates",
    "rookery.experiments": "Settings, runs, recipes, training, imported policies, the gate",
    "rookery.sim": "Environments, scenes, engines, randomization, sensors, rendering",
    "rookery.robots": "Robot definitions and controllers",
    "rookery.tasks": "Tasks",
    "rookery.policies": "Policies, algorithms, training",
    "rookery.sim2real": "Contracts, export and checks",
    "rookery.assets": "Models, terrains, objects",
}


def pages(links: Path) -> dict[str, str]:
    """Markdown by uri."""
    out = {}
    index = ["# API reference\n", "| package | contents |", "|---|---|"]
    for package, contents in PACKAGES.items():
        folder = links.joinpath(*package.split(".")[1:])
        subpackages = [package] if package == "rookery" else [package, *_subpackages(folder, package)]
        for name in subpackages:
            modules = _modules(links.joinpath(*name.split(".")[1:]), name)
            if modules:
                out[f"reference/{name}.md"] = _page(name, modules)
        linked = f"[`{package}`]({package}.md)" if f"reference/{package}.md" in out else f"`{package}`"
        index.append(f"| {linked} | {contents} |")
        index += [f"| [`{name}`]({name}.md) | |" for name in subpackages[1:] if f"reference/{name}.md" in out]
    out["reference/index.md"] = "\n".join(index) + "\n"
    return out


def _subpackages(folder: Path, package: str) -> list[str]:
    found = sorted(f.parent for f in folder.rglob("__init__.py") if f.parent != folder)
    return [f"{package}." + ".".join(f.relative_to(folder).parts) for f in found]


def _modules(folder: Path, package: str) -> list[str]:
    return [f"{package}.{f.stem}" for f in sorted(folder.glob("*.py")) if not f.stem.startswith("_")]


def _page(package: str, modules: list[str]) -> str:
    return f"# {package}\n\n" + "\n\n".join(f"::: {m}" for m in modules) + "\n"
