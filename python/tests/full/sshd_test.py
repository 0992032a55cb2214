"""Hosts over a real ssh: a server of this test's own on this machine, with keys of its own. Needs OpenSSH's sshd, and root."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading

import pytest

import paceline.train as train
from paceline.train import FailureConfig, ScalingConfig
from paceline.train.torch import TorchTrainer

SERVER = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = pytest.mark.skipif(SERVER is None or os.geteuid() != 0, reason="needs sshd, and root")

SERVER_CONFIGURATION = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/own_key.pub
PidFile {folder}/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""
CLIENT_CONFIGURATION = """
Host node1 node2
  IdentityFile {folder}/own_key
Host stranger
  IdentityFile {folder}/other_key
Host *
  HostName 127.0.0.1
  Port {port}
  User root
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking accept-new
"""


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    """The user's own ssh, whose configuration leads "node1" and "node2" to a server of this machine."""
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    for key in ("host_key", "own_key", "other_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    place = {"port": _free_port(), "folder": folder}
    (folder / "sshd_config").write_text(SERVER_CONFIGURATION.format(**place))
    (folder / "config").write_text(CLIENT_CONFIGURATION.format(**place))
    pathlib.Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([SERVER, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.PIPE, text=True)
    said = []
    for line in server.stderr:
        said.append(line)
        if "Server listening" in line:
            break
    reader = threading.Thread(target=lambda: said.extend(server.stderr))
    reader.start()
    program = tmp_path / "bin/ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    try:
        assert server.poll() is None, said
        yield said
    finally:
        server.terminate()
        server.wait(30)
        reader.join(30)


def tells_where():
    # Of what ssh has started: its user's login, not the driver's variables.
    return train.get_context().get_world_size(), os.getcwd(), os.environ.get("OF_THE_DRIVER"), "SSH_CONNECTION" in os.environ


# A login has not the environment that the package under test may need.
COMMAND = ["env", f"PYTHONPATH={os.pathsep.join(sys.path)}", sys.executable, "-m", "paceline"]


def fit(run_config, **settings):
    scaling_config = ScalingConfig(num_workers=2, placement_strategy="SPREAD", agent_command=COMMAND, **settings)
    config = run_config(failure_config=FailureConfig(start_timeout_s=60))
    return TorchTrainer(tells_where, scaling_config=scaling_config, run_config=config).fit()


def test_two_hosts(hosts, tmp_path, run_config, monkeypatch):
    monkeypatch.setenv("OF_THE_DRIVER", "yes")
    result = fit(run_config, hosts=["node1", "node2"], listen="127.0.0.1:0")  # names that only ssh knows
    assert result.return_value == (2, str(tmp_path), None, True)
    # Agents end with the run, and their connections with them.
    assert sum("Accepted publickey for root" in line for line in hosts) == 2
    children = subprocess.run(["pgrep", "-f", f"{sys.executable} -m paceline agent"], capture_output=True, text=True).stdout
    assert not children


def test_a_host_that_does_not_know_the_key_is_named(hosts, run_config):
    with pytest.raises(train.TrainingFailedError) as caught:
        fit(run_config, hosts=["node1", "stranger"], listen="127.0.0.1:0")
    assert "node stranger" in str(caught.value) and "Permission denied (publickey" in str(caught.value)
