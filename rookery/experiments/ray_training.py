"""A group of workers that Ray Train places, watches and starts anew."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from rookery.experiments.network import interface_of


@dataclasses.dataclass(frozen=True)
class WorkerGroup:
    """Workers that all do the same work in a group of torch.distributed.

    Args:
        work: called with `order` by each worker; a function of a module.
        order: its argument.
        workers: how many.
        cpus: processors of each.
        storage: folder for Ray's own files.
        restarts: how often the group is started anew after a loss, at most.
        backend: of torch.distributed.
        silent_s: time after which a worker that does not answer, a stopped one for example, counts as lost, s.
    """

    work: Callable[[dict[str, Any]], None]
    order: dict[str, Any]
    workers: int
    cpus: float
    storage: str
    restarts: int
    backend: str
    silent_s: float


def listen_to_others() -> None:
    """Have gloo listen at the address by which the cluster knows this machine: it would take that of the machine's name, which
    /etc/hosts often gives as 127.0.0.1, where no other machine reaches it. What GLOO_SOCKET_IFNAME says already holds."""
    import ray

    own = interface_of(ray.util.get_node_ip_address())
    if own is not None and not os.environ.get("GLOO_SOCKET_IFNAME"):
        os.environ["GLOO_SOCKET_IFNAME"] = own


def fit(group: WorkerGroup) -> None:
    """Have the group work until it is done; in a process of the cluster, see `Cluster.begin_training`."""
    # read by Ray's controller, whose own limit is 600 s
    os.environ["RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S"] = str(group.silent_s)
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    backend: type[Any] = TorchConfig().backend_cls

    class OwnInterface(backend):  # type: ignore[misc]
        """Ray's, whose processes tell gloo first where the others reach them."""

        def on_start(self, worker_group: Any, backend_config: Any) -> None:
            worker_group.execute(listen_to_others)
            super().on_start(worker_group, backend_config)

    class OwnConfig(TorchConfig):  # type: ignore[misc]
        backend_cls = OwnInterface

    TorchTrainer(
        group.work,
        train_loop_config=group.order,
        torch_config=OwnConfig(backend=group.backend),
        scaling_config=ScalingConfig(num_workers=group.workers, resources_per_worker={"CPU": group.cpus}),
        run_config=RunConfig(storage_path=group.storage, failure_config=FailureConfig(max_failures=group.restarts)),
    ).fit()
