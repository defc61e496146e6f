/* doctor: what this machine permits and lacks, one line each; the last check really records. */
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "base/text/text_parts.h"
#include "base/text/utf8.h"
#include "cfi/cfi.h"
#include "cli/cli.h"
#include "daemon/execwatch/exec_watch.h"
#include "daemon/policy/policy.h"
#include "daemon/recorder.h"
#include "elf/elf.h"
#include "enrich/symbols/debuginfod.h"
#include "fleet/store/http_client.h"
#include "proc/maps.h"
#include "record/controller.h"
#include "record/launch.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

enum verdict { GOOD, NOTE, BAD };

struct check {
    const char *name;
    enum verdict verdict;
    char text[300];
};

struct report {
    struct check checks[24];
    size_t n;
};

static void say(struct report *r, const char *name, enum verdict v, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void say(struct report *r, const char *name, enum verdict v, const char *fmt, ...)
{
    struct check *c = &r->checks[r->n++];
    va_list ap;
    va_start(ap, fmt);
    c->name = name;
    c->verdict = v;
    (void)vsnprintf(c->text, sizeof c->text, fmt, ap); /* a truncated line will do */
    va_end(ap);
}

/* One of two texts: the good news, or `verdict` and the problem. */
static void say_either(struct report *r, const char *name, bool is_good, const char *good,
                       enum verdict verdict, const char *otherwise)
{
    say(r, name, is_good ? GOOD : verdict, "%s", is_good ? good : otherwise);
}

/* The number in a file of /proc or /sys; -1 if there is none. */
static long number_in(const char *path)
{
    char *text = NULL;
    size_t n;
    uint64_t v;
    if (hw_file_read(AT_FDCWD, path, 4096, &text, &n, NULL) < 0)
        return -1;
    text[strcspn(text, "\n")] = 0;
    long result = hw_parse_uint(text, &v, NULL) == 0 ? (long)v : -1;
    free(text);
    return result;
}

static void check_library(struct report *r)
{
    struct hw_error err = {0};
    char *path = NULL;
    bool has = hw_launch_find_library(NULL, NULL, &path, &err) == 0;
    say_either(r, "client library", has, path, BAD, err.text);
    free(path);
#if defined(__x86_64__)
    say_either(r, "32-bit programs", hw_launch_has_library_32(),
               "recorded from their start; not attached to", NOTE,
               "not profiled: build with the packages libc6-dev-i386, lib32gcc-12-dev (meson setup "
               "-Dclient32=enabled)");
#endif
}

static void check_kernel(struct report *r)
{
    hw_autofd int memory = memfd_create("heapwise-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool sealed = memory >= 0 && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
    hw_autofd int pidfd = pidfd_open(getpid(), 0);
    if (sealed && pidfd >= 0)
        say(r, "kernel", GOOD, "sealed memory files and process descriptors work");
    else
        say(r, "kernel", BAD, "%s; Linux 5.3 or newer is needed",
            sealed ? "pidfd_open is missing" : "memory files cannot be sealed");
}

static void check_ptrace(struct report *r)
{
    long scope = number_in("/proc/sys/kernel/yama/ptrace_scope");
    if (geteuid() == 0 || scope <= 0)
        say(r, "looking at processes", GOOD, "%s",
            geteuid() == 0 ? "root sees every process" : "you can look at your own processes");
    else
        say(r, "looking at processes", NOTE,
            "ptrace_scope is %ld: processes that run already cannot be reached; start them with "
            "`heapwise record -- COMMAND`",
            scope);
}

static void check_capabilities(struct report *r)
{
    static const struct {
        int bit;
        const char *name, *without;
    } wanted[] = {
        {19, "sys_ptrace", "programs of other users"},
        {21, "sys_admin", "containers made by others, programs held at their start"},
    };
    char *text = NULL, has[64] = "", lacks[160] = "";
    size_t n;
    uint64_t bits = 0;
    if (hw_file_read(AT_FDCWD, "/proc/self/status", 64 * 1024, &text, &n, NULL) == 0) {
        const char *line = strstr(text, "\nCapEff:");
        bits = line ? strtoull(line + 8, NULL, 16) : 0;
    }
    free(text);
    for (size_t i = 0; i < HW_ARRAY_LEN(wanted); i++) {
        bool there = bits >> wanted[i].bit & 1;
        char *to = there ? has : lacks;
        size_t max = there ? sizeof has : sizeof lacks, at = strlen(to);
        (void)snprintf(to + at, max - at, "%s%s", at ? ", " : "",
                       there ? wanted[i].name : wanted[i].without);
    }
    if (!lacks[0])
        say(r, "capabilities", GOOD, "%s", has);
    else
        say(r, "capabilities", NOTE, "%s%sout of reach: %s", has, has[0] ? "; " : "", lacks);
}

/* The path of the module `name` in our own maps. */
static int open_own(const char *name, char *path, size_t max)
{
    struct hw_maps maps = {0};
    hw_autofd int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    path[0] = '\0';
    if (self < 0 || hw_maps_read(self, &maps, NULL) < 0)
        return -1;
    for (size_t i = 0; i < maps.maps.n && !path[0]; i++) {
        const char *slash = strrchr(maps.maps.v[i].path, '/');
        if (slash && hw_starts_with(slash + 1, name))
            (void)snprintf(path, max, "%s", maps.maps.v[i].path);
    }
    hw_maps_done(&maps);
    return path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

/* libc stands for the system: nearly every stack goes through it. */
static void check_libc(struct report *r)
{
    static const char debug_dir[] = "/usr/lib/debug/.build-id";
    char path[4096];
    struct hw_elf *elf;
    struct hw_elf_info info = {0};
    hw_autofd int fd = open_own("libc.so.6", path, sizeof path);
    void *table = NULL;
    size_t bytes = 0;
    struct hw_cfi_stats stats = {0};
    if (fd < 0 || hw_elf_open(fd, &elf, NULL) < 0) {
        say(r, "unwind data", BAD, "libc.so.6 cannot be read");
        return;
    }
    (void)hw_elf_get_info(elf, &info, NULL); /* nothing known means nothing found */
    hw_elf_close(elf);
    if (hw_cfi_compile(fd, -1, &table, &bytes, &stats, NULL) == 0 && stats.n_fdes)
        say(r, "unwind data", GOOD, "%s: %llu function%s, a table of %zu KiB", path,
            (unsigned long long)stats.n_fdes, hw_plural(stats.n_fdes), bytes / 1024);
    else
        say(r, "unwind data", BAD, "%s has none: stacks end where frame pointers do", path);
    free(table);
    bool files = access(debug_dir, R_OK) == 0;
    if (info.has_symtab || files)
        say(r, "symbols", GOOD, "%s%s%s", info.has_symtab ? "in the libraries themselves" : "",
            info.has_symtab && files ? ", and in " : "", files ? debug_dir : "");
    else
        say(r, "symbols", NOTE,
            "system libraries are stripped and %s is not there: only exported names are known; "
            "install debug packages or set DEBUGINFOD_URLS",
            debug_dir);
}

/* -n, --all: a process held at its exec is seen from its first allocation on. */
static void check_starting(struct report *r)
{
    int fd = hw_exec_listen(/* execs = */ true);
    const char *found = fd >= 0 ? "the process connector reports them" : "they are found in /proc";
    if (fd >= 0)
        (void)close(fd); /* nothing was taken from it */
    if (hw_exec_can_hold())
        say(r, "starting programs", GOOD,
            "held at their exec (fanotify), by name and --all; %s, too", found);
    else
        say(r, "starting programs", NOTE,
            "cannot be held at their exec (CAP_SYS_ADMIN and fanotify permission events are "
            "needed): %s, without their first milliseconds",
            found);
}

static void check_allocator(struct report *r)
{
    const char *preload = getenv("LD_PRELOAD");
    say(r, "allocator", GOOD, "glibc %s%s%s", gnu_get_libc_version(),
        preload && preload[0] ? "; LD_PRELOAD is kept after ours: " : "", preload ? preload : "");
}

static void check_idle(struct report *r)
{
    if (access("/sys/kernel/mm/page_idle/bitmap", R_OK | W_OK) == 0)
        say(r, "--idle-allocations", GOOD, "by the kernel's idle page bitmap");
    else if (access("/proc/self/clear_refs", W_OK) == 0)
        say(r, "--idle-allocations", GOOD,
            "by referenced bits, for whole mappings only: the kernel has no idle page bitmap");
    else
        say(r, "--idle-allocations", NOTE,
            "the kernel offers no way to see which pages are unused");
}

static void check_policy(struct report *r)
{
    static const char *const selinux[] = {
        [HW_SELINUX_NONE] = "no SELinux",
        [HW_SELINUX_PERMISSIVE] = "SELinux permissive",
        [HW_SELINUX_ENFORCING] = "SELinux enforcing: its rules can forbid what this policy permits",
    };
    struct hw_policy p;
    struct hw_error err = {0};
    if (hw_policy_read(NULL, &p, &err) < 0) {
        say(r, "policy", BAD, "%s; nothing can be profiled", err.text);
        return;
    }
    say(r, "policy", p.selinux == HW_SELINUX_ENFORCING ? NOTE : GOOD, "%s machine%s; %s",
        hw_machine_name(hw_policy_machine(&p)),
        access(HW_POLICY_FILE, F_OK) == 0 ? " (" HW_POLICY_FILE ")" : "", selinux[p.selinux]);
    hw_policy_done(&p);
}

static void check_service(struct report *r)
{
    struct hw_error err = {0};
    struct hw_controller *c;
    int rc = hw_controller_connect(NULL, &c, &err);
    if (rc == 0) {
        say(r, "service", GOOD, "runs (%s)", hw_default_consumer_socket());
        hw_controller_free(c);
    } else if (rc == HW_ENOTFOUND) {
        say(r, "service", NOTE, "none runs; `heapwise record` needs none (%s)",
            hw_default_consumer_socket());
    } else {
        say(r, "service", BAD, "%s", err.text);
    }
}

static void check_space(struct report *r, const char *name, const char *dir)
{
    struct statvfs s;
    if (statvfs(dir, &s) < 0) {
        say(r, name, BAD, "'%s': %s", dir, strerror(errno));
        return;
    }
    double mib = (double)s.f_bavail * (double)s.f_frsize / 1048576;
    bool writable = access(dir, W_OK) == 0;
    say(r, name,
        !writable   ? NOTE
        : mib < 100 ? BAD
                    : GOOD,
        "%.0f MiB free in '%s'%s", mib, dir, writable ? "" : ", which is not writable for you");
}

static void check_tool(struct report *r, const char *name, const char *use)
{
    char *path = hw_launch_find_program(name);
    char missing[200];
    (void)snprintf(missing, sizeof missing, "not installed; %s", use); /* fits */
    say_either(r, name, path != NULL, path, NOTE, missing);
    free(path);
}

static void check_debuginfod(struct report *r)
{
    const char *name = "debuginfod";
    if (hw_debuginfod_configured())
        say_either(r, name, hw_debuginfod_installed(), getenv("DEBUGINFOD_URLS"), BAD,
                   "DEBUGINFOD_URLS is set, but libdebuginfod is not installed");
    else
        say(r, name, NOTE, "DEBUGINFOD_URLS names no server of debug info; none is asked");
}

static void check_http(struct report *r)
{
    const char *version = NULL;
    bool has = hw_http_installed(&version);
    say_either(r, "stores", has, version, NOTE, "libcurl is not installed; push and fleet need it");
}

/* Records this program's own help at interval 1. */
static void check_recording(struct report *r)
{
    char path[] = "/tmp/heapwise-doctor-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0) {
        say(r, "a recording", BAD, "no temporary file: %s", strerror(errno));
        return;
    }
    (void)close(fd);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int i = 0; null >= 0 && i <= 2; i++)
            (void)dup2(null, i);
        (void)execl("/proc/self/exe", "heapwise", "record", "--exact", "--no-report",
                    "--no-passthrough", "--force", "-o", path, "--", "/proc/self/exe", "help",
                    (char *)NULL);
        _exit(127);
    }
    int status = -1;
    if (pid > 0)
        (void)waitpid(pid, &status, 0);
    (void)unlink(path);
    say_either(r, "a recording", pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0,
               "made and complete", BAD, "failed; run `heapwise record -v -- heapwise help`");
}

