#include "cli/query/query_all.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "base/text/plural.h"
#include "base/text/strbuf.h"
#include "cli/cli.h"
#include "cli/query/query_out.h"
#include "cli/query/sql_session.h"
#include "import/import.h"
#include "record/web/profile_store.h"

#include "base/banned.h"

enum { MAX_JOBS = 128, MAX_AHEAD = 128, MAX_SQL = 8 << 20, MAX_ERROR = 4096 };
static const uint64_t least_share = (uint64_t)64 << 20;

enum state { WAITING, AGAIN, RUNNING, DONE };

/* A child's result, in memory shared with us. */
struct answer {
    size_t head_bytes; /* of its first line: the column names */
    int status;        /* exit code of cli.h */
    int rc;            /* HW_ENOMEM: may succeed with more memory */
    bool finished;
};

struct trace {
    char *path; /* owned */
    enum state state;
    bool alone; /* had the whole memory */
    int status; /* exit code of cli.h */
    size_t head_bytes;
    int out, err; /* -1 = none */
};

struct job {
    pid_t pid; /* 0 = free */
    size_t trace;
    struct answer *answer;
};

struct batch {
    const struct hw_query_all *q;
    HW_VEC(struct trace) traces;
    size_t n_unknown, n_done, n_failed, next_out;
    struct job jobs[MAX_JOBS];
    size_t n_jobs, n_running;
    uint64_t memory, share;
    char *sql; /* owned */
    size_t n_sql;
    struct hw_strbuf head; /* the columns printed last */
    struct hw_strbuf error;
    size_t n_same_error;
    uint64_t next_progress_ns;
    bool line_open;
};

/* ---- which files ---- */

static int add_trace(struct batch *b, const char *path)
{
    struct trace t = {.path = strdup(path), .out = -1, .err = -1};
    if (t.path && hw_vec_push(&b->traces, t) == 0)
        return HW_OK;
    free(t.path);
    return HW_ENOMEM;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int take_found(struct batch *b, const FTSENT *e)
{
    hw_autofd int fd = open(e->fts_accpath, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && !hw_import_knows(fd)) {
        b->n_unknown += !hw_profile_store_is_note(e->fts_name);
        return HW_OK;
    }
    return add_trace(b, e->fts_path); /* one that cannot be opened says so later */
}

static int walk(struct batch *b, char *dir, struct hw_error *err)
{
    char *roots[] = {dir, NULL};
    FTS *fts = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    int rc = fts ? HW_OK : hw_fail_sys(err, "cannot read the directory '%s'", dir);
    for (FTSENT *e; rc == HW_OK && (e = fts_read(fts));) {
        bool hidden = e->fts_level > 0 && e->fts_name[0] == '.';
        if (hidden && e->fts_info == FTS_D)
            (void)fts_set(fts, e, FTS_SKIP);
        if (e->fts_info == FTS_DNR)
            hw_cli_error(b->q->cli, NULL, "cannot read the directory '%s': %s", e->fts_path,
                         strerror(e->fts_errno));
        if (e->fts_info == FTS_DNR)
            b->n_failed++;
        if (e->fts_info == FTS_F && !hidden)
            rc = take_found(b, e);
    }
    if (fts)
        (void)fts_close(fts);
    return rc;
}

static int find_traces(struct batch *b, struct hw_error *err)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < b->q->n_paths; i++) {
        struct stat st;
        bool is_dir = stat(b->q->paths[i], &st) == 0 && S_ISDIR(st.st_mode);
        rc = is_dir ? walk(b, b->q->paths[i], err) : add_trace(b, b->q->paths[i]);
    }
    return rc;
}

/* ---- one trace, in a process of its own ---- */

static void limit_memory(uint64_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    (void)bytes; /* its shadow memory alone is larger */
#else
    struct rlimit l;
    if (getrlimit(RLIMIT_DATA, &l) < 0)
        return;
    l.rlim_cur = bytes < l.rlim_max ? bytes : l.rlim_max;
    (void)setrlimit(RLIMIT_DATA, &l); /* mapped files do not count */
#endif
}

