#!/usr/bin/env python3
"""What a session can be told to do: each option of its configuration, seen in the trace it writes."""
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from classic import Steps, finish, preloaded, service, session
from lib import hw
from lib.proto import ints, message
from lib.trace import Trace


def packets(path, field):
    """The messages in one field of all packets, and the packets that hold them."""
    data = open(path, "rb").read()
    found = [message(p) for p in message(data)[1]]
    return [(message(p[field][0]), p) for p in found if field in p]


def under_record(box, *options, trace="out.trace", program="steps", env=None):
    """-> (process, do): a target under `heapwise record` that does steps."""
    p = box.start([hw.tool("heapwise"), "record", "-i", "1", "-o", box.path(trace), *options, "--",
                   hw.target(program)], stdin=subprocess.PIPE, env=env)
    hw.equal(p.stdout.readline().strip(), b"ready 1", "steps under record")

    def do(*steps):
        for s in steps:
            p.stdin.write(s.encode() + b"\n")
            p.stdin.flush()
            hw.equal(p.stdout.readline().strip(), b"ok", s)
    return p, do


def quit_record(p):
    p.stdin.write(b"q\n")
    p.stdin.flush()
    out, err = p.communicate(timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, f"record: {hw.tail(err)}")
    return out.decode(), err.decode()


def malloc_info(box):
    """--malloc-info, --smaps and process_stats: the allocator's own figures beside ours."""
    p, do = under_record(box, "--malloc-info", "100ms", "--smaps", "100ms")
    do("a 3000")
    for _ in range(12):
        do("s 120", "a 1")
    out, err = quit_record(p)
    trace = box.path("out.trace")
    hw.sound(trace)
    infos = [m for m, _ in packets(trace, 1900)]
    hw.true(len(infos) >= 3, f"{len(infos)} malloc_info packets")
    last = infos[-1]
    arena, in_use, free = (last[k][0] for k in (2, 4, 5))
    hw.equal(in_use + free, arena, "in use + free = arena")
    hw.true(3000 * 1000 < in_use < 3000 * 1000 * 1.2, f"in use {in_use} bytes of 3,000,000")
    for field, least, what in ((68, 3, "smaps_packet"), (9, 1, "process_stats")):
        n = len(packets(trace, field))
        hw.true(n >= least, f"{n} packets {what}")
    shown = box.run([hw.tool("heapwise"), "report", trace], check=0).stdout.decode()
    hw.true("malloc_info: 2.9" in shown and "RSS" in shown, f"the report:\n{hw.tail(shown)}")


def malloc_info_of_another_moment(box):
    """Figures of malloc that are older than the dump say so, in the file and in words."""
    p, do = under_record(box, "--malloc-info", "1h", "-c", "300ms")
    do("a 3000", "s 1000")
    quit_record(p)
    trace = box.path("out.trace")
    box.run([hw.tool("heapwise"), "convert", "-t", "memory-infra", trace, box.path("out.json")], check=0)
    text = open(box.path("out.json")).read()
    dumps = [e["args"]["dumps"]["allocators"]["malloc"]["attrs"] for e in json.loads(text)["traceEvents"] if e.get("ph") == "v"]
    ages = [int(a["older_by"]["value"], 16) for a in dumps if "older_by" in a]
    hw.true(len(ages) >= 2 and ages == sorted(ages) and ages[-1] > 500, f"{dumps}")
    said = box.run([hw.tool("heapwise"), "infra", trace], check=0).stdout.decode()
    hw.true(re.search(r"malloc itself \([0-9.]+ m?s before\): ", said), said)


