#include "record/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "elf/symbols.h"
#include "proc/pid.h"
#include "record/diagnosis.h"
#include "record/process_reads.h"

#include "base/banned.h"

#define LIBRARY "libheapprofd_glibc_preload.so"

/* ---- files ---- */

static char *join(const char *dir, size_t n, const char *rest)
{
    struct hw_strbuf b = {0};
    hw_strbuf_add(&b, dir, n);
    hw_strbuf_adds(&b, rest);
    return hw_strbuf_take(&b);
}

/* The directory of this binary, without a trailing slash. NULL and errno. */
static char *own_folder(void)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return NULL;
    self[n] = 0;
    return strndup(self, (size_t)(strrchr(self, '/') - self));
}

static char *find_beside(const char *dir, const char *const *beside, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hw_autofree char *path = join(dir, strlen(dir), beside[i]);
        char *found = path ? realpath(path, NULL) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

/* NULL = not built. */
static char *find_library_32(void)
{
    static const char *const beside[] = {
        "/../lib32/" LIBRARY,       /* installed */
        "/../client/i386/" LIBRARY, /* the build directory */
    };
    hw_autofree char *dir = own_folder();
    return dir ? find_beside(dir, beside, HW_ARRAY_LEN(beside)) : NULL;
}

bool hw_launch_has_library_32(void)
{
    hw_autofree char *path = find_library_32();
    return path != NULL;
}

int hw_launch_find_library(const char *wanted, const char *program, char **out,
                           struct hw_error *err)
{
    static const char *const beside[] = {
        "/../" HW_LIBDIR_NAME "/" LIBRARY, /* installed: bin/ and lib/ or lib/x86_64-linux-gnu/ */
        "/../lib/" LIBRARY,
        "/../lib/heapwise/" LIBRARY, /* the same, in its own directory */
        "/../client/" LIBRARY,       /* the build directory */
        "/" LIBRARY,                 /* all in one directory */
    };
    if (wanted) {
        *out = realpath(wanted, NULL);
        if (!*out)
            return hw_fail(err, HW_ENOTFOUND, 0, "no client library at '%s'", wanted);
        return HW_OK;
    }
    if (program && hw_diagnose_is_32_bit(program) && (*out = find_library_32()))
        return HW_OK;
    hw_autofree char *dir = own_folder();
    if (!dir)
        return hw_fail_sys(err, "readlink /proc/self/exe");
    *out = find_beside(dir, beside, HW_ARRAY_LEN(beside));
    if (*out)
        return HW_OK;
    *out = realpath(HW_LIBDIR "/" LIBRARY, NULL);
    if (*out)
        return HW_OK;
    return hw_fail(err, HW_ENOTFOUND, 0,
                   "no " LIBRARY " beside '%s' nor in " HW_LIBDIR "; name it with "
                   "--preload-library",
                   dir);
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *hw_launch_find_program(const char *name)
{
    if (strchr(name, '/'))
        return realpath(name, NULL);
    const char *path = getenv("PATH");
    if (!path)
        path = "/bin:/usr/bin";
    while (*path) {
        size_t n = strcspn(path, ":");
        hw_autofree char *dir = join(n ? path : ".", n ? n : 1, "/");
        char *file = dir ? join(dir, strlen(dir), name) : NULL;
        if (file && is_program(file))
            return file;
        free(file);
        path += n + (path[n] == ':');
    }
    return NULL;
}

/* ---- the command's own words ---- */

/* "LD_PRELOAD=libx.so", unless it includes the old value. */
static bool assigns_preload(const char *text)
{
    const char *p = strstr(text, "LD_PRELOAD=");
    return p && (p == text || !strchr("$_{", p[-1])) && !strstr(p, "$LD_PRELOAD") &&
           !strstr(p, "${LD_PRELOAD") && !strstr(p, LIBRARY);
}

static bool env_drops(const char *word, const char *next)
{
    return strcmp(word, "-") == 0 || strcmp(word, "-i") == 0 ||
           strcmp(word, "--ignore-environment") == 0 || strcmp(word, "-uLD_PRELOAD") == 0 ||
           strcmp(word, "--unset=LD_PRELOAD") == 0 ||
           (strcmp(word, "-u") == 0 && next && strcmp(next, "LD_PRELOAD") == 0);
}

/* Only what precedes the program it runs. */
static const char *replaced_by_env(char *const *argv)
{
    for (size_t i = 1; argv[i] && (argv[i][0] == '-' || strchr(argv[i], '=')); i++) {
        if (env_drops(argv[i], argv[i + 1]) ||
            (hw_starts_with(argv[i], "LD_PRELOAD=") && assigns_preload(argv[i])))
            return argv[i];
        if (strcmp(argv[i], "-u") == 0 && argv[i + 1])
            i++; /* the name is a whole word */
    }
    return NULL;
}

const char *hw_launch_replaces_preload(char *const *argv)
{
    static const char *const shells[] = {"sh", "bash", "dash", "zsh", "ksh"};
    const char *base = hw_base_name(argv[0]);
    if (strcmp(base, "env") == 0)
        return replaced_by_env(argv);
    for (size_t i = 0; i < HW_ARRAY_LEN(shells); i++)
        if (strcmp(base, shells[i]) == 0 && argv[1] && argv[1][0] == '-' && strchr(argv[1], 'c') &&
            argv[2] && assigns_preload(argv[2]))
            return argv[2];
    return NULL;
}

/* ---- environment ---- */

/* Is that name in the directory a link to the library? */
static bool leads_to(const char *platforms, const char *name, const char *library)
{
    struct hw_strbuf b = {0};
    hw_strbuf_addf(&b, "%s/%s/" LIBRARY, platforms, name);
    hw_autofree char *path = hw_strbuf_take(&b);
    hw_autofree char *found = path ? realpath(path, NULL) : NULL;
    return found && strcmp(found, library) == 0;
}

/*
 * The directory in which programs of each architecture find their own library, including this one
 * (client/platform); NULL = none. glibc's loader has a platform if the kernel reports one.
 */
static char *find_platforms(const char *library)
{
    static const char *const beside[] = {
        "/../lib/heapwise/platform", /* installed */
        "/../client/platform",       /* the build directory */
    };
    const char *platform = (const char *)getauxval(AT_PLATFORM);
    hw_autofree char *dir = own_folder();
    if (!dir || !platform || strcmp(platform, "x86_64") != 0)
        return NULL;
    char *found = find_beside(dir, beside, HW_ARRAY_LEN(beside));
    if (found && (leads_to(found, "x86_64", library) || leads_to(found, "i686", library)))
        return found;
    free(found);
    return NULL;
}

/* LD_PRELOAD splits at blanks and colons and expands '$': such a path gets a link without them. */
static int speakable_path(struct hw_launch *l, const char *path, const char *name,
                          struct hw_strbuf *out, struct hw_error *err)
{
    if (!strpbrk(path, " \t\n:$")) {
        hw_strbuf_adds(out, path);
        return HW_OK;
    }
    (void)snprintf(l->link_dir, sizeof l->link_dir, "/tmp/heapwise-lib-XXXXXX");
    if (!mkdtemp(l->link_dir)) {
        l->link_dir[0] = 0;
        return hw_fail_sys(err, "cannot make a directory in /tmp");
    }
    (void)chmod(l->link_dir, 0711); /* set-uid programs go through it too */
    (void)snprintf(l->link, sizeof l->link, "%s/%s", l->link_dir, name); /* constants: it fits */
    hw_strbuf_adds(out, l->link);
    return symlink(path, l->link) < 0 ? hw_fail_sys(err, "cannot link '%s'", l->link) : HW_OK;
}

/*
 * glibc expands ${PLATFORM} in each program. musl does not, finds no such file and silently
 * continues; loading the library itself, which needs glibc, would kill its programs.
 */
static int name_library(struct hw_launch *l, const char *library, struct hw_strbuf *out,
                        struct hw_error *err)
{
    hw_autofree char *platforms = find_platforms(library);
    if (!platforms)
        return speakable_path(l, library, LIBRARY, out, err);
    int rc = speakable_path(l, platforms, "platform", out, err);
    hw_strbuf_adds(out, "/${PLATFORM}/" LIBRARY);
    return rc;
}

/*
 * The child's environment: ours with some variables replaced. Built before the fork and never set
 * in this process, whose other threads may be reading the environment.
 */
struct environment {
    HW_VEC(char *) all; /* NULL-terminated when complete; borrowed but for `own` */
    HW_VEC(char *) own;
};

static int set_variable(struct environment *e, const char *name, const char *value)
{
    size_t n = strlen(name);
    struct hw_strbuf b = {0};
    hw_strbuf_addf(&b, "%s=%s", name, value);
    char *text = hw_strbuf_take(&b);
    if (!text || hw_vec_push(&e->own, text) < 0) {
        free(text);
        return HW_ENOMEM;
    }
    for (size_t i = 0; i < e->all.n; i++)
        if (strncmp(e->all.v[i], name, n) == 0 && e->all.v[i][n] == '=') {
            e->all.v[i] = text;
            return HW_OK;
        }
    return hw_vec_push(&e->all, text);
}

static int inherit_environment(struct environment *e)
{
    for (char **v = environ; v && *v; v++)
        if (hw_vec_push(&e->all, *v) < 0)
            return HW_ENOMEM;
    return HW_OK;
}

static void environment_done(struct environment *e)
{
    for (size_t i = 0; i < e->own.n; i++)
        free(e->own.v[i]);
    hw_vec_done(&e->own);
    hw_vec_done(&e->all);
}

/* The caller's own preloads. */
static bool preloads_sanitizer(void)
{
    const char *old = getenv("LD_PRELOAD");
    hw_autofree char *list = strdup(old ? old : "");
    char *save = NULL;
    for (char *p = list ? strtok_r(list, ": ", &save) : NULL; p; p = strtok_r(NULL, ": ", &save))
        if (hw_symbols_is_sanitizer(p))
            return true;
    return false;
}

/*
 * AddressSanitizer's runtime aborts if another library is loaded before it: such a program runs
 * without ours, and the empty profile says why. The library detects this too, but has to start the
 * program twice (client/start/sanitizer.c).
 */
static bool tolerates_library(const char *name)
{
    hw_autofree char *program = hw_launch_find_program(name);
    struct hw_finding f = {0};
    if (program)
        hw_diagnose_file(program, /* loads = */ true, &f);
    return (!f.code || strcmp(f.code, "asan") != 0) && !preloads_sanitizer();
}

/* The old value is kept, after ours. */
static int preload_value(struct hw_launch *l, const char *library, char **out, struct hw_error *err)
{
    const char *old = getenv("LD_PRELOAD");
    struct hw_strbuf b = {0};
    int rc = name_library(l, library, &b, err);
    if (old && old[0])
        hw_strbuf_addf(&b, ":%s", old);
    *out = hw_strbuf_take(&b);
    return rc < 0 || *out ? rc : hw_fail(err, HW_ENOMEM, 0, "LD_PRELOAD");
}

/* ---- the child ---- */

/* Waits for a byte, then becomes the program; a failure's errno goes back the same way. */
static void child(const struct hw_launch_options *o, char *const *env, int hold)
{
    char go;
    ssize_t n;
    do
        n = read(hold, &go, 1);
    while (n < 0 && errno == EINTR);
    if (n != 1)
        _exit(127); /* the command gave up */
    if (o->stdout_to_stderr)
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    if (o->background) { /* terminal input and Ctrl-C belong to the foreground */
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)dup2(null, STDIN_FILENO);
        (void)setpgid(0, 0);
    }
    (void)sigprocmask(SIG_SETMASK, o->mask, NULL);
    (void)execvpe(o->argv[0], o->argv, env);
    int failed = errno;
    (void)!write(hold, &failed, sizeof failed); /* no one else to report it to */
    _exit(127);
}

static int fork_held(const struct hw_launch_options *o, char *const *env, struct hw_launch *l,
                     struct hw_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return hw_fail_sys(err, "socketpair");
    l->pid = fork();
    if (l->pid == 0) {
        (void)close(pair[0]);
        child(o, env, pair[1]);
    }
    (void)close(pair[1]);
    l->hold = pair[0];
    if (l->pid < 0)
        return hw_fail_sys(err, "fork");
    l->pidfd = pidfd_open(l->pid, 0);
    if (l->pidfd < 0)
        return hw_fail_sys(err, "pidfd_open");
    return HW_OK;
}

int hw_launch_prepare(const struct hw_launch_options *o, const char *socket, struct hw_launch *out,
                      struct hw_error *err)
{
    *out = (struct hw_launch){.pid = -1, .pidfd = -1, .hold = -1};
    hw_autofree char *preload = NULL;
    int rc = preload_value(out, o->library, &preload, err);
    if (rc < 0) {
        hw_launch_done(out);
        return rc;
    }
    struct environment e = {0};
    rc = inherit_environment(&e);
    if (rc == 0 && tolerates_library(o->argv[0]))
        rc = set_variable(&e, "LD_PRELOAD", preload);
    if (rc == 0)
        rc = set_variable(&e, "HEAPWISE_SOCKET", socket);
    if (rc == 0)
        rc = set_variable(&e, "PERFETTO_HEAPPROFD_BLOCKING_INIT", "1");
    if (rc == 0 && o->python_allocators)
        rc = set_variable(&e, "PYTHONMALLOC", "malloc");
    if (rc == 0)
        rc = hw_vec_push(&e.all, NULL);
    if (rc < 0)
        rc = hw_fail(err, rc, 0, "environment of the command:");
    else
        rc = fork_held(o, e.all.v, out, err);
    environment_done(&e);
    if (rc < 0)
        hw_launch_done(out);
    return rc;
}

int hw_launch_go(struct hw_launch *l, struct hw_error *err)
{
    char go = 1;
    int failed = 0;
    if (send(l->hold, &go, 1, MSG_NOSIGNAL) != 1)
        return hw_fail_sys(err, "the child process that should run the command has died");
    ssize_t n;
    do
        n = read(l->hold, &failed, sizeof failed);
    while (n < 0 && errno == EINTR);
    (void)close(l->hold);
    l->hold = -1;
    if (n != (ssize_t)sizeof failed)
        return HW_OK; /* closed by the exec */
    errno = failed;
    (void)hw_fail_sys(err, "cannot run the command");
    return failed == ENOENT || failed == ENOTDIR ? HW_ENOTFOUND : HW_EPERM;
}

/* The command's programs may run on, and their loaders would complain about a missing library. */
static bool is_named_by_anyone(const char *text)
{
    hw_pid_list pids = {0};
    bool is_named = hw_proc_list(&pids) < 0;
    for (size_t i = 0; !is_named && i < pids.n; i++) {
        struct hw_pid p;
        char *environment = NULL;
        size_t n;
        if (pids.v[i] == getpid() || hw_pid_open(pids.v[i], &p, NULL) < 0)
            continue;
        if (hw_read_environ(&p, &environment, &n) == HW_OK)
            is_named = memmem(environment, n, text, strlen(text)) != NULL;
        free(environment);
        hw_pid_done(&p);
    }
    hw_vec_done(&pids);
    return is_named;
}

void hw_launch_done(struct hw_launch *l)
{
    if (l->hold >= 0) {
        (void)close(l->hold); /* a child that still waits exits */
        if (l->pid > 0)
            (void)waitpid(l->pid, NULL, 0);
    }
    if (l->pidfd >= 0)
        (void)close(l->pidfd);
    if (l->link_dir[0] && !is_named_by_anyone(l->link_dir)) {
        (void)unlink(l->link);
        (void)rmdir(l->link_dir);
    }
    *l = (struct hw_launch){.pid = -1, .pidfd = -1, .hold = -1};
}