static int answer_of(const struct batch *b, const struct trace *t, bool terminal,
                     struct answer *answer)
{
    struct hw_sql_session s;
    struct hw_query_out out;
    hw_query_out_init(&out);
    out.file = t->path;
    out.terminal = terminal;
    int status = hw_sql_session_open(&s, b->q->cli, t->path);
    answer->rc = s.rc;
    if (status) {
        hw_query_out_done(&out);
        return status;
    }
    status = hw_sql_session_run(&s, b->sql, b->n_sql, &out);
    answer->rc = s.rc;
    if (status == HW_EXIT_OK && out.n_results != 1) {
        hw_cli_error(b->q->cli, NULL, "%zu results; --all takes SQL with one", out.n_results);
        status = HW_EXIT_USAGE;
    }
    answer->head_bytes = out.head_bytes;
    hw_query_out_done(&out);
    hw_sql_session_done(&s);
    if (fflush(stdout) != 0 && status == HW_EXIT_OK) {
        hw_cli_error(b->q->cli, NULL, "the rows cannot be kept: %s", strerror(errno));
        status = HW_EXIT_FAILED;
    }
    return status;
}

_Noreturn static void child(const struct batch *b, const struct trace *t, struct answer *answer)
{
    struct rlimit no_core = {0, 0};
    bool terminal = isatty(STDOUT_FILENO) != 0;
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing may outlive the one who asked */
    if (dup2(t->out, STDOUT_FILENO) < 0 || dup2(t->err, STDERR_FILENO) < 0)
        _exit(HW_EXIT_FAILED);
    limit_memory(t->alone ? b->memory : b->share);
    answer->status = answer_of(b, t, terminal, answer);
    answer->finished = true;
    (void)fflush(stderr);
    _exit(answer->status);
}

static int temp_file(struct hw_error *err)
{
    int fd = hw_fd_temp("/tmp");
    return fd < 0 ? hw_fail_sys(err, "no file for the rows of an answer") : fd;
}

static int start(struct batch *b, size_t i, struct hw_error *err)
{
    struct trace *t = &b->traces.v[i];
    struct job *j = b->jobs;
    while (j->pid)
        j++;
    t->out = temp_file(err);
    t->err = t->out < 0 ? -1 : temp_file(err);
    if (t->err < 0)
        return HW_ESYS;
    memset(j->answer, 0, sizeof *j->answer);
    t->alone = t->state == AGAIN || b->share == b->memory;
    (void)fflush(stdout); /* or a child would print it again */
    pid_t pid = fork();
    if (pid < 0)
        return hw_fail_sys(err, "cannot start a process");
    if (pid == 0)
        child(b, t, j->answer);
    t->state = RUNNING;
    *j = (struct job){.pid = pid, .trace = i, .answer = j->answer};
    b->n_running++;
    return HW_OK;
}

/* ---- results of the children ---- */

static void drop(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* an unnamed file */
    *fd = -1;
}

static void drop_files(struct trace *t)
{
    drop(&t->out);
    drop(&t->err);
}

static void ended(struct batch *b, struct job *j, int wstatus)
{
    struct trace *t = &b->traces.v[j->trace];
    struct answer a = *j->answer;
    bool killed = !a.finished;
    j->pid = 0;
    b->n_running--;
    if (!t->alone && ((killed && WIFSIGNALED(wstatus)) || a.rc == HW_ENOMEM)) {
        drop_files(t);
        t->state = AGAIN;
        return;
    }
    t->state = DONE;
    t->status = killed ? HW_EXIT_FAILED : a.status;
    t->head_bytes = a.head_bytes;
    if (killed && WIFSIGNALED(wstatus))
        (void)dprintf(t->err, "the process that read it was ended by signal %d%s\n",
                      WTERMSIG(wstatus), WTERMSIG(wstatus) == SIGKILL ? " (out of memory?)" : "");
    b->n_done++;
}

static int wait_one(struct batch *b, struct hw_error *err)
{
    int wstatus;
    pid_t pid = waitpid(-1, &wstatus, 0);
    if (pid < 0)
        return errno == EINTR ? HW_OK : hw_fail_sys(err, "cannot wait for a process");
    for (size_t i = 0; i < b->n_jobs; i++)
        if (b->jobs[i].pid == pid)
            ended(b, &b->jobs[i], wstatus);
    return HW_OK;
}

/* ---- printing, in the order of the names ---- */

static void line_end(struct batch *b)
{
    if (b->line_open)
        fputs("\r\033[K", stderr);
    b->line_open = false;
}

static void flush_same_errors(struct batch *b)
{
    if (b->n_same_error)
        fprintf(stderr, "the same of %zu more file%s\n", b->n_same_error,
                hw_plural(b->n_same_error));
    b->n_same_error = 0;
}