def malloc_info_elsewhere(box):
    """jemalloc and tcmalloc have figures, too; with another allocator none are collected, and that is said."""
    found = 0
    for name, has in (("libjemalloc.so.2", True), ("libtcmalloc_minimal.so.4", True), ("libmimalloc.so.2", False)):
        lib = "/usr/lib/x86_64-linux-gnu/" + name
        if not os.path.exists(lib):
            continue
        found += 1
        b = hw.Box()
        try:
            p, do = under_record(b, "--malloc-info", "100ms", env={"LD_PRELOAD": lib})
            do("a 3000")
            for _ in range(6):
                do("s 120", "a 1")
            out, err = quit_record(p)
            infos = [m for m, _ in packets(b.path("out.trace"), 1900)]
            hw.equal(("cannot be asked for its figures" in err, bool(infos)), (not has, has), f"{name}: {hw.tail(err)}")
            if has:
                arena, in_use, free = (infos[-1][k][0] for k in (2, 4, 5))
                hw.equal(in_use + free, arena, f"{name}: in use + free")
                hw.true(3000 * 1000 < in_use < 3000 * 1000 * 1.3, f"{name}: in use {in_use} bytes of 3,000,000")
        finally:
            b.close()
    if not found:
        raise hw.Skip("no other allocator is installed")


def malloc_info_handlers(box):
    """Asked for all the time, in programs that allocate in signal handlers and leave them by a jump."""
    for name in ("sigalloc", "sigjmp", "threads", "crossfree", "fork"):
        plain = box.run([hw.target(name)])
        r = hw.record(box, [hw.target(name)], "--malloc-info", "100ms", trace=f"{name}.trace")
        hw.equal(r.target_stdout, plain.stdout, f"{name}: output")
        hw.exact(hw.sound(r.trace).last(), hw.expectations(plain.stdout), name)


def attach(box, pid, n, out):
    """A recording of a running process by an embedded recorder of its own."""
    d = box.dir / out
    d.mkdir()
    env = {"PERFETTO_PRODUCER_SOCK_NAME": box.path(f"producer{n}"),
           "PERFETTO_CONSUMER_SOCK_NAME": box.path(f"consumer{n}")}
    p = box.start([hw.tool("heap_profile"), "-p", str(pid), "-i", "1", "-o", d], env=env)
    return p, d


def rings(pid):
    """The rings a process has mapped, by the inodes of their memory files."""
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {l.split()[4] for l in lines if "/memfd:" in l and "ring" in l}


def recorders_in_turn(box):
    """One preloaded process, recorded by a service that is killed, then by others, one after the other."""
    d1 = service(box)
    s = preloaded(box, box.own("steps"))
    p1 = session(box, "t_steps")
    s.join().do("s 200", "a 10", "s 100")
    d1.kill()
    d1.wait()
    p1.communicate(timeout=hw.CLOCK)
    s.do("a 5")
    for n, count in ((2, 20), (3, 30), (4, 40)):
        before = rings(s.p.pid)
        p, d = attach(box, s.p.pid, n, f"o{n}")
        hw.wait_for(lambda: (d / "raw-trace").exists(), "the recording")
        # The dead recorder's heartbeat must not have changed for a while before anybody else may have the process.
        until = time.monotonic() + 10
        while time.monotonic() < until and not rings(s.p.pid) - before:
            s.do("a 1", "s 50")
        s.do("s 100", f"b {count}", "s 200")
        p.send_signal(signal.SIGKILL if n == 3 else signal.SIGINT)
        out, err = p.communicate(timeout=hw.CLOCK)
        if n == 3:
            for q in hw.processes("heapprofd", session=p.pid):
                os.kill(q, signal.SIGKILL)
            continue
        hw.equal(p.returncode, 0, f"recorder {n}: {hw.tail(err)}")
        t = hw.sound(str(d / "raw-trace"))
        hw.true(t.last(s.p.pid), f"recorder {n}: no profile: {hw.tail(err)}")
        hw.exact(t.last(s.p.pid), {"fn_b": [2000 * count, count, 2000 * count, count]}, f"recorder {n}")
    s.quit()


