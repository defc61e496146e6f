#!/usr/bin/env python3
"""
The Debian package. `files`: what it is made of, without building it. `root`: a fresh minimal system with
nothing but the package and what it depends on records, serves, pushes, keeps the administrator's changes over
an upgrade, and has nothing of it left after a purge. `systemd`: the units as shipped, in such a system with
systemd as process 1 (both by `make test-packages`; root, network).

The minimal system is kept in build-deb/root-SUITE.tar, fetched packages in build-deb/archives.
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from lib import hw

DEB = hw.ROOT / "build-deb"
POLICY = hw.ROOT / "packaging" / "policy.conf"
UNITS = hw.ROOT / "src" / "daemon" / "systemd"
SCRIPTS = [hw.ROOT / "tools" / "make-deb", *(hw.ROOT / "packaging" / "deb" / s for s in ("postinst", "prerm", "postrm"))]
# What systemd makes system call filters of (systemd.exec(5): "NoNewPrivileges=yes is implied").
MAKES_FILTERS = re.compile(r"SystemCall|Restrict(AddressFamilies|Namespaces|Realtime|SUIDSGID)|MemoryDenyWriteExecute|LockPersonality|PrivateDevices|"
                           r"Protect(Clock|Hostname|Kernel)")
# What every installation of anything leaves on such a system.
NOT_OURS = re.compile(r"/(proc|sys|dev|tmp|root)/|/var/(log|cache/(apt|ldconfig|debconf)|lib/(apt|dpkg|systemd))/|/etc/[^/]*-$|/etc/\.pwd\.lock$|"
                      r"/etc/ld\.so\.cache$")


# ---- files ----

def uncommented(text):
    return re.sub(r"^#(?=[a-z]+ = )", "", text, flags=re.M)


def policy(box):
    """As shipped it says nothing; uncommented, each line is what the recorder understands; every key is there."""
    text = POLICY.read_text()
    hw.equal([l for l in text.splitlines() if l and not l.startswith("#")], [], "lines that say something")
    source = (hw.ROOT / "src/daemon/policy/policy.c").read_text()
    known = set(re.findall(r'\{"(\w+)", (?:NULL|&p->)', source))
    shown = set(re.findall(r"^#(\w+) = ", text, re.M))
    hw.true(len(known) >= 8 and known <= shown, f"keys {sorted(known)}, in policy.conf {sorted(shown)}")
    said = uncommented(text).replace("alice 1001", "root 1001").replace("group = heapwise", "group = root")
    said = "".join(l for l in said.splitlines(True) if not re.match(r"(\w+) = ", l) or l.split(" = ")[0] in known)
    pathlib.Path(box.path("policy")).write_text(said)
    s = box.start([hw.tool("heapprofd"), "--policy", box.path("policy")])
    hw.wait_for(lambda: os.path.exists(box.path("consumer")) or s.poll() is not None, "the service")
    hw.true(s.poll() is None, hw.tail(s.stderr.read()) if s.poll() is not None else "")


def units(box):
    """systemd reads them without a complaint; the options of the continuous one are options of `serve`."""
    hw.need("systemd-analyze")
    shown = box.run([hw.tool("heapwise"), "help", "serve"]).stdout.decode()
    for path in UNITS.glob("heap*"):
        text = path.read_text().replace("@bindir@", str(hw.built()))
        pathlib.Path(box.path(path.name.removesuffix(".in"))).write_text(text)
        if path.name == "heapwise.service.in":
            for option in re.findall(r"(--[a-z-]+)", re.search(r"^ExecStart=(.*)", text, re.M)[1]):
                hw.true(option in shown, f"serve knows no {option}")
    found = sorted(p for p in map(str, pathlib.Path(box.path("")).iterdir()) if p.endswith((".service", ".socket")))
    hw.true(len(found) >= 4, found)
    # The service has the recorder, whose sockets a second one cannot have; the kernel shows filters to who has none.
    hw.true("--policy" not in pathlib.Path(box.path("heapwise.service")).read_text(), "--policy is a recorder of its own")
    recorder = pathlib.Path(box.path("heapprofd.service")).read_text()
    hw.equal([k for k, v in re.findall(r"^([A-Za-z]+)=(.*)", recorder, re.M) if MAKES_FILTERS.match(k)], [], "filters of the recorder")
    owners = {}
    for path in found:
        text = pathlib.Path(path).read_text()
        user = re.search(r"^User=(.*)", text, re.M)
        for kind, name in re.findall(r"^(Cache|State|Runtime|Logs)Directory=(.*)", text, re.M):
            hw.equal(owners.setdefault((kind, name), user[1]), user[1], f"one user's: {kind} {name}")
    r = box.run(["systemd-analyze", "verify", "--man=no", *found])
    hw.equal((r.returncode, [l for l in r.stderr.decode().splitlines() if "heap" in l]), (0, []), "systemd-analyze verify")


def scripts(box):
    """sh reads them; so does shellcheck, where it is installed."""
    for s in SCRIPTS:
        box.run(["sh", "-n", s], check=0)
        hw.true(os.access(s, os.X_OK) or s.parent.name == "deb", s)
    if shutil.which("shellcheck"):
        box.run(["shellcheck", "-s", "sh", "-S", "warning", "-e", "SC2086", *SCRIPTS], check=0)
    entry = re.search(r"^## (\S+) - (\S+)$", (hw.ROOT / "CHANGELOG.md").read_text(), re.M)
    version = re.search(r"version: '(.*?)'", (hw.ROOT / "meson.build").read_text())[1]
    hw.equal(entry and entry[1], version, "the newest entry of CHANGELOG.md and the version in meson.build")


# ---- a root of its own ----

def suite():
    return re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M)[1]


def base():
    """The minimal system as an archive, made once."""
    tar = DEB / f"root-{suite()}.tar"
    if tar.exists():
        return tar
    hw.need("debootstrap")
    site = os.environ.get("HW_MIRROR", "http://deb.debian.org/debian")
    tree = DEB / "root.new"
    shutil.rmtree(tree, ignore_errors=True)
    for argv in (["debootstrap", "--variant=minbase", suite(), str(tree), site],
                 ["tar", "-C", str(tree), "-cf", str(tar) + ".new", "."]):
        p = subprocess.run(argv, capture_output=True, text=True)
        if p.returncode:
            raise hw.Skip(f"{argv[0]}: {hw.tail(p.stdout + p.stderr, 300)}")
    os.rename(str(tar) + ".new", tar)
    shutil.rmtree(tree)
    return tar


class Root:
    def __init__(self, box):
        self.box, self.dir = box, pathlib.Path(box.path("root"))
        self.dir.mkdir()
        box.run(["tar", "-C", self.dir, "-xf", base()], check=0)
        archives = DEB / "archives"
        archives.mkdir(exist_ok=True)
        box.run(["cp", "-a", f"{archives}/.", self.dir / "var/cache/apt/archives"], check=0)

    def argv(self, command):
        """In mount and pid namespaces of its own: nothing stays mounted, and what it starts ends with it."""
        inside = f"mount -t proc proc {self.dir}/proc && mount --rbind /dev {self.dir}/dev && " \
                 f"exec chroot {self.dir} /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 " \
                 f"DEBIAN_FRONTEND=noninteractive sh -c \"$0\""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, command]

    def do(self, command, check=0, timeout=300):
        r = self.box.run(self.argv(command), timeout=timeout)
        if check is not None and r.returncode != check:
            raise hw.Failure(f"exit {r.returncode}: {command}\n{hw.tail(r.stdout)}\n{hw.tail(r.stderr)}")
        return r.stdout.decode()

    def start(self, command):
        return self.box.start(self.argv(command), stdin=subprocess.PIPE)

    def apt(self, *args):
        return self.do("apt-get -q -y --no-install-recommends " + " ".join(args))

    def keep_archives(self):
        self.box.run(["sh", "-c", f"cp -an {self.dir}/var/cache/apt/archives/*.deb {DEB}/archives/"])

    def files(self):
        found = set()
        for d, dirs, names in os.walk(self.dir):
            at = "/" + os.path.relpath(d, self.dir) if d != str(self.dir) else ""
            found |= {f"{at}/{n}" for n in dirs + names}
        return {f for f in found if not NOT_OURS.search(f) and not NOT_OURS.search(f + "/")}

    def text(self, path):
        return (self.dir / path.lstrip("/")).read_text()


def make(*options):
    p = subprocess.run([hw.ROOT / "tools" / "make-deb", *options, str(DEB)], capture_output=True, text=True)
    if p.returncode:
        raise hw.Failure(f"make-deb: {hw.tail(p.stdout + p.stderr)}")
    return pathlib.Path(p.stdout.splitlines()[-1])


PERL = r"$| = 1; my @k; for my $i (1 .. 20000) { push @k, 'x' x (500 + $i % 7) } print qq(ready\n); <STDIN>;"


def records(root):
    """A program of the minimal system, from its start and while it runs."""
    said = root.do(f"cd /tmp && heapwise record -f -i 1 -o t.trace -- perl -e '{PERL}' </dev/null 2>&1")
    peak = re.search(r"peak ([\d.]+) MiB", said)
    hw.true(peak and 9 < float(peak[1]) < 20, f"20,000 strings of 500 bytes: {said}")
    hw.true("libperl" in said or "perl" in root.do("heapwise report /tmp/t.trace"), said)
    hw.true(root.do("heapwise query /tmp/t.trace 'select count(*) > 0 from heap_profile_allocation'").split()[-1] in ("1", "true"), "query")
    sent = root.do("heapwise push --dry-run --to clickhouse://u@127.0.0.1:1/db /tmp/t.trace")
    hw.true("INSERT" in sent, hw.tail(sent))


def serves(root):
    """The page, and the heap of a recorded program as pprof, by the token."""
    with open(root.dir / "tmp/run.sh", "w") as f:
        f.write(f"""cd /tmp; rm -f token port
