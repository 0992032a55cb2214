"""Object stores for tests, on ports that the system chooses: S3 by moto, and emulators of Google's and Azure's.

Each is a context manager with `uri` (a bucket of its own) and `environment` (credentials) for the program under test.
"""

import base64
import datetime
import hashlib
import hmac
import http.server
import logging
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import urllib.parse
import urllib.request

BUCKET = "bucket"


class S3:
    """moto's server. `every_nth` requests fail, in turn with 503, 500 and a connection that is cut before an answer."""

    def __init__(self, every_nth=0):
        self.every_nth = every_nth
        self.requests = 0
        self.lock = threading.Lock()
        self.environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def __enter__(self):
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        os.environ.update(self.environment)
        self.application = DomainDispatcherApplication(create_backend_app)
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.port = self.server.server_address[1]
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}/{BUCKET}", method="PUT")).read()
        self.faults_are_on = True
        self.uri = f"s3://{BUCKET}?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"
        return self

    faults_are_on = False
    hidden = ""  # the end of a key that cannot be read

    def answer(self, environ, start_response):
        if self.faults_are_on and self.every_nth:
            self.requests += 1
            turn, rest = divmod(self.requests, self.every_nth)
            if rest == 0:
                if turn % 3 == 2:
                    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                    raise ConnectionResetError
                # The request's body is not read: the connection cannot be used again.
                start_response("503 Slow Down" if turn % 3 == 0 else "500 Internal Server Error",
                               [("Connection", "close")])
                return [b""]
        if self.hidden and environ["REQUEST_METHOD"] in ("GET", "HEAD") and environ["PATH_INFO"].endswith(self.hidden):
            start_response("404 Not Found", [("Content-Length", "0")])
            return [b""]
        # moto answers wrongly, or with 500, where an object is read while it is replaced.
        with self.lock:
            return self.application(environ, start_response)

    def client(self):
        import boto3

        return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", region_name="us-east-1")

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()


class Gcs:
    """gcp-storage-emulator."""

    environment = {}

    def __enter__(self):
        import gcp_storage_emulator.server as emulator

        logging.getLogger("gcp_storage_emulator").setLevel(logging.ERROR)
        # Its own server has one thread, in which a download that Arrow leaves unfinished blocks all other requests.
        emulator.server.HTTPServer = QuietThreadingServer
        # Its handlers share dictionaries without locks; the answer is sent after them.
        emulator.HANDLERS = [(route, {method: self.one_at_a_time(handler) for method, handler in handlers.items()})
                             for route, handlers in emulator.HANDLERS]
        self.server = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket=BUCKET)
        self.server.start()
        port = self.server._api._httpd.server_address[1]
        self.uri = f"gs://anonymous@{BUCKET}?endpoint_override=127.0.0.1:{port}&scheme=http&retry_limit_seconds=10"
        return self

    lock = threading.RLock()

    def one_at_a_time(self, handler):
        def locked(*arguments):
            with self.lock:
                handler(*arguments)
        return locked

    def __exit__(self, *_):
        self.server.stop()


class QuietThreadingServer(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # clients close connections that they have read enough from


PROJECT = pathlib.Path(__file__).parents[2]


def program_of_azurite(folder):
    return pathlib.Path(folder) / "node_modules/.bin/azurite-blob"


class Azure:
    """Azurite, npm's package, which install() has put into a folder."""

    ACCOUNT = "devstoreaccount1"  # the emulator's own, with its published key
    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    environment = {}

    def __init__(self, folder):
        self.program = program_of_azurite(folder)

    @staticmethod
    def install(folder):
        """What it takes is 365 MB. Whether it is there."""
        if not program_of_azurite(folder).exists() and shutil.which("npm"):
            version = re.search(r"^AZURITE_VERSION=(\S+)$", (PROJECT / "versions.env").read_text(), re.MULTILINE)[1]
            subprocess.run(["npm", "install", "--silent", "--no-save", "--prefix", folder, f"azurite@{version}"])
        return program_of_azurite(folder).exists()

    def __enter__(self):
        self.process = subprocess.Popen(
            [self.program, "--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence",
             "--skipApiVersionCheck", "--silent", "--disableTelemetry"],
            stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if found := re.search(r"listens on http://127\.0\.0\.1:(\d+)", line):
                break
        port = found.group(1)
        self.environment = {}
        token = self.shared_access_signature()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/{self.ACCOUNT}/{BUCKET}?restype=container&{token}", method="PUT",
            headers={"Content-Length": "0"})
        urllib.request.urlopen(request).read()
        self.uri = f"abfs://{self.ACCOUNT}@127.0.0.1:{port}/{BUCKET}?enable_tls=false&{token}"
        return self

    def shared_access_signature(self):
        expiry = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        fields = dict(sp="rwdlacup", ss="b", srt="sco", st="", se=expiry, sip="", spr="https,http", sv="2021-08-06")
        text = "\n".join([self.ACCOUNT, *(fields[name] for name in ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv")),
                          "", ""])
        key = base64.b64decode(self.KEY)
        signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
        return urllib.parse.urlencode({name: value for name, value in fields.items() if value} | {"sig": signature})

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