static void print_error(struct batch *b, const struct trace *t)
{
    char text[MAX_ERROR];
    ssize_t n = pread(t->err, text, sizeof text - 1, 0);
    if (n <= 0)
        return;
    line_end(b);
    text[n] = 0;
    if (b->error.n == (size_t)n && memcmp(b->error.p, text, (size_t)n) == 0) {
        b->n_same_error++;
        return;
    }
    flush_same_errors(b);
    hw_strbuf_clear(&b->error);
    hw_strbuf_add(&b->error, text, (size_t)n);
    bool named = strstr(text, t->path) != NULL;
    fprintf(stderr, "%s%s%s%s", named ? "" : t->path, named ? "" : ": ", text,
            text[n - 1] == '\n' ? "" : "\n");
}

/* Rows are copied through the page cache; they may be larger than memory. */
static int copy_out(const struct trace *t, uint64_t from)
{
    char bytes[1 << 16];
    for (ssize_t n; (n = pread(t->out, bytes, sizeof bytes, (off_t)from)) != 0; from += (uint64_t)n)
        if (n < 0 || fwrite(bytes, 1, (size_t)n, stdout) != (size_t)n)
            return HW_ESYS;
    return HW_OK;
}

static int print_rows(struct batch *b, const struct trace *t)
{
    struct hw_strbuf head = {0};
    int rc = hw_strbuf_reserve(&head, t->head_bytes);
    if (rc == HW_OK)
        rc = hw_fd_pread_all(t->out, head.p, t->head_bytes, 0);
    head.n = rc == HW_OK ? t->head_bytes : 0;
    bool same = head.n == b->head.n && head.n && memcmp(head.p, b->head.p, head.n) == 0;
    if (rc == HW_OK && !same) {
        if (b->head.n)
            fputc('\n', stdout); /* other columns: another table */
        (void)fwrite(head.p, 1, head.n, stdout);
        hw_strbuf_clear(&b->head);
        hw_strbuf_add(&b->head, head.p, head.n);
    }
    hw_strbuf_done(&head);
    return rc == HW_OK ? copy_out(t, t->head_bytes) : rc;
}

static int print_ready(struct batch *b, struct hw_error *err)
{
    int rc = HW_OK;
    for (; rc == HW_OK && b->next_out < b->traces.n; b->next_out++) {
        struct trace *t = &b->traces.v[b->next_out];
        if (t->state != DONE)
            break;
        print_error(b, t);
        if (t->status == HW_EXIT_OK && t->head_bytes) {
            line_end(b);
            rc = print_rows(b, t);
        }
        b->n_failed += t->status != HW_EXIT_OK;
        drop_files(t);
    }
    return rc < 0 ? hw_fail(err, rc, 0, "the answers cannot be printed: %s", strerror(errno)) : rc;
}

static void progress(struct batch *b)
{
    uint64_t now = hw_now_monotonic_ns();
    if (!isatty(STDERR_FILENO) || hw_opt_flag(&b->q->cli->opts, HW_OPT_QUIET) ||
        now < b->next_progress_ns)
        return;
    b->next_progress_ns = now + UINT64_C(500000000);
    fprintf(stderr, "\r\033[K%zu of %zu files", b->n_done, b->traces.n);
    b->line_open = true;
}

/* ---- scheduling ---- */

/*
 * A job that needs the whole memory runs alone. Answers wait in open files, so the limit on
 * descriptors bounds their number.
 */
static size_t next_trace(const struct batch *b)
{
    size_t end = b->next_out + b->n_jobs + MAX_AHEAD;
    for (size_t i = b->next_out; i < b->traces.n && i < end; i++)
        if (b->traces.v[i].state == WAITING)
            return i;
    for (size_t i = b->next_out; i < b->traces.n && b->n_running == 0; i++)
        if (b->traces.v[i].state == AGAIN)
            return i;
    return SIZE_MAX;
}

static bool runs_alone(const struct batch *b)
{
    for (size_t i = 0; i < b->n_jobs && b->share != b->memory; i++)
        if (b->jobs[i].pid && b->traces.v[b->jobs[i].trace].alone)
            return true;
    return false;
}

static int run_all(struct batch *b, struct hw_error *err)
{
    int rc = HW_OK;
    while (rc == HW_OK && b->next_out < b->traces.n) {
        size_t next;
        while (rc == HW_OK && b->n_running < b->n_jobs && !runs_alone(b) &&
               (next = next_trace(b)) != SIZE_MAX)
            rc = start(b, next, err);
        progress(b);
        if (rc == HW_OK && b->n_running)
            rc = wait_one(b, err);
        if (rc == HW_OK)
            rc = print_ready(b, err);
    }
    return rc;
}