(sleep 600; echo) | heapwise record -q -i 1 -o live.trace -- perl -e '{PERL}' &
exec heapwise serve --token-file /tmp/token""")
    p = root.start("sh /tmp/run.sh 2>/tmp/serve.log >/tmp/serve.out")
    said = lambda: (root.dir / "tmp/serve.out").read_text() + (root.dir / "tmp/serve.log").read_text()
    hw.wait_for(lambda: (root.dir / "tmp/serve.out").exists() and re.search(r"http://\S+?:\d+", said()), "serve's address", 30)
    at = re.search(r"http://(?:localhost|127\.0\.0\.1):(\d+)", said())
    token = root.text("tmp/token").strip()

    def get(path):
        r = urllib.request.Request(f"http://localhost:{at[1]}{path}", headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(r, timeout=20) as f:
                return f.read()
        except OSError as e:
            return str(e).encode()
    hw.true(b"<script" in get("/"), "the page")
    hw.wait_for(lambda: get("/debug/pprof/heap?name=perl")[:2] == b"\x1f\x8b", "a heap as pprof", 30)
    text = get("/debug/pprof/heap?name=perl&debug=1").decode()
    hw.true("heap profile" in text, text[:300])
    end(p)


def end(p):
    p.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        p.wait(10)
    if p.poll() is None:
        p.kill()


def continuous(root):
    """What the unit starts, by hand: systemd does not run in there."""
    if "--continuous" not in root.do("heapwise help serve"):
        return
    unit = root.text("usr/lib/systemd/system/heapwise.service")
    command = re.search(r"^ExecStart=(.*)", unit, re.M)[1]
    (root.dir / "var/lib/heapwise").mkdir(mode=0o700, exist_ok=True)
    with open(root.dir / "tmp/run.sh", "w") as f:
        f.write(f"""perl -e 'while (1) {{ push @k, "x" x 5000; select undef, undef, undef, 0.001 }}' &