def configured(box, heapprofd="", more="", seconds=60, trace="session.trace", options=(), name="t_steps"):
    """A session by perfetto -c from a config of one's own; ended by finish()."""
    name = box.named(name)
    target = f'process_cmdline: "{name}"' if name else ""
    cfg = box.path(trace + ".cfg")
    pathlib.Path(cfg).write_text(
        f"buffers {{ size_kb: 63488 }}\nduration_ms: {seconds * 1000}\n{more}\n"
        "data_sources { config { name: \"android.heapprofd\" heapprofd_config {\n"
        f"  sampling_interval_bytes: 1\n  {target}\n  {heapprofd}\n}} }} }}\n")
    r, w = os.pipe()
    p = box.start([hw.tool("perfetto"), "-c", cfg, "--txt", "-o", box.path(trace), "--notify-fd", str(w), *options],
                  pass_fds=[w], stderr=open(box.path(trace + ".err"), "wb"))
    os.close(w)
    ready, _, _ = select.select([r], [], [], 20)
    p.began = bool(ready) and os.read(r, 1) == b"\0"
    os.close(r)
    return p


def said(box, trace="session.trace"):
    return pathlib.Path(box.path(trace + ".err")).read_text(errors="replace")


def shortened(box, **periods):
    box.env.update({f"HEAPWISE_{k}_MS": str(v) for k, v in periods.items()})


def guardrail_memory(box):
    """max_heapprofd_memory_kb: the profile ends with its reason, the program goes on."""
    shortened(box, GUARDRAIL=200)
    service(box)
    s = preloaded(box, box.own("steps"))
    p = configured(box, "max_heapprofd_memory_kb: 64")
    s.join().do("a 10")
    hw.wait_for(lambda: "max_heapprofd_memory_kb" in said(box), "the limit")
    s.do("s 100", "a 10")
    t = finish(box, p, allow=("guardrail", "disconnected"))
    d = t.last(s.p.pid)
    hw.true(d and d.guardrail, "hit_guardrail")
    hw.exact(d, {"fn_a": [10000, 10, 10000, 10]}, "what was recorded before")
    hw.true("max_heapprofd_memory_kb" in said(box), said(box))
    s.quit()


def guardrail_cpu(box):
    """max_heapprofd_cpu_secs: the same for the recorder's CPU time, of which new callstacks take most."""
    shortened(box, GUARDRAIL=100)
    service(box)
    p = configured(box, "max_heapprofd_cpu_secs: 1 block_client: true", seconds=300, name="t_stacks")
    s = box.start([box.own("stacks"), "17", "100000"], env={"LD_PRELOAD": hw.preload_library()})
    hw.wait_for(lambda: "max_heapprofd_cpu_secs" in said(box), "the limit", 200)
    hw.quiet(0.3)
    hw.true(s.poll() is None, "the target goes on")
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=hw.CLOCK)
    heads = [message(d) for m, _ in packets(box.path("session.trace"), 37) for d in m[5]]
    hw.true(any(d[1][0] == s.pid and 1 in d[10] for d in heads), f"hit_guardrail: {len(heads)} dumps")
    s.terminate()
    s.communicate(timeout=hw.CLOCK)


def report(box, path):
    return json.loads(box.run([hw.tool("heapwise"), "report", "--json", path], check=0).stdout)


