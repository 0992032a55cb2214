"""A Slurm of three nodes on this machine: one controller and a slurmd for each node, without munge and without systemd.

Its programs are those in PATH, or below the folder PACELINE_SLURM, where Debian's packages slurmctld, slurmd, slurm-client,
slurm-wlm-basic-plugins and what they need are unpacked (`dpkg -x`).
"""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

CONFIGURATION = """
ClusterName=paceline
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
{plugins}
SlurmdParameters=config_overrides
JobRequeue=1
KillWait=5
SlurmdTimeout=10
InactiveLimit=0
{nodes}
PartitionName=p Nodes=n[1-3] Default=YES MaxTime=INFINITE State=UP
"""


def root():
    return os.environ.get("PACELINE_SLURM", "")


def is_there():
    """Whether Slurm's programs are, and this process may start them."""
    return os.geteuid() == 0 and _program("slurmctld") is not None and _program("slurmd") is not None


def _program(name):
    for variant in (name, f"{name}-wlm"):
        found = pathlib.Path(root(), "usr/sbin", variant) if root() else None
        if found and found.exists():
            return str(found)
        if on_path := shutil.which(variant, path=f"{os.environ['PATH']}:/usr/sbin"):
            return on_path
    return None


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Slurm:
    """Use it in a `with` statement; `environment` is what its programs need."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"))
        library = pathlib.Path(root(), "usr/lib/x86_64-linux-gnu")
        if root():
            self.environment["PATH"] = f"{root()}/usr/bin:{os.environ['PATH']}"
            self.environment["LD_LIBRARY_PATH"] = f"{library}:{library}/slurm-wlm"
        host = socket.gethostname().partition(".")[0]
        ports = _free_ports(4)
        text = CONFIGURATION.format(
            host=host,
            folder=folder,
            ports=ports,
            plugins=f"PluginDir={library}/slurm-wlm" if root() else "",
            nodes="\n".join(
                f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[number]} CPUs=2 RealMemory=1000"
                for number in (1, 2, 3)
            ),
        )
        (folder / "slurm.conf").write_text(text)
        self._processes = {}

    def __enter__(self):
        (self.folder / "state").mkdir()
        try:
            self._start("controller", "slurmctld", "-D", "-c")
            for node in ("n1", "n2", "n3"):
                (self.folder / f"spool-{node}").mkdir()
                self.start_node(node)
            self.wait_for(lambda: self.run("sinfo", "--noheader", "--format=%t %D").split() == ["idle", "3"])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if "controller" in self._processes:
            subprocess.run(["scancel", "--full", "--user=root"], env=self.environment, capture_output=True, timeout=60)
            self.wait_for(lambda: self.run("squeue", "--noheader") == "", at_most=30)
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _start(self, name, program, *arguments):
        log = open(self.folder / f"{name}.out", "w")
        command = [_program(program), *arguments, "-f", str(self.folder / "slurm.conf")]
        self._processes[name] = subprocess.Popen(
            command, env=self.environment, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder
        )

    def start_node(self, node):
        helper = ["-d", f"{root()}/usr/sbin/slurmstepd-wlm"] if root() else []
        self._start(node, "slurmd", "-D", "-N", node, *helper)

    def kill_node(self, node):
        """As if its machine had lost its power: with all the processes of jobs there."""
        steps = [step for step in _processes_below(1) + _processes_below(os.getpid()) if f"{node}" in _title(step)]
        self._processes.pop(node).kill()
        for step in steps:
            for process in [*_processes_below(step), step]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def run(self, *command):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def wait_for(self, condition, at_most=120):
        """Slurm tells nobody: it is asked."""
        until = time.monotonic() + at_most
        while not condition():
            assert time.monotonic() < until, {path.name: path.read_text()[-3000:] for path in self.folder.glob("*.log")}
            time.sleep(0.1)

    def submit(self, script, *options, arguments=()):
        """The number of a new job."""
        return self.run("sbatch", "--parsable", *options, str(script), *map(str, arguments)).strip()

    def wait_for_end(self, job, at_most=300):
        """Its last state, once it has ended."""
        states = []

        def has_ended():
            states.append(self.state(job))
            return states[-1] not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED")

        self.wait_for(has_ended, at_most)
        return states[-1]

    def state(self, job):
        fields = self.run("scontrol", "show", "job", "--oneliner", job).split()
        return next(field.partition("=")[2] for field in fields if field.startswith("JobState="))


def _title(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _processes_below(pid):
    below = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parent = int(pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            below.setdefault(parent, []).append(int(entry))
    found = [pid]
    for one in found:
        found += below.get(one, [])
    return found[1:]