static void print_text(const struct report *r)
{
    static const char *const marks[] = {"ok", "--", "!!"};
    for (size_t i = 0; i < r->n; i++) {
        char text[2 * sizeof r->checks[i].text]; /* it may quote process names */
        (void)hw_utf8_escape(text, sizeof text, r->checks[i].text, "");
        printf("%s  %-22s %s\n", marks[r->checks[i].verdict], r->checks[i].name, text);
    }
}

static void print_json(const struct report *r)
{
    static const char *const verdicts[] = {"good", "note", "bad"};
    struct hw_json j;
    hw_json_page_begin(&j, stdout, "doctor", 0);
    hw_json_key(&j, "checks");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < r->n; i++) {
        hw_json_begin_object(&j);
        hw_json_kv_str(&j, "name", r->checks[i].name);
        hw_json_kv_str(&j, "verdict", verdicts[r->checks[i].verdict]);
        hw_json_kv_str(&j, "text", r->checks[i].text);
        hw_json_end_object(&j);
    }
    hw_json_end_array(&j);
    (void)hw_json_page_end(&j); /* whoever reads standard output notices if it breaks */
}

int hw_cmd_doctor(struct hw_cli *cli)
{
    struct report r = {.n = 0};
    const char *temp = getenv("TMPDIR");
    check_kernel(&r);
    check_library(&r);
    check_ptrace(&r);
    check_capabilities(&r);
    check_starting(&r);
    check_allocator(&r);
    check_libc(&r);
    check_idle(&r);
    check_policy(&r);
    check_service(&r);
    check_space(&r, "disk", ".");
    check_space(&r, "temporary files", temp && temp[0] ? temp : "/tmp");
    check_tool(&r, "llvm-symbolizer", "--symbolizer can use it in place of libdw");
    check_debuginfod(&r);
    check_http(&r);
    check_tool(&r, "perf", "heap_profile --simpleperf needs it");
    check_recording(&r);
    if (hw_opt_flag(&cli->opts, HW_OPT_JSON))
        print_json(&r);
    else
        print_text(&r);
    for (size_t i = 0; i < r.n; i++)
        if (r.checks[i].verdict == BAD)
            return HW_EXIT_UNSUPPORTED;
    return HW_EXIT_OK;
}