def checkpoints(box):
    """A killed recorder leaves the last checkpoint; after an orderly end nobody sees one."""
    shortened(box, CHECKPOINT=200)
    p, do = under_record(box, trace="killed.trace")
    do("a 25", "s 700")
    for q in hw.processes("heapprofd", session=p.pid):
        os.kill(q, signal.SIGKILL)
    do("a 1")
    p.stdin.write(b"q\n")
    p.stdin.flush()
    p.communicate(timeout=hw.CLOCK)
    left = sorted(box.dir.glob("killed.trace*"))
    hw.true(left, "a trace is left")
    t = Trace(left[0])
    hw.true(t.last() and t.last().checkpoint, "the last dump is a checkpoint")
    # A checkpoint lists what changed since the one before.
    first = next(d for d in t.of() if any("fn_a" in x.stack for x in d.samples))
    hw.exact(first, {"fn_a": [25000, 25, 25000, 25]}, "checkpoint")
    shown = report(box, left[0])
    site = [x for x in shown["sites"] if "fn_a" in json.dumps(x)]
    hw.true(site and "25000" in json.dumps(site[0]), f"our report shows it: {shown}")

    p, do = under_record(box, trace="ended.trace")
    do("a 25", "s 700", "f 5")
    quit_record(p)
    t = hw.sound(box.path("ended.trace"))
    hw.true([d for d in t.of() if d.checkpoint], "checkpoints were written")
    hw.equal(report(box, box.path("ended.trace"))["dumps"], 1 + sum(
        d.trigger == "peak" for d in t.of()), "dumps that our report counts")


def min_anonymous_memory(box):
    """min_anonymous_memory_kb: running processes that are smaller are left alone."""
    service(box)
    s = preloaded(box, box.own("steps"))
    s.do("a 10")
    p = configured(box, "min_anonymous_memory_kb: 100000")
    s.do("s 200", "a 10")
    t = finish(box, p)
    hw.equal(t.of(s.p.pid), [], "dumps of the small process")
    p = configured(box, "min_anonymous_memory_kb: 8")
    s.join().do("s 200", "a 10")
    hw.exact(finish(box, p).last(s.p.pid), {"fn_a": [10000, 10, 10000, 10]}, "large enough")
    s.quit()


def skip_symbol_prefix(box):
    service(box)
    s = preloaded(box, box.own("steps"))
    p = configured(box, f'skip_symbol_prefix: "{hw.TARGETS}/"')
    s.join().do("s 200", "a 10", "b 10")
    d = finish(box, p).last(s.p.pid)
    names = {f for x in d.samples for f in x.stack}
    hw.true(not names & {"fn_a", "fn_b", "main"} and "FILTERED" in names and "__libc_start_main" in names, f"{names}")
    s.quit()


def deflate(box):
    """compression_type: the packets behind the first ones are deflated, and the same."""
    service(box)
    s = preloaded(box, box.own("steps"))
    p = configured(box, more="compression_type: COMPRESSION_TYPE_DEFLATE")
    s.join().do("s 200", "a 10")
    t = finish(box, p)
    hw.exact(t.last(s.p.pid), {"fn_a": [10000, 10, 10000, 10]}, "deflated")
    top = [message(x) for x in message(open(box.path("session.trace"), "rb").read())[1]]
    hw.true(any(50 in x for x in top), "compressed_packets")
    hw.true(not any(37 in x for x in top), "no profile packet outside of them")
    hw.true(any("fn_a" in json.dumps(x) for x in report(box, box.path("session.trace"))["sites"]), "our report")
    s.quit()


def attributes(box):
    """perfetto --add-attribute: in the trace as a packet of its own."""
    service(box)
    p = configured(box, more='trace_attributes { attribute { key: "file" string_value: "config" } }',
                   options=["--add-attribute", "build=1234", "--add-attribute", "branch=main"])
    finish(box, p)  # the field is not repeated: a strict reader finds all of them in one message
    found = {}
    for m, _ in packets(box.path("session.trace"), 126):
        for a in m[1]:
            am = message(a)
            found[bytes(am[1][0]).decode()] = bytes(am[3][0]).decode() if 3 in am else am[2][0]
    hw.true(str(found.get("build")) == "1234" and found.get("branch") == "main" and found.get("file") == "config", f"{found}")


def clock_snapshots(box):
    """builtin_data_sources.snapshot_interval_ms; without it one every 10 s; or none but the first."""
    service(box)
    counts = []
    for i, more in enumerate(("snapshot_interval_ms: 200", "", "disable_clock_snapshotting: true snapshot_interval_ms: 100")):
        p = configured(box, more=f"builtin_data_sources {{ {more} }}", trace=f"{i}.trace")
        time.sleep(1.1)  # what is tested: how many come in that time
        finish(box, p, f"{i}.trace")
        counts.append(len(packets(box.path(f"{i}.trace"), 6)))
    hw.true(counts[0] >= 4 and counts[1:] == [1, 1], f"snapshots {counts}")


