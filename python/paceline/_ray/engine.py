"""The engine "ray" of one run: a placement group, an actor on each of its nodes, and a thread that looks after them.

    with Engine(scaling_config, failure_config, runtime_env) as settings:
        …  # the run, with `settings` over those of its ScalingConfig

On entry the cluster has given the places, and every node has said that the run can work there. The thread hands the run's
token to the actors as soon as the run has written it, starts other actors where Ray moves lost bundles to, and tells the
agents of nodes that Ray is about to take away. On exit the run holds nothing of the cluster any more. Ray ends the actors and
the placement group of a driver that dies, and agents end with their actors.
"""

import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from paceline._ray import connection
from paceline._ray.agent import Agent
from paceline._ray.bundles import Request, Share, counted, name_of, request_of, shares, without
from paceline.train.errors import ControllerError

_LOOK_EVERY = 1.0  # seconds: at what Ray tells nobody by itself
_TOKEN_EVERY = 0.005
_TELL_EVERY = 30.0  # what is waited for
_LONGEST_PAUSE = 30.0  # between two tries with a node
_END_PATIENCE = 10.0  # for agents, which end with the run
_END_EVERY = 0.1


class Engine:
    def __init__(
        self,
        scaling_config: Any,
        failure_config: Any,
        runtime_env: Optional[Dict[str, Any]] = None,
        starts_python: bool = True,
    ):
        """
        Args:
            scaling_config: What the workers need, and where to listen.
            failure_config: How long Ray may take to give it.
            runtime_env: Of the agents and their workers, beside the driver's.
            starts_python: Whether workers are started with this interpreter, or are a program of another language.
        """
        self._starts_python = starts_python
        self._request: Request = request_of(scaling_config)
        self._listen: str = scaling_config.listen
        self._timeout: float = failure_config.start_timeout_s
        self._runtime_env = runtime_env or {}
        self._folder = ""
        self._group: Any = None
        self._agents: List[Agent] = []
        # By Ray's reference: whose it is, and what is done with what comes.
        self._waiting: Dict[Any, Tuple[Agent, Callable[[Agent, Any], None]]] = {}
        self._pauses: Dict[str, "_Pause"] = {}  # by node
        self._told: Dict[str, int] = {}  # nodes of which the agents know that they go
        self._token = ""
        self._rays_handler: Any = None  # of SIGTERM, while the run hears it
        self._is_over = False  # an agent has said so
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="paceline-ray", daemon=True)

    def __enter__(self) -> Dict[str, Any]:
        connection.connect()
        self._folder = tempfile.mkdtemp(prefix="paceline_ray_")  # its owner's alone
        try:
            self._reserve()
            self._start_agents(time.monotonic() + self._timeout)
            self._thread.start()
        except BaseException:
            self._clear_up()
            raise
        self._take_sigterm()
        address = connection.own_address()
        return {
            "nodes": len(self._agents),
            "listen": self._listen or (f"[{address}]:0" if ":" in address else f"{address}:0"),
            "token_file": str(self._token_file),
            "resources_per_worker": counted(self._request),
            "label_selector": {},
            "accelerator_type": None,
        }

    def __exit__(self, *exception: Any) -> None:
        if self._rays_handler is not None:
            signal.signal(signal.SIGTERM, self._rays_handler)
        self._ending.set()
        self._thread.join()
        self._clear_up()

    def _take_sigterm(self) -> None:
        """Ray ends a driver that gets SIGTERM, but `ray job stop` means a run that stops in order: the run hears it where nobody
        else does.
        """
        handler = signal.getsignal(signal.SIGTERM)
        is_rays = (getattr(handler, "__module__", None) or "").partition(".")[0] == "ray"
        if is_rays and threading.current_thread() is threading.main_thread():
            self._rays_handler = signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def give_up(self) -> None:
        """Ends the wait for Ray in another thread's __enter__(), which raises then."""
        self._ending.set()

    @property
    def _token_file(self) -> pathlib.Path:
        return pathlib.Path(self._folder) / "token"

    # --- before the run ---------------------------------------------------------------------------------------------

    def _reserve(self) -> None:
        """Waits until Ray has reserved what the workers need."""
        ray = connection.library()
        self._refuse_the_impossible()
        request = self._request
        more = {"bundle_label_selector": request.labels} if request.labels else {}
        self._group = ray.util.placement_group(request.bundles, strategy=request.strategy, **more)
        ready, deadline = self._group.ready(), time.monotonic() + self._timeout
        told = time.monotonic() - _TELL_EVERY + 2 * _LOOK_EVERY  # not where Ray has what is wanted
        while not ray.wait([ready], timeout=min(_LOOK_EVERY, max(0.0, deadline - time.monotonic())))[0]:
            if self._ending.is_set():
                raise ControllerError(RuntimeError(f"{request} of Ray were asked for, and are not wanted any more"))
            if time.monotonic() >= deadline:
                raise ControllerError(RuntimeError(
                    f"Ray did not give {request} within {self._timeout:g} s (FailureConfig.start_timeout_s): "
                    f"{connection.table()}. Lower ScalingConfig.num_workers or resources_per_worker, wait for other jobs to end, or "
                    "add nodes"
                ))  # fmt: skip
            if time.monotonic() - told >= _TELL_EVERY:
                told = time.monotonic()
                _say(f"waiting for Ray to give {request}, at most {deadline - told:.0f} s more: {connection.table()}")
        ray.get(ready)

    def _refuse_the_impossible(self) -> None:
        highest = connection.highest() or {}
        for name, each in self._request.each.items() if highest else ():
            wanted, most = each * self._request.workers, highest.get(name, 0)
            if wanted > most:
                raise ControllerError(RuntimeError(
                    f"{self._request} were asked for, that is {wanted:g} {name}, but the cluster can have {most:g} at most: "
                    f"{connection.table()}"
                ))  # fmt: skip

    def _start_agents(self, deadline: float) -> None:
        """An actor on each node, of which the run knows that it can work there."""
        ray = connection.library()
        self._agents = self._new_agents(shares(self._placed(), self._request))
        for agent, facts in [(agent, agent.facts()) for agent in self._agents]:
            try:
                agent.take_facts(self._answer(agent, facts, deadline))
            except ray.exceptions.GetTimeoutError:
                raise ControllerError(RuntimeError(
                    f"Ray has not started the actor on node {agent.name} within {self._timeout:g} s "
                    f"(FailureConfig.start_timeout_s): {connection.table()}"
                )) from None  # fmt: skip
            except (ray.exceptions.RayError, ValueError) as error:
                raise ControllerError(RuntimeError(f"node {agent.name} cannot be used: {_readable(error)}")) from error

    def _answer(self, agent: Agent, reference: Any, deadline: float) -> Dict[str, Any]:
        ray = connection.library()
        try:
            return ray.get(reference, timeout=max(0.1, deadline - time.monotonic()))
        except ray.exceptions.RayActorError:
            if not agent.was_kept:
                raise
            agent.begin_anew()  # it has ended since its last run
            return ray.get(agent.facts(), timeout=max(0.1, deadline - time.monotonic()))

    def _placed(self) -> Dict[int, str]:
        """The node of each bundle; "" while Ray looks for one."""
        table = connection.library().util.placement_group_table(self._group)
        return {int(index): node or "" for index, node in table["bundles_to_node_id"].items()}

    def _new_agents(self, wanted: List[Share]) -> List[Agent]:
        """Those on nodes that live."""
        names = {node["NodeID"]: name_of(node) for node in connection.nodes() if node["Alive"]}
        return [
            Agent(share, self._request, names[share.node], self._group, self._runtime_env, self._starts_python)
            for share in wanted
            if share.node in names
        ]

    # --- the thread -------------------------------------------------------------------------------------------------

    def _look_after(self) -> None:
        ray = connection.library()
        if not self._read_token():
            return
        for agent in self._agents:
            self._serve(agent)
        while not self._ending.is_set():
            try:
                self._take_what_comes(_LOOK_EVERY)
                if not self._is_over:
                    self._replace_the_lost()
                    self._tell_of_drains()
            except ray.exceptions.RayError as error:
                _say(f"Ray: {error}")
                self._ending.wait(_LOOK_EVERY)
        patience = time.monotonic() + _END_PATIENCE
        while self._waiting and time.monotonic() < patience:
            self._take_what_comes(_END_EVERY)

    def _read_token(self) -> bool:
        """Waits until the run has written it."""
        while not self._ending.is_set():
            try:
                self._token = self._token_file.read_text()
                return True
            except FileNotFoundError:
                self._ending.wait(_TOKEN_EVERY)
        return False

    def _take_what_comes(self, seconds: float) -> None:
        if not self._waiting:
            self._ending.wait(seconds)
            return
        for reference in connection.library().wait(list(self._waiting), num_returns=1, timeout=seconds)[0]:
            agent, take = self._waiting.pop(reference)
            take(agent, reference)

    def _serve(self, agent: Agent) -> None:
        self._waiting[agent.serve(self._token)] = (agent, self._take_end)

    def _take_end(self, agent: Agent, reference: Any) -> None:
        ray = connection.library()
        try:
            problem = ray.get(reference)
        except ray.exceptions.RayError as error:
            problem = _readable(error)
        if problem:
            return self._give_up(agent, "" if self._ending.is_set() else problem)
        self._is_over = True
        self._agents.remove(agent)
        agent.leave_in_order()

    def _give_up(self, agent: Agent, problem: str) -> None:
        """What is said of it is said once; its node has a pause before it is tried again."""
        self._agents.remove(agent)
        agent.kill()
        if problem:
            self._pauses.setdefault(agent.share.node, _Pause()).begin()
            _say(f"node {agent.name}: {problem}")

    def _replace_the_lost(self) -> None:
        """Where bundles are that no agent serves: Ray moves them off a node that it has lost."""
        if sum(len(agent.share.bundles) for agent in self._agents if agent.is_ready) == self._request.workers:
            return
        placed = self._placed()
        for agent in [one for one in self._agents if not one.is_ready]:
            if any(placed.get(index) != agent.share.node for index in agent.share.bundles):  # moved once more
                self._waiting = {reference: wait for reference, wait in self._waiting.items() if wait[0] is not agent}
                self._give_up(agent, "")
        wanted = shares(placed, self._request, [agent.share for agent in self._agents])
        for agent in self._new_agents([share for share in wanted if self._may_try(share.node)]):
            self._agents.append(agent)
            self._waiting[agent.facts()] = (agent, self._take_facts)

    def _may_try(self, node: str) -> bool:
        return node not in self._pauses or self._pauses[node].is_over()

    def _take_facts(self, agent: Agent, reference: Any) -> None:
        try:
            agent.take_facts(connection.library().get(reference))
        except (connection.library().exceptions.RayError, ValueError) as error:
            return self._give_up(agent, _readable(error))
        self._serve(agent)

    def _tell_of_drains(self) -> None:
        nodes = {agent.share.node for agent in self._agents}
        for node, deadline in without(connection.draining(), self._told, nodes).items():
            self._told[node] = deadline
            seconds = max(1.0, deadline / 1000 - time.time()) if deadline else 0.0
            for agent in self._agents:
                if agent.share.node == node:
                    _say(f"node {agent.name}: Ray takes it away{f' in {seconds:.0f} s' if seconds else ''}")
                    agent.leaves(seconds)

    # --- after it ---------------------------------------------------------------------------------------------------

    def _clear_up(self) -> None:
        for agent in self._agents:
            agent.kill()
        if self._group is not None and connection.is_connected():
            connection.library().util.remove_placement_group(self._group)
        shutil.rmtree(self._folder, ignore_errors=True)


class _Pause:
    """Grows with each loss of the same node."""

    def __init__(self) -> None:
        self._seconds, self._until = 0.5, 0.0

    def begin(self) -> None:
        self._until = time.monotonic() + self._seconds
        self._seconds = min(_LONGEST_PAUSE, 2 * self._seconds)

    def is_over(self) -> bool:
        return time.monotonic() >= self._until


def _is_loss(error: BaseException) -> bool:
    names = ("ActorDiedError", "ActorUnavailableError", "ActorUnschedulableError", "NodeDiedError", "WorkerCrashedError")
    return type(error).__name__ in names


def _readable(error: BaseException) -> str:
    """Ray's errors of an actor that could not be made have its traceback, and those of one that is lost many lines."""
    if "No module named 'paceline'" in str(error):
        return "the package paceline is not installed there"
    return "Ray has lost it" if _is_loss(error) else str(error)


def _say(text: str) -> None:
    print(f"paceline: {text}", file=sys.stderr)
