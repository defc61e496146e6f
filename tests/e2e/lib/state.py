"""The externally visible state of a process that a recording could change; differences are traces of ours."""
import os
import pathlib
import re
import time

from lib import hw

FIELDS = ("Umask", "TracerPid", "Uid", "Gid", "Groups", "ShdPnd", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
          "NoNewPrivs", "Seccomp", "Seccomp_filters", "Speculation_Store_Bypass", "CoreDumping", "THP_enabled", "Cpus_allowed_list",
          "Mems_allowed_list", "NSpid", "NSpgid", "NSsid")
THREAD_FIELDS = ("SigBlk", "SigPnd", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp", "Seccomp_filters", "CapInh", "CapPrm", "CapEff",
                 "CapBnd", "CapAmb", "Cpus_allowed_list", "TracerPid")
FILES = ("limits", "environ", "cmdline", "comm", "auxv", "personality", "coredump_filter", "oom_score_adj", "timerslack_ns", "timers",
         "cgroup", "loginuid", "sessionid", "autogroup", "uid_map", "gid_map")
LINKS = ("cwd", "root", "exe", "ns/user", "ns/mnt", "ns/net", "ns/pid", "ns/ipc", "ns/uts", "ns/time", "ns/cgroup")
# In a recorded program's initial environment, which the kernel shows; the program itself does not have them.
PUT_IN = (b"LD_PRELOAD", b"HEAPWISE_SOCKET", b"PERFETTO_HEAPPROFD_BLOCKING_INIT")
LIBRARY = re.compile(r"(memfd:)?(libheapprofd_glibc_preload|libheapwise_bare)\.so")


def quiet(read):
    try:
        return read()
    except OSError as e:
        return e.strerror


def status(folder, fields):
    text = (folder / "status").read_text()
    return {k: v for k, v in re.findall(r"^(\w+):[ \t]*(.*)$", text, re.M) if k in fields}


def threads(proc):
    all_ = {}
    for t in sorted((proc / "task").iterdir()):
        try:
            policy = (os.sched_getscheduler(int(t.name)), os.sched_getparam(int(t.name)).sched_priority)
            nice = (t / "stat").read_text().rpartition(")")[2].split()[16]
            all_[t.name] = {**status(t, THREAD_FIELDS), "name": (t / "comm").read_text(), "policy": policy, "nice": nice}
        except OSError:
            pass  # it has ended
    return all_


def descriptors(proc):
    all_ = {}
    for n in os.listdir(proc / "fd"):
        try:
            flags = re.search(r"^flags:\s*(\d+)$", (proc / "fdinfo" / n).read_text(), re.M)[1]
            all_[n] = f"{os.readlink(proc / 'fd' / n)} {flags}"
        except OSError:
            pass
    return all_


def mappings(pid):
    """-> (exact mappings of files, shared memory and the kernel; bytes of unnamed memory with the heap)"""
    named, unnamed = [], 0
    for line in (pathlib.Path("/proc") / str(pid) / "maps").read_text().splitlines():
        where, rights, offset, _, inode, *path = line.split(None, 5)
        a, b = (int(x, 16) for x in where.split("-"))
        path = path[0] if path else ""
        if inode == "0" and path in ("", "[heap]") or path.startswith("[anon"):
            unnamed += b - a
        elif path != "[stack]":
            named.append((where, rights, offset, path))
    return named, unnamed


def of_library(mapping):
    return bool(LIBRARY.search(mapping[3]))


def look(pid):
    proc = pathlib.Path(f"/proc/{pid}")
    stat = (proc / "stat").read_text().rpartition(")")[2].split()
    named, _ = mappings(pid)
    return {"status": status(proc, FIELDS), "threads": threads(proc), "descriptors": descriptors(proc),
            **{f: quiet((proc / f).read_bytes) for f in FILES}, **{l: quiet(lambda l=l: os.readlink(proc / l)) for l in LINKS},
            "ids": stat[1:5], "nice": stat[16], "mappings": [m for m in named if not of_library(m)]}


def differ(have, want):
    """-> the differences as text."""
    if isinstance(have, dict) and isinstance(want, dict):
        return [f"{k}: {d}" for k in sorted({*have, *want}) for d in differ(have.get(k), want.get(k))]
    if isinstance(have, list) and isinstance(want, list):
        return [f"new {x}" for x in have if x not in want] + [f"gone {x}" for x in want if x not in have]
    return [] if have == want else [f"{have!r}, was {want!r}"]


