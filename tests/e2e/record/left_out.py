#!/usr/bin/env python3
"""What a recording does not have, and what it says about that: children that were not followed, daemons that outlive
their launcher, allocators that are not reached, processes of another name."""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from lib import hw

DAEMON = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *volatile keep;
__attribute__((noinline)) static void *state(size_t n) { void *p = malloc(n); memset(p, 1, n); return p; }
int main(int n, char **v)
{
    (void)n;
    keep = state(5000);
    pid_t child = fork();
    if (child) {
        printf("pid %d\n", (int)child);
        fflush(stdout);
        _exit(0);
    }
    setsid();
    usleep(1500000); /* the launcher is gone, and we have allocated nothing yet */
    for (int i = 0; i < 200; i++)
        keep = state(10000);
    for (int i = 0; i < atoi(v[1]); i++)
        pause();
    _exit(0);
}
"""
# As nginx: the launcher ends before anybody looks, and the others write their titles over the environment.
TITLED = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
void *volatile keep;
int main(void)
{
    int told[2];
    char c;
    char *end = environ[0];
    for (char **e = environ; *e; e++)
        end = *e + strlen(*e);
    keep = malloc(5000);
    if (pipe(told))
        return 1;
    if (fork()) /* the master is below one that ends at once */
        return read(told[0], &c, 1) != 1;
    if (fork())
        _exit(0);
    close(2);
    memset(environ[0], 0, (size_t)(end - environ[0]));
    printf("pid %d\n", (int)setsid());
    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        pid_t worker = fork();
        if (worker == 0) {
            close(told[1]);
            fclose(stdout);
            pause();
        }
        printf("pid %d\n", (int)worker);
    }
    fclose(stdout);
    if (write(told[1], "x", 1) == 1)
        pause();
    return 1;
}
"""
ENDED = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
void *volatile keep;
int main(void)
{
    siginfo_t ended;
    keep = malloc(5000);
    for (int i = 0; i < 3; i++)
        if (fork() == 0)
            _exit(0);
    waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT);
    usleep(700000); /* several looks */
    return 0;
}
"""
OWN = r"""
#include <sys/mman.h>
static char pool[1 << 20];
static unsigned long n;
void *malloc(unsigned long s) { void *p = pool + n; n += (s + 15) & ~15ul; return p; }
void free(void *p) { (void)p; }
int main(void)
{
    char *p = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    p[0] = 1;
    return ((volatile char *)malloc(9))[0];
}
"""


def compiled(box, name, source, *options):
    path = box.path(name + ".c")
    with open(path, "w") as f:
        f.write(source)
    box.run(["gcc", "-O0", "-g", "-fno-builtin", path, "-o", box.path(name), *options])
    return box.path(name)


def daemon(box):
    """--follow-fork: the recording lasts as long as the forked child, which allocates after the launcher's end."""
    exe = compiled(box, "server", DAEMON)
    r = hw.record(box, [exe, "0"], "--follow-fork")
    child = int(r.target_stdout.split()[1])
    d = [d for d in hw.sound(r.trace).of() if d.pid == child]
    hw.true(d and d[-1].total("alloc") >= 2000000, f"of the child: {[(x.pid, x.total('alloc')) for x in d]}")
    hw.true(b"has ended, and the recording lasts" in r.stderr, hw.tail(r.stderr))