def max_file_size(box):
    """max_file_size_bytes ends the session, its file whole."""
    service(box)
    s = preloaded(box, box.own("steps"))
    p = configured(box, "continuous_dump_config { dump_interval_ms: 100 }",
                   "write_into_file: true\nmax_file_size_bytes: 8000")
    for _ in range(200):
        s.do("a 1", "s 50")
        if p.poll() is not None:
            break
    hw.equal(p.wait(hw.CLOCK), 0, f"perfetto ended by itself: {said(box)}")
    t = hw.sound(box.path("session.trace"))
    hw.true(8000 <= t.size < 40000 and len(t.of(s.p.pid)) > 2, f"{t.size} bytes, {len(t.of(s.p.pid))} dumps")
    s.quit()


def dump_phase(box):
    """dump_phase_ms: the first of the continuous dumps comes that much after the start."""
    service(box)
    s = preloaded(box, box.own("steps"))
    p = configured(box, "continuous_dump_config { dump_phase_ms: 600 dump_interval_ms: 60000 }")
    s.join().do("a 3", "s 1000", "a 4")
    dumps = finish(box, p).of(s.p.pid)
    hw.equal([d.by_function(["fn_a"])["fn_a"][1] for d in dumps], [3, 7], "dumps")
    # Counted from the session's start; the process may have joined it a little later.
    hw.true(200e6 < dumps[0].ts - dumps[0].start_ts < 1000e6, f"{(dumps[0].ts - dumps[0].start_ts) / 1e6} ms")
    s.quit()


def free_only(box):
    """Continuous dumps while the program only frees: times differ, values fall."""
    service(box)
    s = preloaded(box, box.own("steps"))
    p = configured(box, "continuous_dump_config { dump_interval_ms: 250 }")
    s.join().do("a 40", "s 300")
    for _ in range(4):
        s.do("f 10", "s 250")
    dumps = finish(box, p).of(s.p.pid)
    live = [d.by_function(["fn_a"])["fn_a"][2] for d in dumps if any("fn_a" in x.stack for x in d.samples)]
    hw.true(all(a.ts < b.ts for a, b in zip(dumps, dumps[1:])), "times rise")
    hw.true(live[0] == 40000 and live[-1] == 0 and live == sorted(live, reverse=True) and len(set(live)) >= 4,
            f"live bytes {live}")
    s.quit()


def session_limits(box):
    """A unique name is used once at a time; a user has at most five sessions."""
    service(box)
    more = 'unique_session_name: "mine"'
    p = configured(box, more=more, trace="0.trace")
    q = configured(box, more=more, trace="x.trace")
    hw.true(q.wait(hw.CLOCK) != 0 and not q.began and "'mine'" in said(box, "x.trace"), said(box, "x.trace"))
    finish(box, p, "0.trace")
    p = configured(box, more=more, trace="1.trace")  # free again
    others = [configured(box, trace=f"{i}.trace") for i in range(2, 6)]
    hw.true(p.began and all(o.began for o in others), "five sessions")
    q = configured(box, trace="y.trace")
    hw.true(q.wait(hw.CLOCK) != 0 and not q.began and "too many sessions" in said(box, "y.trace"), said(box, "y.trace"))
    for i, o in enumerate([p, *others], 1):
        finish(box, o, f"{i}.trace")
    hw.true(not os.path.exists(box.path("y.trace")) or os.path.getsize(box.path("y.trace")) == 0,
            "a refused session leaves no data")


