"""A test's own ClickHouse server: on loopback, with its data in the box."""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

CONFIG = """<yandex>
<logger><level>warning</level><log>{dir}/log</log><errorlog>{dir}/err</errorlog></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>{dir}/data/</path><tmp_path>{dir}/tmp/</tmp_path>
<users_config>users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>268435456</mark_cache_size>
<remote_servers><pair><shard><internal_replication>true</internal_replication>
<replica><host>127.0.0.1</host><port>{tcp}</port></replica></shard></pair></remote_servers>
<macros><shard>1</shard><replica>one</replica></macros>
</yandex>
"""
USERS = """<yandex><profiles><default><max_memory_usage>3000000000</max_memory_usage></default></profiles>
<users>{users}</users><quotas><default></default></quotas></yandex>
"""
USER = """<{name}><password>{password}</password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></{name}>"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def installed():
    return shutil.which("clickhouse-server") or (os.path.exists("/usr/sbin/clickhouse-server") and
                                                 "/usr/sbin/clickhouse-server")


class Server:
    """It runs once it is constructed. users: name -> password."""

    def __init__(self, directory, users=None):
        self.dir = pathlib.Path(directory)
        self.port = free_port()
        for d in ("data", "tmp"):
            (self.dir / d).mkdir(parents=True, exist_ok=True)
        users = {"default": "", **(users or {})}
        (self.dir / "users.xml").write_text(USERS.format(users="".join(
            USER.format(name=n, password=p) for n, p in users.items())), encoding="utf-8")
        (self.dir / "config.xml").write_text(CONFIG.format(dir=self.dir, http=self.port, tcp=free_port()))
        self.p = None
        self.start()

    def start(self):
        self.p = subprocess.Popen([installed(), f"--config-file={self.dir}/config.xml"], cwd=self.dir,
                                  stdin=subprocess.DEVNULL, stdout=open(self.dir / "out", "ab"),
                                  stderr=subprocess.STDOUT, start_new_session=True)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                self.ask("SELECT 1")
                return
            if self.p.poll() is not None:
                break
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"clickhouse-server does not start: {(self.dir / 'out').read_text()[-2000:]}")

    def stop(self):
        if self.p and self.p.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.p.pid, signal.SIGKILL)
            self.p.wait(20)

    def ask(self, sql, data=None, database="default", timeout=60, **settings):
        """-> the answer's text."""
        query = {"database": database, **settings}
        body = sql.encode() if isinstance(sql, str) else sql
        if data is not None:
            query["query"], body = sql, data
        url = f"http://127.0.0.1:{self.port}/?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=timeout) as r:
                return r.read().decode(errors="surrogateescape")
        except urllib.error.HTTPError as e:
            raise RuntimeError(f"{sql}: {e.read().decode(errors='replace')}") from None

    def url(self, database, user=None):
        return f"clickhouse://{user + '@' if user else ''}127.0.0.1:{self.port}/{database}"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()
