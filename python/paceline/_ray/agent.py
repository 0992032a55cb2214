"""The driver's side of an actor that starts an agent, and the actors that wait for the next run."""

import json
import os
import sys
import threading
from typing import Any, Dict, Hashable, List, Tuple

from paceline._ray import connection
from paceline._ray.agent_actor import AgentActor, GpuHolder, versions
from paceline._ray.bundles import Request, Share, agent_arguments, bundle_options, difference

_KEPT_SECONDS = 600.0


class Agent:
    """Of one share. The placement group has reserved what the run needs, so the actor takes nothing. It stays for a while after
    the run, and the next begins at once, because the processes there have imported torch already. Which GPUs are reserved Ray
    says to actors in the bundles alone: with GPUs each bundle has a holder, which ends with the run.
    """

    def __init__(self, share: Share, request: Request, name: str, group: Any, runtime_env: Dict[str, Any], starts_python: bool):
        self.share, self.name = share, name
        self.is_ready = False  # it has said that the run can work there
        self._request, self._gpus = request, None
        self._arguments: List[Any] = []
        self._runtime_env, self._starts_python = runtime_env, starts_python
        self._key = (share.node, len(share.bundles), str(request), json.dumps(runtime_env, sort_keys=True, default=str))
        self._holders = [_holder(index, request, group) for index in sorted(share.bundles)] if request.each.get("GPU") else []
        self.was_kept, self._actor = _kept.take(self._key)
        if not self.was_kept:
            self.begin_anew()

    def begin_anew(self) -> None:
        """With an actor that no run has had."""
        ray = connection.library()
        on_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(self.share.node, soft=False)
        options = {"num_cpus": 0, "scheduling_strategy": on_node, "max_concurrency": 4, "max_restarts": 0}
        if self._runtime_env:
            options["runtime_env"] = self._runtime_env
        self.was_kept = False
        self._actor = ray.remote(AgentActor).options(**options).remote()

    def facts(self) -> Any:
        return self._actor.facts.remote(sys.executable, *[holder.gpus.remote() for holder in self._holders])

    def take_facts(self, facts: Dict[str, Any]) -> None:
        """ValueError where the run cannot work on the node."""
        wanted = versions()
        if not self._starts_python:  # the program brings its own torch
            wanted = {"Paceline": wanted["Paceline"]}
        if differs := difference(wanted, facts["versions"]):
            raise ValueError(f"it has other versions than this machine: {differs}; install the same on all nodes")
        if not facts["has_program"]:
            raise ValueError("its package paceline lacks the program `paceline`; install it as on this machine")
        if self._starts_python and not facts["has_interpreter"]:
            raise ValueError(
                f"it has no {sys.executable}, the driver's interpreter, with which workers are started; its own is "
                f"{facts['interpreter']}. Give all nodes one environment at one path"
            )
        self._gpus = facts["gpus"]
        self._arguments = agent_arguments(self.share, self._request, facts["address"], self.name)
        self.is_ready = True

    def serve(self, token: str) -> Any:
        return self._actor.serve.remote(token, self._arguments, self._gpus, sys.executable, os.getcwd())

    def leaves(self, seconds: float) -> None:
        self._actor.leaves.remote(seconds)

    def leave_in_order(self) -> None:
        """The run is over; the actor may serve another."""
        self._let_go()
        _kept.put(self._key, self._actor)

    def kill(self) -> None:
        self._let_go()
        if connection.is_connected():
            connection.library().kill(self._actor)

    def _let_go(self) -> None:
        for holder in self._holders if connection.is_connected() else ():
            connection.library().kill(holder)
        self._holders = []


def _holder(index: int, request: Request, group: Any) -> Any:
    ray = connection.library()
    in_bundle = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
    return ray.remote(GpuHolder).options(**bundle_options(request), scheduling_strategy=in_bundle, max_restarts=0).remote()


class _Kept:
    """Actors that wait for another run, for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actors: Dict[Hashable, List[Tuple[Any, threading.Timer]]] = {}

    def put(self, key: Tuple, actor: Any) -> None:
        timer = threading.Timer(_KEPT_SECONDS, self._end, (self._of_connection(key), actor))
        timer.daemon = True
        with self._lock:
            self._actors.setdefault(self._of_connection(key), []).append((actor, timer))
        timer.start()

    def take(self, key: Tuple) -> Tuple[bool, Any]:
        """Whether there was one, and it."""
        with self._lock:
            waiting = self._actors.get(self._of_connection(key))
            if not waiting:
                return False, None
            actor, timer = waiting.pop()
        timer.cancel()
        return True, actor

    def _end(self, key: Tuple, actor: Any) -> None:
        with self._lock:
            self._actors[key] = [one for one in self._actors.get(key, ()) if one[0] is not actor]
        if connection.is_connected() and key[0] == self._of_connection(())[0]:
            connection.library().kill(actor)

    @staticmethod
    def _of_connection(key: Tuple) -> Tuple:
        """Actors end with the connection that they were made over."""
        return (connection.library().get_runtime_context().get_job_id(), *key)


_kept = _Kept()