TITLES = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char *volatile kept;
static void grow(size_t n) { kept = malloc(n); memset(kept, 1, n); }
int main(int argc, char **argv)
{
    char *end = argv[argc - 1] + strlen(argv[argc - 1]), c;
    pid_t pid = fork();
    if (pid == 0) {
        grow(2000000); /* connects, still by its parent's arguments */
        memset(argv[0], 0, (size_t)(end - argv[0]));
        memset(memcpy(argv[0], "server: w", 9) + 9, 'w', 70);
        printf("%d\n", getpid());
        fflush(stdout);
        for (;;)
            pause();
    }
    grow(1000000);
    if (read(0, &c, 1) != 1 || kill(pid, SIGTERM) < 0)
        return 1;
    return waitpid(pid, NULL, 0) != pid;
}
"""


def titles(box):
    """A worker is named by the title that it writes over its parent's arguments; a long one is cut in the report."""
    exe = compiled(box, "server", TITLES)
    p = box.start([hw.tool("heapwise"), "record", "--follow-fork", "-i", "1", "--no-report", "-o", box.path("t.trace"), "--", exe, "a" * 100],
                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    worker = p.stdout.readline().decode().strip()
    box.run([hw.tool("heapwise"), "dump", worker])
    p.communicate(b"x", timeout=hw.CLOCK)
    title = "server: " + "w" * 71
    names = box.run([hw.tool("heapwise"), "query", box.path("t.trace"), f"select cmdline from process where pid = {worker}"]).stdout.decode()
    hw.true(f'"{title}"' in names, names)
    text = box.run([hw.tool("heapwise"), "report", "--pid", worker, box.path("t.trace")]).stdout.decode()
    hw.true(title[:60] in text and title not in text, text)


def daemon_interrupted(box):
    """Ctrl-C ends such a recording, and the daemon runs on."""
    exe = compiled(box, "server", DAEMON)
    err = box.path("err")
    p = box.start([hw.tool("heapwise"), "record", "-f", "--follow-fork", "-o", box.path("d.trace"), "--", exe, "1"],
                  stdout=open(box.path("out"), "wb"), stderr=open(err, "wb"))
    hw.wait_for(lambda: b"the recording lasts" in open(err, "rb").read(), "the note that it lives on", 20)
    child = int(open(box.path("out")).read().split()[1])
    p.send_signal(signal.SIGINT)
    p.wait(20)
    os.kill(child, 0)
    os.kill(child, signal.SIGKILL)


def not_followed(box):
    """Without --follow-fork children are counted and named."""
    exe = compiled(box, "server", DAEMON)
    r = box.run([hw.tool("heapwise"), "record", "-f", "--json", "-o", box.path("n.trace"), "--", exe, "0"], check=0)
    child = int(r.stdout.split()[1])
    facts = json.loads(r.stdout[r.stdout.index(b"{"):])
    hw.equal(facts["unrecorded_processes"], 1, "children")
    hw.true(f"server ({child})".encode() in r.stderr and b"--follow-fork records" in r.stderr, hw.tail(r.stderr))
    r = box.run([hw.tool("heapwise"), "record", "-f", "--json", "-o", box.path("t.trace"), "--", "sh", "-c", f"{hw.target('truth')} >&2; true"], check=0)
    hw.equal(json.loads(r.stdout[r.stdout.index(b"{"):])["unrecorded_processes"], 0, "below a shell, recorded")


def titled(box):
    """A daemon and its workers, whose launcher has ended and whose environment is gone."""
    exe = compiled(box, "titled", TITLED)
    r = box.run([hw.tool("heapwise"), "record", "-f", "--json", "-o", box.path("n.trace"), "--", exe], check=0, timeout=hw.CLOCK)
    said, _, facts = r.stdout.partition(b"{")
    pids = [int(p) for p in said.split()[1::2]]
    hw.equal(len(pids), 3, "a master and two workers")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    n = json.loads(b"{" + facts)["unrecorded_processes"]
    hw.true(n in (3, 4), f"{n} children")  # 4: the one between was seen, too
    hw.true(f"{n} child processes were not recorded".encode() in r.stderr and b"--follow-fork records" in r.stderr, hw.tail(r.stderr))
    hw.true(all(f"titled ({p})".encode() in r.stderr for p in pids), hw.tail(r.stderr))


def ended(box):
    """Children that have ended, and whose parent has not asked for them, have a name still."""
    exe = compiled(box, "ended", ENDED)
    r = box.run([hw.tool("heapwise"), "record", "-f", "-o", box.path("e.trace"), "--", exe], check=0, timeout=hw.CLOCK)
    note = next((l for l in r.stderr.decode().splitlines() if l.startswith("note: 3 child")), hw.tail(r.stderr))
    hw.equal(note.count("ended ("), 3, note)


def inside(box):
    """An allocator in the program: what it maps was sampled, and malloc was not."""
    exe = compiled(box, "own", OWN)
    for argv in ([exe], ["sh", "-c", f"exec {exe}"]):
        r = box.run([hw.tool("heapwise"), "record", "-f", "--no-passthrough", "-o", box.path("o.trace"), "--", *argv], check=5)
        hw.true(b"[allocator-inside]" in r.stderr and b"heapwise attach" in r.stderr, hw.tail(r.stderr))
    r = box.run([hw.tool("heapwise"), "record", "-f", "--no-passthrough", "--heap", "mmap.anon", "-o", box.path("m.trace"), "--", exe], check=0)
    hw.true(b"[allocator-inside]" not in r.stderr, "only mappings were asked for")


def musl(box):
    """musl's loader is not given the library: attach is what helps."""
    hw.need("/usr/bin/musl-gcc")
    path = box.path("m.c")
    with open(path, "w") as f:
        f.write("int main(void) { return 0; }\n")
    box.run(["musl-gcc", path, "-o", box.path("m")])
    r = box.run([hw.tool("heapwise"), "record", "--no-passthrough", "--", box.path("m")], check=5)
    hw.true(b"[musl]" in r.stderr and b"heapwise attach" in r.stderr, hw.tail(r.stderr))


def by_argument(box):
    """A script's process bears its interpreter's name: the error says which process may be meant."""
    script = box.path("unicornlike")
    with open(script, "w") as f:
        f.write("echo up; read x\n")
    p = box.start(["sh", script], stdin=-1, stdout=-1)
    p.stdout.readline()
    r = box.run([hw.tool("heapwise"), "attach", "unicornlike"], check=1)
    said = r.stderr.decode()
    hw.true(f"{p.pid} ('sh')" in said and "by its number: heapwise attach " in said, said)
    hw.true(str(p.pid) in said.split("heapwise attach")[1].split(), said)
    p.kill()


WORKERS = """
import os, time
os.write(1, b"%d\\n" % os.getpid())
for depth in range(2):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os._exit(0)
    os.write(1, b"%d\\n" % os.getpid())
while True:
    kept = bytearray(100000)
    time.sleep(0.01)
"""


def running_below(box):
    """attach --follow-fork MASTER: what runs below it already is attached to as well, here a child's child."""
    p = box.start(["/usr/bin/python3", "-S", "-E", "-c", WORKERS], stdout=-1)
    master, _, worker = (int(p.stdout.readline()) for _ in range(3))
    a = box.start([hw.tool("heapwise"), "attach", "--follow-fork", "-q", "-i", "1", "-o", box.path("b.trace"), str(master)])
    hw.wait_for(lambda: b"in recording" in box.run([hw.tool("heapwise"), "ps", str(worker)]).stdout, "the worker in a recording", hw.CLOCK)
    box.run([hw.tool("heapwise"), "dump", str(worker)])
    a.send_signal(signal.SIGINT)
    a.wait(hw.CLOCK)
    os.kill(worker, signal.SIGKILL)
    d = [d for d in hw.sound(box.path("b.trace")).of() if d.pid == worker]
    hw.true(d, "the worker's dumps")


def no_place(box):
    """A name that is taken, and a folder that cannot be written to: each has its own words and code."""
    open(box.path("have"), "w").close()
    r = box.run([hw.tool("heapwise"), "record", "-o", box.path("have"), "--", "true"], check=1)
    hw.true(b"[EEXIST]" in r.stderr and b"--force" in r.stderr, hw.tail(r.stderr))
    r = box.run([hw.tool("heapwise"), "record", "-o", "/proc/self/x", "--", "true"], check=1)
    hw.true(b"cannot remove" not in r.stderr, hw.tail(r.stderr))


def shown_names(box):
    """ps shows the name that attach takes, and a long one does not move the columns."""
    names = ["puma 6.4 (tcp://127.0.0.1:8923) [ruby]", "n" * 60 + " -x"]
    for name in names:
        p = box.start(["bash", "-c", f"exec -a '{name}' sleep 100"])
        hw.wait_for(lambda: open(f"/proc/{p.pid}/cmdline").read().startswith(name), "its name", hw.CLOCK)
        lines = box.run([hw.tool("heapwise"), "ps", str(p.pid)]).stdout.decode().splitlines()
        head = next(i for i, line in enumerate(lines) if "NAME" in line and "PROFILE" in line)  # recordings of others come first
        at = lines[head].index("NAME")
        hw.equal(lines[head + 1][at:].split(), [name.split()[0] if len(name.split()[0]) < 24 else "n" * 21 + "...", "yes"], "its row")
        hw.equal(lines[head + 1][at + 24], " ", "its column")
        p.kill()


def held(box):
    """A stopped process: no advice to start it anew."""
    p = box.start(["sleep", "100"])
    os.kill(p.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, p.pid, os.WSTOPPED | os.WNOWAIT)
    r = box.run([hw.tool("heapwise"), "attach", str(p.pid)], check=1)
    hw.true(b"[held]" in r.stderr and b"heapwise record" not in r.stderr, hw.tail(r.stderr))
    p.kill()


if __name__ == "__main__":
    hw.main({"daemon": daemon, "daemon-interrupted": daemon_interrupted, "not-followed": not_followed, "titled": titled, "titles": titles, "ended": ended, "inside": inside, "musl": musl,
             "by-argument": by_argument, "running-below": running_below, "no-place": no_place, "shown-names": shown_names, "held": held})