def unknown_source(box):
    """A data source we do not have is named in a warning, the others are recorded."""
    service(box)
    s = preloaded(box, box.own("steps"))
    p = configured(box, more='data_sources { config { name: "linux.ftrace" } }\n'
                   'data_sources { config { name: "linux.process_stats" process_stats_config { '
                   'scan_all_processes_on_start: true proc_stats_poll_ms: 200 } } }\n'
                   'data_sources { config { name: "linux.system_info" } }')
    s.join().do("s 300", "a 10", "s 300")
    t = finish(box, p)
    hw.true("linux.ftrace" in said(box), f"warning: {said(box)}")
    hw.exact(t.last(s.p.pid), {"fn_a": [10000, 10, 10000, 10]}, "the profile beside it")
    hw.true(len(packets(box.path("session.trace"), 9)) >= 2, "process_stats")
    hw.true(len(t.process_names) > 5, f"{len(t.process_names)} processes in the tree")
    s.quit()


def stream_allocations(box):
    """stream_allocations: every event as it happened instead of counters."""
    service(box)
    s = preloaded(box, box.own("steps"))
    p = configured(box, "stream_allocations: true")
    s.join().do("s 200", "a 10", "f 4", "s 200")
    finish(box, p)
    made = [x for m, _ in packets(box.path("session.trace"), 74) for x in ints(m[2])]
    freed = [x for m, _ in packets(box.path("session.trace"), 75) for x in ints(m[1])]
    hw.true(made.count(1000) >= 10, f"sizes {made}")
    hw.true(len(freed) >= 4, f"{len(freed)} frees")
    s.quit()


def adaptive(box):
    """adaptive_sampling_*: a buffer that fills makes the interval grow; the statistics say so."""
    service(box)
    p = configured(box, "shmem_size_bytes: 65536 adaptive_sampling_shmem_threshold: 65536 "
                   "adaptive_sampling_max_sampling_interval_bytes: 4096 block_client: true", name="t_saturate")
    s = box.start([box.own("saturate"), "2", "200000"], env={"LD_PRELOAD": hw.preload_library()})
    s.communicate(timeout=hw.CLOCK)
    t = finish(box, p)
    d = t.last(s.pid)
    hw.true(d.orig_interval == 1 and 1 < d.interval <= 4096, f"{d.orig_interval} -> {d.interval}")
    r = box.run([hw.tool("heapwise"), "stats", "--json", "--all", box.path("session.trace")], check=0).stdout
    hw.true(b"sampling_interval_adjusted" in r, hw.tail(r))


def rate(box):
    """--max-rate: who gives more samples a second gets longer intervals; the estimates stay right, and the
    statistics say so."""
    r = hw.record(box, [hw.target("truth"), "1.5"], "--max-rate", "500", interval=256)
    d = hw.sound(r.trace).dumps[-1]
    hw.true(d.orig_interval == 256 and d.interval > 256, f"{d.orig_interval} -> {d.interval}")
    want = hw.expectations(r.target_stdout)
    true_bytes, have = sum(w[0] for w in want.values()), sum(v[0] for v in d.by_function(want).values())
    hw.true(abs(have - true_bytes) < 0.2 * true_bytes, f"{have} of {true_bytes}")
    stats = box.run([hw.tool("heapwise"), "stats", "--json", "--all", r.trace], check=0).stdout
    hw.true(b"sampling_interval_adjusted" in stats, hw.tail(stats))


def chosen_heaps(box):
    """heaps and heap_sampling_intervals; all_heaps without exclude_heaps."""
    service(box)
    for i, (cfg, want) in enumerate((
            ('heaps: "test.pool" heap_sampling_intervals: 1', {"test.pool"}),
            ('heaps: "test.other" heaps: "libc.malloc" heap_sampling_intervals: 1 heap_sampling_intervals: 512',
             {"test.other", "libc.malloc"}),
            ('all_heaps: true exclude_heaps: "test.pool"', {"test.other", "libc.malloc"}))):
        p = configured(box, cfg, name="t_custom", trace=f"{i}.trace")
        r = box.run([box.own("custom")], env={"LD_PRELOAD": hw.preload_library()}, check=0)
        t = finish(box, p, f"{i}.trace")
        expected = hw.expectations(r.stdout)
        have = {d.heap for d in t.dumps if d.samples}
        hw.equal(have, want, cfg)
        for heap, fn in (("test.pool", "fn_pool"), ("test.other", "fn_other")):
            if heap in want:
                hw.exact(t.last(heap=heap), {fn: expected[fn]}, f"{cfg}: {heap}")
        if i == 1:
            hw.equal(t.last().interval, 512, "interval of libc.malloc")


