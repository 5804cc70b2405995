"""A real nginx in front of Rheo, with little more than a `proxy_pass`, as its owner would write it."""

import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from ports import reserved_port

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
START_S = 20

CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {http}
    server {{
        listen 127.0.0.1:{port};
        {server}
    }}
}}
"""


class Nginx:
    """One nginx with its own port and folder; `server` and `http` are lines of its configuration."""

    def __init__(self, folder: Path, server: str, http: str = "") -> None:
        assert NGINX is not None
        self.port = reserved_port()
        self._folder = folder
        folder.mkdir()
        configuration = folder / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, port=self.port, server=server, http=http))
        command = [NGINX, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(configuration)]
        self._process = subprocess.Popen(command)
        self._wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise AssertionError(f"nginx did not start: {(self._folder / 'error.log').read_text()}")