static void kill_all(struct batch *b)
{
    for (size_t i = 0; i < b->n_jobs; i++)
        if (b->jobs[i].pid && kill(b->jobs[i].pid, SIGKILL) == 0)
            (void)waitpid(b->jobs[i].pid, NULL, 0);
}

static uint64_t half_of_free(void)
{
    char *text = NULL;
    size_t n = 0;
    unsigned long long kib = 0;
    if (hw_file_read(AT_FDCWD, "/proc/meminfo", 1 << 20, &text, &n, NULL) == HW_OK) {
        const char *at = strstr(text, "MemAvailable:");
        if (at)
            kib = strtoull(at + strlen("MemAvailable:"), NULL, 10);
    }
    free(text);
    return kib ? kib * 512 : (uint64_t)1 << 30;
}

/* Splits --max-memory among as many jobs as get a fair share. */
static void share_memory(struct batch *b)
{
    const struct hw_opts *o = &b->q->cli->opts;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t jobs = hw_opt_num(o, HW_OPT_QUERY_JOBS);
    uint64_t memory = hw_opt_num(o, HW_OPT_QUERY_MEMORY);
    if (jobs == 0)
        jobs = cpus > 0 ? (size_t)cpus : 1;
    if (jobs > MAX_JOBS)
        jobs = MAX_JOBS;
    if (memory == 0)
        memory = half_of_free();
    if (jobs > memory / least_share)
        jobs = memory < least_share ? 1 : (size_t)(memory / least_share);
    b->n_jobs = jobs;
    b->memory = memory;
    b->share = memory / jobs;
}

static int prepare(struct batch *b, struct answer **answers, struct hw_error *err)
{
    int rc = HW_OK;
    share_memory(b);
    if (b->q->file)
        rc = hw_file_read(AT_FDCWD, b->q->file, MAX_SQL, &b->sql, &b->n_sql, err);
    else if (!(b->sql = strdup(b->q->sql)))
        rc = HW_ENOMEM;
    else
        b->n_sql = strlen(b->sql);
    if (rc == HW_OK)
        rc = find_traces(b, err);
    if (rc < 0)
        return rc;
    void *m = mmap(NULL, b->n_jobs * sizeof **answers, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return HW_ENOMEM;
    *answers = m;
    for (size_t i = 0; i < b->n_jobs; i++)
        b->jobs[i] = (struct job){.answer = &(*answers)[i]};
    return HW_OK;
}

static int result(struct batch *b)
{
    line_end(b);
    flush_same_errors(b);
    if (b->n_unknown && !hw_opt_flag(&b->q->cli->opts, HW_OPT_QUIET))
        fprintf(stderr, "%zu file%s without a profile left out\n", b->n_unknown,
                hw_plural(b->n_unknown));
    if (b->traces.n == 0) {
        hw_cli_error(b->q->cli, NULL, "no traces there");
        return HW_EXIT_NO_DATA;
    }
    if (b->n_failed == 0)
        return HW_EXIT_OK;
    hw_cli_error(b->q->cli, NULL, "without an answer: %zu of %zu files", b->n_failed, b->traces.n);
    return b->n_failed >= b->traces.n ? HW_EXIT_FAILED : HW_EXIT_INCOMPLETE;
}

int hw_query_all_run(const struct hw_query_all *q)
{
    struct batch *b = calloc(1, sizeof *b);
    struct answer *answers = NULL;
    struct hw_error err = {0};
    if (!b)
        return HW_EXIT_FAILED;
    b->q = q;
    int rc = prepare(b, &answers, &err);
    if (rc == HW_OK)
        rc = run_all(b, &err);
    kill_all(b);
    if (rc < 0 && !err.text[0])
        (void)hw_fail(&err, rc, 0, "%s", hw_errc_text(rc)); /* printed below */
    int status = rc < 0 ? hw_cli_fail(q->cli, &err) : result(b);
    if (answers)
        (void)munmap(answers, b->n_jobs * sizeof *answers);
    for (size_t i = 0; i < b->traces.n; i++) {
        drop_files(&b->traces.v[i]);
        free(b->traces.v[i].path);
    }
    hw_vec_done(&b->traces);
    hw_strbuf_done(&b->head);
    hw_strbuf_done(&b->error);
    free(b->sql);
    free(b);
    return status;
}