def lasting(have, want):
    """Keeps only threads and mappings that exist in both states."""
    threads_ = {t: v for t, v in have["threads"].items() if t in want["threads"]}
    return {**have, "threads": threads_, "mappings": [m for m in have["mappings"] if m in want["mappings"]]}, \
        {**want, "threads": {t: v for t, v in want["threads"].items() if t in threads_}}


def without_agent(state, before):
    """In a JVM the agent stays: its library and its thread, and one socket with a high number on which that waits."""
    new = [n for n in state["descriptors"] if n not in before["descriptors"]]
    if len(new) == 1 and int(new[0]) >= 1000 and re.fullmatch(r"socket:\[\d+\] 02000002", state["descriptors"][new[0]]):
        state["descriptors"].pop(new[0])
    return state


def same(pid, before, what, pool=False, jvm=False, seconds=10):
    """Waits until the process looks as before, which may take a while as it is working."""
    end, wrong = time.monotonic() + seconds, ["not looked at"]
    while wrong:
        have = without_agent(look(pid), before) if jvm else look(pid)
        wrong = differ(*(lasting(have, before) if pool else (have, before)))
        if wrong and time.monotonic() > end:
            raise hw.Failure(f"{what}: " + "\n  ".join(wrong[:20]))
        if wrong:
            time.sleep(0.05)


def at_rest(pid):
    """-> its state once that does not change for a moment."""
    end, last = time.monotonic() + 10, None
    while True:
        now = look(pid)
        if last is not None and (not differ(now, last) or time.monotonic() > end):
            return now
        last = now
        time.sleep(0.05)


def comparable(state):
    """The part that is the same in another run of the program: no addresses, no numbers of pipes and processes."""
    main = min(state["threads"], key=int, default=None)
    return {**{k: state[k] for k in ("limits", "root", "exe", "comm", "personality", "coredump_filter", "oom_score_adj", "timerslack_ns",
                                     "cgroup", "loginuid", "uid_map", "gid_map", "nice", *(l for l in LINKS if l.startswith("ns/")))},
            "cwd": os.path.dirname(state["cwd"]), "status": {k: v for k, v in state["status"].items() if not k.startswith("NS")}, "main thread": state["threads"].get(main),
            "timers": re.sub(rb"(ID|signal|notify): [^\n]*", b"", state["timers"]) if isinstance(state["timers"], bytes) else state["timers"],
            "environ": sorted(x for x in state["environ"].split(b"\0") if x and x.split(b"=")[0] not in PUT_IN), "descriptors": state["descriptors"]}


def kinds(descriptors_):
    return {n: re.sub(r"\[\d+\]|^/\S*(?= )", "", v) for n, v in descriptors_.items()}


def beside(recorded, alone, ours, pool):
    """-> how a recorded process differs from an unrecorded one at the same point; it may have some descriptors of ours,
    close-on-exec, with high numbers."""
    have, want = comparable(recorded), comparable(alone)
    new, old = kinds(have["descriptors"]), kinds(want["descriptors"])
    extra = [n for n in new if n not in old and int(n) >= 1000 and re.fullmatch(r"socket: 0200[04]00\d", new[n])][:ours]
    have["descriptors"] = {} if pool else {n: v for n, v in new.items() if n not in extra}
    want["descriptors"] = {} if pool else old
    return differ(have, want)


def recorded_as(recorded, alone, what, ours, pool=False, seconds=10):
    """Waits until both look the same. alone: an unrecorded process that reaches the same point in its own time."""
    end = time.monotonic() + seconds
    while wrong := beside(recorded, look(alone), ours, pool):
        hw.true(time.monotonic() < end, f"{what}, recorded and alone: " + "\n  ".join(wrong[:20]))
        time.sleep(0.05)


def library_only(pid, what):
    """Checks the file mappings that an attach leaves behind: the library's parts, once (doc/design/targets.md)."""
    ours = [m for m in mappings(pid)[0] if of_library(m)]
    hw.true(ours, f"{what}: was not attached to")
    hw.equal(len({(m[1], m[2]) for m in ours}), len(ours), f"{what}: the library is mapped more than once: {ours}")
    hw.equal(len({m[3] for m in ours}), 1, f"{what}: libraries {ours}")