exec env HEAPWISE_PORT=0 {command} --name perl --every 1s -i 4K""")
    p = root.start("sh /tmp/run.sh >/tmp/cont.log 2>&1")
    kept = lambda: [f for f in (root.dir / "var/lib/heapwise").rglob("*.pb.gz")]
    try:
        hw.wait_for(kept, "profiles in /var/lib/heapwise", 40)
    except hw.Failure as e:
        raise hw.Failure(f"{e}: {root.text('tmp/cont.log')} {root.do('find /var/lib/heapwise')}") from e
    end(p)


def root(box):
    """See above."""
    hw.need("unshare", "dpkg-deb", "dpkg-shlibdeps")
    if os.getuid() != 0:
        raise hw.Skip("chroot wants root")
    first, second = make(), make("--version", "0.1.0-2")
    r = Root(box)
    before, users = r.files(), r.text("/etc/passwd") + r.text("/etc/group")
    shutil.copy(first, r.dir / "tmp/first.deb")
    shutil.copy(second, r.dir / "tmp/second.deb")
    if not list((r.dir / "var/lib/apt/lists").glob("*Packages")):
        r.apt("update")
    r.apt("install /tmp/first.deb")
    r.do("heapwise push --dry-run --to clickhouse://u@127.0.0.1:1/db /etc/heapwise/policy.conf", check=77)
    r.apt("install libcurl4")  # recommended: without it push says so
    r.keep_archives()
    hw.true("heapwise:" in r.text("/etc/passwd") and "heapwise:" in r.text("/etc/group"), "the user")
    hw.equal([f for f in ("/etc/systemd/system/multi-user.target.wants/heapwise.service", "/etc/systemd/system/sockets.target.wants/heapprofd.socket")
              if (r.dir / f[1:]).is_symlink()], [], "units that were enabled")
    hw.equal(r.do("dpkg --verify heapwise"), "", "dpkg --verify")
    r.do("man -w heapwise 2>/dev/null || test -s /usr/share/man/man1/heapwise.1.gz")
    records(r)
    serves(r)
    continuous(r)

    policy_file = r.dir / "etc/heapwise/policy.conf"
    policy_file.write_text(policy_file.read_text() + "never = vault\n")
    r.do("mkdir -p /var/lib/heapwise /var/cache/heapwise /var/cache/heapprofd; touch /var/lib/heapwise/kept")
    r.apt("install /tmp/second.deb")
    hw.true("0.1.0-2" in r.do("dpkg -s heapwise"), "the new version")
    hw.true("never = vault" in policy_file.read_text(), "the administrator's line")
    hw.true((r.dir / "var/lib/heapwise/kept").exists(), "what was recorded")
    records(r)

    r.apt("remove heapwise")
    hw.true(policy_file.exists() and not (r.dir / "usr/bin/heapwise").exists(), "removed, but for the configuration")
    r.apt("purge heapwise")
    r.apt("purge libcurl4")
    r.apt("autoremove --purge")
    hw.equal(sorted(r.files() - before), [], "left behind")
    hw.equal(r.text("/etc/passwd") + r.text("/etc/group"), users, "users and groups")


# ---- the same under systemd ----

BOOT = """
mount --make-rprivate / && mount --bind "$0" "$0" && cd "$0" || exit 1
mount -t proc proc proc; mount -t sysfs sysfs sys; mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run; mount -t tmpfs -o mode=755 tmpfs dev
for f in null zero full random urandom tty; do touch dev/$f; mount --bind /dev/$f dev/$f; done
mkdir -p dev/shm dev/pts old; mount -t tmpfs tmpfs dev/shm; mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts; ln -s pts/ptmx dev/ptmx
ip link set lo up
pivot_root . old; cd /; umount -l /old
exec /usr/bin/env -i container=private PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=journal --show-status=0
"""
WORKS = r"""$| = 1; $SIG{TERM} = sub { exit 7 }; my @k; while (1) { push @k, 'x' x 5000; select undef, undef, undef, 0.02 }"""
SANDBOX = """DynamicUser=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateUsers=yes
PrivateNetwork=yes
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictSUIDSGID=yes
MemoryDenyWriteExecute=yes
LockPersonality=yes
"""
# By name, from their start; the last one without UNIX sockets.
SEPARATE = re.compile(r"Private(Users|Network)=yes\n")
HELD = {"held-plain": "", "held-apart": "PrivateTmp=yes\nProtectSystem=strict\nProtectHome=yes\n", "held-dynamic": "DynamicUser=yes\n",
        "held-service": "SystemCallFilter=@system-service\nSystemCallErrorNumber=EPERM\n", "held-boxed": SEPARATE.sub("", SANDBOX),
        "held-closed": "SystemCallFilter=@system-service\nRestrictAddressFamilies=AF_INET\n"}
PRELOAD = "Environment=LD_PRELOAD=libheapprofd_glibc_preload.so\n"
PROGRAMS = {"plain": "", "dynamic": "DynamicUser=yes\n", "boxed": SANDBOX, "prepared": PRELOAD + "DynamicUser=yes\n", "boxed-prepared": PRELOAD + SANDBOX}


class Machine:
    """systemd as process 1 of a Root, in namespaces and a cgroup of its own."""
    def __init__(self, box, root):
        mounts = [line.split() for line in open("/proc/self/mounts")]
        group = next((m[1] for m in mounts if m[2] == "cgroup2"), None)
        if not group:
            raise hw.Skip("systemd wants cgroup2")
        self.group = pathlib.Path(group) / f"heapwise-test.{os.getpid()}"
        self.group.mkdir()
        self.p = box.start(["unshare", "-fpmunCi", "--kill-child", "sh", "-c", BOOT, root.dir],
                           preexec_fn=lambda: (self.group / "cgroup.procs").write_text("0"))
        hw.wait_for(self.first, "process 1", 20)
        self.box = box
        hw.wait_for(lambda: self.do("systemctl is-system-running", None).strip() in ("running", "degraded"), "systemd", 60)

    def first(self):
        kids = pathlib.Path(f"/proc/{self.p.pid}/task/{self.p.pid}/children").read_text().split()
        return kids and kids[0]

    def do(self, command, check=0, timeout=60):
        r = self.box.run(["nsenter", "-t", self.first(), "-m", "-p", "-u", "-n", "-C", "-i", "-r", "-w", "/usr/bin/env", "-i", "HOME=/root", "LC_ALL=C.UTF-8",
                          "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", command], timeout=timeout)
        if check is not None and r.returncode != check:
            raise hw.Failure(f"exit {r.returncode}: {command}\n{hw.tail(r.stdout)}\n{hw.tail(r.stderr)}")
        return (r.stdout + r.stderr).decode()

    def show(self, unit, what):
        return self.do(f"systemctl show -p {what} --value {unit}").strip()

    def end(self):
        if self.first():
            os.kill(int(self.first()), signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.p.wait(20)
        for d, _, _ in os.walk(self.group, topdown=False):
            hw.wait_for(lambda: remove_group(d), f"cgroup {d} is empty", 10)


def remove_group(path):
    with contextlib.suppress(OSError):
        os.rmdir(path)
    return not os.path.exists(path)


def attached_to(m):
    """Each kind of service is recorded while it runs, also one that systemd has locked in, and runs on."""
    for name in PROGRAMS:
        said = m.do(f"cd /root && heapwise attach -f -d 2s -o {name}.trace {m.show(name, 'MainPID')}")
        hw.true("Perl_safesysmalloc" in said and m.show(name, "ActiveState") == "active", f"{name}: {said}")


def held_at_their_start(m):
    """By name: units that start later are recorded from their first allocation, also those with a mount namespace of their own
    and those with filters of system calls; one whose filter would not let us is attached to in vain, and runs as it always does."""
    units = " ".join(HELD)
    m.do(f"(cd /root && exec heapwise record -f -d 8s -o held.trace --name held >held.out 2>&1) & sleep 2; systemctl start {units}; sleep 2; "
         f"systemctl stop {units}; wait")
    said = m.do("cat /root/held.out")
    count = m.do("heapwise query /root/held.trace 'select count(distinct upid) from heap_profile_allocation'").split()[-1]
    hw.true(count == str(len(HELD) - 1) and "after its start" not in said, f"{count} units: {said}")
    hw.true("to socket, which" in said, f"what the filter of held-closed forbids: {said}")
    hw.equal([m.show(name, "ExecMainStatus") for name in HELD], ["7"] * len(HELD), "they end as they always do")


def kept_continuously(m):
    """Without names it gives up; with names each is kept, also behind a recorder that was killed. The token stays where it belongs."""
    m.do("systemctl start heapwise")
    hw.wait_for(lambda: m.show("heapwise", "ActiveState") == "failed", "it gives up", 40)
    hw.true("continuous = NAME" in m.do("journalctl -u heapwise -o cat"), "the journal says why")
    m.do("echo 'continuous = perl' >>/etc/heapwise/policy.conf; echo HEAPWISE_EVERY=2s >/etc/default/heapwise; systemctl reset-failed heapwise; "
         "systemctl start heapwise")
    kept = lambda: {f.split("-")[-2] for f in m.do("ls /var/lib/heapwise/profiles/2*/", None).split() if f.endswith(".pb.gz")}
    pids = {m.show(name, "MainPID") for name in PROGRAMS}
    hw.wait_for(lambda: pids <= kept(), f"all of {pids} are kept", 40)
    m.do("kill -9 $(systemctl show -p MainPID --value heapprofd)")
    hw.wait_for(lambda: "starting again" in m.do("journalctl -u heapwise -o cat"), "it is told", 20)
    m.do("rm /var/lib/heapwise/profiles/2*/*.pb.gz")
    # Those with a library of their own and filters (DynamicUser= has some) cannot be told of another recorder: a handshake could be their end.
    pids -= {m.show(name, "MainPID") for name in ("prepared", "boxed-prepared")}
    hw.wait_for(lambda: pids <= kept(), f"all of {pids} are kept again", 60)
    token = m.do("cat /var/lib/heapwise/token").strip()
    hw.true(len(token) > 20 and token not in m.do("journalctl -o json"), "the token is in the journal")
    hw.equal(m.do("stat -c '%U %a' /var/cache/heapprofd /var/cache/heapwise").split("\n")[:2], ["heapwise 700", "root 700"], "each has its own cache")
    m.do("systemctl stop heapwise")


def systemd(box):
    """The package on a machine with systemd as process 1: the units as they are shipped."""
    hw.need("unshare", "nsenter", "pivot_root", "ip", "dpkg-deb", "dpkg-shlibdeps")
    if os.getuid() != 0:
        raise hw.Skip("systemd as process 1 wants root")
    r = Root(box)
    shutil.copy(make(), r.dir / "tmp/first.deb")
    r.apt("update")
    r.apt("install systemd-sysv dbus perl /tmp/first.deb")
    r.keep_archives()
    (r.dir / "srv/works.pl").write_text(WORKS)
    for name, lines in PROGRAMS.items():
        (r.dir / f"etc/systemd/system/{name}.service").write_text(f"[Service]\nExecStart=/usr/bin/perl /srv/works.pl\n{lines}")
    shutil.copy(os.path.realpath(r.dir / "usr/bin/perl"), r.dir / "srv/held")
    for name, lines in HELD.items():
        (r.dir / f"etc/systemd/system/{name}.service").write_text(f"[Service]\nExecStart=/srv/held /srv/works.pl\n{lines}")
    m = Machine(box, r)
    try:
        m.do("systemctl enable --now heapprofd.socket heapprofd-programs.socket && systemctl start " + " ".join(PROGRAMS))
        attached_to(m)
        held_at_their_start(m)
        kept_continuously(m)
        m.do("systemctl stop " + " ".join(PROGRAMS))
        hw.equal([m.show(name, "ExecMainStatus") for name in PROGRAMS], ["7"] * len(PROGRAMS), "they end as they always do")
    finally:
        m.end()


if __name__ == "__main__":
    hw.main({"policy": policy, "units": units, "scripts": scripts, "root": root, "systemd": systemd})
