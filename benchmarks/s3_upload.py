#!/usr/bin/env python3
"""s3_upload: MB/s of checkpoints into a real server of S3's protocol (moto) that is reached through a proxy which adds
20 ms to each request: Paceline's publication (s3_upload.cpp), Ray Train's upload (peers/s3_upload.py), and as the server's
ceiling the same files put with 8 connections without the proxy. The three take turns; the files are the same.

Runs in the environment of the tests, which has moto.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import logging
import multiprocessing
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

DELAY_S = 0.020
CONNECTIONS = 8
BUCKET = "bucket"
# What a sharded checkpoint of a mid-sized run is made of; and one file, which cannot be sent in parallel as files.
MANY = [1 << 20] * 64
ONE = [64 << 20]


def serve_moto(port) -> None:
    import moto.server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    port.send(server.get_host_and_port()[1])
    threading.Event().wait()  # until the parent ends this process


def pass_bytes(source, target, count: int) -> None:
    portion = memoryview(bytearray(min(count, 1 << 20)))
    while count > 0 and (got := source.readinto1(portion[:count])):
        target.sendall(portion[:got])
        count -= got


def pass_chunks(source, target) -> None:
    """A body in HTTP's chunks, with what comes after the last."""
    size = -1
    while size != 0:
        line = source.readline()
        size = int(line.partition(b";")[0], 16)
        target.sendall(line)
        if size > 0:
            pass_bytes(source, target, size + 2)
    while line.strip():
        line = source.readline()
        target.sendall(line)


def pass_requests(client, server) -> None:
    """Each request of the client, after the delay, until it has no more."""
    source = client.makefile("rb", 1 << 16)
    while line := source.readline():
        head, fields = line, {}
        while line.strip():
            line = source.readline()
            head += line
            name, _, value = line.lower().partition(b":")
            fields[name] = value
        time.sleep(DELAY_S)
        server.sendall(head)
        if b"chunked" in fields.get(b"transfer-encoding", b""):
            pass_chunks(source, server)
        else:
            pass_bytes(source, server, int(fields.get(b"content-length", 0)))


def pass_answers(server, client) -> None:
    while data := server.recv(1 << 16):
        client.sendall(data)


def serve_proxy(port, server_port: int) -> None:
    def both_ways(client) -> None:
        with client, socket.create_connection(("127.0.0.1", server_port)) as server:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            answers = threading.Thread(target=pass_answers, args=(server, client), daemon=True)
            answers.start()
            with contextlib.suppress(OSError):
                pass_requests(client, server)
                server.shutdown(socket.SHUT_WR)
            answers.join()

    with socket.create_server(("127.0.0.1", 0), backlog=256) as proxy:
        port.send(proxy.getsockname()[1])
        while True:  # until the parent ends this process
            threading.Thread(target=both_ways, args=(proxy.accept()[0],), daemon=True).start()


@contextlib.contextmanager
def process(serve, *arguments):
    """A server in a process of its own; gives its port."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.Process(target=serve, args=(theirs, *arguments), daemon=True)
    child.start()
    try:
        yield ours.recv()
    finally:
        child.terminate()
        child.join()


def put_all(port: int, files: list[pathlib.Path], folder: str) -> float:
    """Seconds to put the files with plain requests, as many at once as Paceline has."""
    def put(own: list[pathlib.Path]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for file in own:
            connection.request("PUT", f"/{BUCKET}/{folder}/{file.name}", file.read_bytes(),
                               {"Authorization": "AWS4-HMAC-SHA256 Credential=test/20300101/us-east-1/s3/aws4_request"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"moto answered {answer.status}")
        connection.close()

    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(put, [files[thread::CONNECTIONS] for thread in range(CONNECTIONS)]))
    return time.monotonic() - start


def seconds_of(command: list[str]) -> float:
    environment = os.environ | {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
                                "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull,
                                "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(output.split()[-1])


def make_files(folder: pathlib.Path, sizes: list[int]) -> list[pathlib.Path]:
    folder.mkdir(parents=True)
    files = [folder / f"shard_{number}.bin" for number in range(len(sizes))]
    for file, size in zip(files, sizes):
        file.write_bytes(os.urandom(size))
    return files


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("program", "peer-python", "scratch", "iterations", "round", "data"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    scratch = pathlib.Path(options.scratch)
    peer = [options.peer_python, str(pathlib.Path(__file__).parent / "peers" / "s3_upload.py")]
    rates: dict[str, dict[str, list[float]]] = {}
    with process(serve_moto) as moto, process(serve_proxy, moto) as proxy:
        connection = http.client.HTTPConnection("127.0.0.1", moto)
        connection.request("PUT", f"/{BUCKET}")
        connection.getresponse().read()
        for what, sizes in {"many": MANY, "one": ONE}.items():
            folder = scratch / what
            files = make_files(folder, sizes)
            rates[what] = {"ours": [], "ray": [], "ceiling": []}
            for turn in range(int(options.iterations)):
                uri = f"s3://{BUCKET}/ours_{what}?endpoint_override=127.0.0.1:{proxy}&scheme=http&region=us-east-1"
                seconds = {
                    "ours": seconds_of([options.program, uri, str(folder), str(scratch / "run"), str(turn + 1)]),
                    "ray": seconds_of([*peer, f"127.0.0.1:{proxy}", BUCKET, str(folder), f"{what}_{turn}"]),
                    "ceiling": put_all(moto, files, f"ceiling_{what}_{turn}")}
                for who, took in seconds.items():
                    rates[what][who].append(sum(sizes) / 1e6 / took)
    last = {who: values[-1] for who, values in rates["one"].items()}
    print(json.dumps({
        "samples": rates["many"]["ours"],
        "peers": {"Ray Train": rates["many"]["ray"], "moto's ceiling, no proxy": rates["many"]["ceiling"]},
        "also": {"one file of 64 MiB, Paceline (MB/s)": last["ours"], "one file of 64 MiB, Ray Train (MB/s)": last["ray"],
                 "one file of 64 MiB, moto's ceiling (MB/s)": last["ceiling"]}}))


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    sys.exit(main())