def overrun(box):
    """--no-block-client with the smallest buffer: the profile ends, the program does not notice."""
    service(box)
    want = box.run([hw.target("saturate"), "2", "100000"]).stdout
    p = configured(box, "shmem_size_bytes: 8192 block_client: false", name="t_saturate")
    s = box.start([box.own("saturate"), "2", "100000"], env={"LD_PRELOAD": hw.preload_library()})
    out, _ = s.communicate(timeout=hw.CLOCK)
    hw.equal(out, want, "output")
    d = finish(box, p, allow=("overran", "disconnected")).last(s.pid)
    hw.true(d.overran, "buffer_overran")
    hw.equal(d.client_error, 1, "client_error HIT_TIMEOUT")


def no_errors(box):
    """An ordinary recording: no statistic of severity error or data_loss, and protoc takes the file."""
    script = "import json\nx = [json.dumps({'k': [i] * 50}) for i in range(20000)]\nprint(len(x))\n"
    env = {"PYTHONMALLOC": "malloc"}
    box.run([hw.tool("heapwise"), "record", "-o", box.path("py.trace"), "--malloc-info", "200ms", "--smaps", "200ms", "--",
             "python3", "-c", script], env=env, check=0)
    t = hw.sound(box.path("py.trace"))
    hw.true(t.last() and len(t.last().samples) > 20, "samples")
    r = json.loads(box.run([hw.tool("heapwise"), "stats", "--json", "--all", box.path("py.trace")], check=0).stdout)
    bad = [x for x in r["stats"] if x["severity"] in ("error", "data_loss") and x["value"]
           and x["name"].startswith(("heapprofd", "stackprofile", "clock_sync_failure"))]
    hw.equal(bad, [], "statistics")
    hw.need("protoc")
    with open(box.path("py.trace"), "rb") as f:
        out = subprocess.run(["protoc", "-I", str(hw.ROOT / "proto"), "--decode", "perfetto.protos.Trace",
                              "trace.proto", "heapwise.proto"], stdin=f, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    hw.equal(out.returncode, 0, f"protoc --decode: {hw.tail(out.stderr)}")
    text = out.stdout.decode(errors="replace")
    for word in ("profile_packet {", "clock_snapshot {", "[heapwise.protos.malloc_info] {", "smaps_packet {"):
        hw.true(word in text, f"protoc shows {word}")
    unknown = [l for l in text.splitlines() if l.strip()[:1].isdigit()]
    hw.equal(unknown, [], "fields that the schema does not know")


def default_sockets(box):
    """/run/perfetto is there, but nobody listens in it: the recorder in /tmp is found."""
    # The build may lie below /tmp, which the script covers: it is reached through the working directory.
    root = os.path.commonpath([hw.tool("heapprofd"), hw.preload_library(), hw.target("truth")])
    heapprofd, heap_profile, perfetto, library, truth = (
        os.path.relpath(p, root) for p in (hw.tool("heapprofd"), hw.tool("heap_profile"), hw.tool("perfetto"),
                                           hw.preload_library(), hw.target("truth")))
    script = f"""
mount -t tmpfs none /run && mkdir -p /run/perfetto /run/b || exit 77
mount --bind {root} /run/b && mount -t tmpfs none /tmp || exit 77
cd /run/b
unset PERFETTO_PRODUCER_SOCK_NAME PERFETTO_CONSUMER_SOCK_NAME
export PERFETTO_CONSUMER_SOCK_NAME=/tmp/consumer
PERFETTO_PRODUCER_SOCK_NAME=/tmp/perfetto-producer ./{heapprofd} >&2 & d=$!
while [ ! -e /tmp/consumer ]; do sleep 0.05; done
./{heap_profile} -n t_truth -i 1 -d 2000 --print-config >/tmp/cfg
mkfifo /tmp/started
./{perfetto} -c /tmp/cfg --txt -o /tmp/trace --notify-fd 3 3>/tmp/started >&2 & p=$!
head -c 1 /tmp/started >/tmp/byte
LD_PRELOAD=/run/b/{library} ./{truth} >/tmp/out
wait $p; kill $d; cat /tmp/trace
"""
    r = box.run(["unshare", "-m", "sh", "-c", script], env={"HOME": "/tmp", "TMPDIR": "/tmp"})
    if r.returncode == 77 or b"unshare" in r.stderr:
        raise hw.Skip("no mount namespaces")
    path = box.path("ns.trace")
    pathlib.Path(path).write_bytes(r.stdout)
    hw.exact(hw.sound(path).last(), hw.expectations(box.run([hw.target("truth")]).stdout), hw.tail(r.stderr))


def dump_one(box):
    """heapwise dump PID: of the process that an embedded recorder records, of no other."""
    (p, do), (q, do_q) = under_record(box, trace="p.trace"), under_record(box, trace="q.trace")
    do("a 10")
    do_q("a 10")
    pid = str(hw.processes("t_steps", session=p.pid)[0])
    r = box.run([hw.tool("heapwise"), "dump", pid], check=0)
    hw.true(b"dumps of 1 process written" in r.stdout, hw.tail(r.stdout))
    do("s 300", "a 5")
    do_q("a 5")
    r = box.run([hw.tool("heapwise"), "dump", "1"])
    hw.true(r.returncode != 0 and b"'1' is not being recorded" in r.stderr, hw.tail(r.stderr))
    quit_record(p)
    quit_record(q)
    counts = [[d.by_function(["fn_a"])["fn_a"][1] for d in hw.sound(box.path(t)).of() if d.trigger != "peak"]
              for t in ("p.trace", "q.trace")]
    hw.equal(counts, [[10, 15], [15]], "dumps of both")


def idle_allocations(box):
    """Bytes that nobody used between two dumps, by callsite. Here by the mappings' referenced bits where the
    kernel has no bitmap of idle pages: then the recorder says so."""
    if not os.access("/sys/kernel/mm/page_idle/bitmap", os.W_OK) and not os.access("/proc/self/clear_refs", os.W_OK):
        raise hw.Skip("the kernel tells nothing")
    r = hw.record(box, [hw.target("idle"), "3"], "-c", "700", "--idle-allocations")
    hw.true(os.path.exists("/sys/kernel/mm/page_idle/bitmap") or b"idle page bitmap" in r.stderr, hw.tail(r.stderr))
    dumps = [d for d in hw.sound(r.trace).of() if d.trigger != "peak"]
    seen = [{f: sum(s.idle for s in d.samples if f in s.stack) for f in ("fn_idle", "fn_busy")} for d in dumps]
    print(f"  {seen}")
    hw.equal(seen[0], {"fn_idle": 0, "fn_busy": 0}, "nothing is known before the first look")
    hw.true({"fn_idle": 16 << 20, "fn_busy": 0} in seen, "the block that nobody uses, and only that")
    hw.true(all(s["fn_busy"] == 0 for s in seen), "the block in use")


CASES = {k.replace("_", "-"): v for k, v in list(globals().items())
         if callable(v) and getattr(v, "__module__", "") == "__main__" and k not in
         ("packets", "rings", "under_record", "quit_record", "attach", "configured", "said",
          "shortened", "report")}

if __name__ == "__main__":
    hw.main(CASES)
