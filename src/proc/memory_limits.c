/*
 * memory_limits.c - limits and what is used of them
 *
 * /proc/PID/cgroup has one line for each hierarchy: "0::/PATH" of the unified one (v2),
 * "4:memory:/PATH" of v1's memory controller. Paths are relative to the reader's own cgroup
 * namespace; one that begins with "/.." lies outside and is skipped.
 */
#include "proc/memory_limits.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "proc/pid.h"

#include "base/banned.h"

#define MAX_TEXT (64u * 1024)
#define HUGE     (UINT64_C(1) << 60) /* v1 writes "no limit" as a number of pages near 2^63 */

const struct hw_limits_roots hw_limits_usual = {"/sys/fs/cgroup", "/proc/meminfo"};

/* The number behind the word at a line's beginning; false = there is none ("max", "unlimited"). */
static bool number_of(const char *text, const char *word, uint64_t *out)
{
    size_t n = strlen(word);
    for (const char *p = text; p; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (strncmp(p, word, n) != 0)
            continue;
        p += n + strspn(p + n, " \t:");
        char *end;
        if (*p < '0' || *p > '9')
            return false;
        *out = strtoull(p, &end, 10);
        return true;
    }
    return false;
}

static bool number_in(int dir, const char *file, uint64_t *out)
{
    char *text;
    size_t n;
    if (hw_file_read(dir, file, MAX_TEXT, &text, &n, NULL) < 0)
        return false;
    bool found = number_of(text, "", out);
    free(text);
    return found;
}

/* ---- which limits there are ---- */

static void find_rlimits(struct hw_limits *l, int proc_dir)
{
    char *text;
    size_t n;
    l->address_space = l->data = UINT64_MAX;
    if (hw_file_read(proc_dir, "limits", MAX_TEXT, &text, &n, NULL) < 0)
        return;
    (void)number_of(text, "Max address space", &l->address_space); /* "unlimited" stays so */
    (void)number_of(text, "Max data size", &l->data);
    free(text);
}

static bool is_limited(int dir, bool v2)
{
    uint64_t limit;
    return number_in(dir, v2 ? "memory.max" : "memory.limit_in_bytes", &limit) && limit < HUGE;
}

/* path: of the process's group, cut at each step up; the root itself included. */
static void add_groups(struct hw_limits *l, const char *root, char *path, bool v2)
{
    for (;;) {
        char whole[4096];
        int n = snprintf(whole, sizeof whole, "%s%s", root, path);
        int dir = n < (int)sizeof whole ? open(whole, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        if (dir >= 0 && l->n_groups < HW_LIMITS_GROUPS && (l->all_groups || is_limited(dir, v2)))
            l->groups[l->n_groups++] = (struct hw_limits_group){dir, v2};
        else if (dir >= 0)
            (void)close(dir); /* only opened */
        char *slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* controllers: "cpu,memory" of v1; "" of v2. */
static bool names_memory(const char *controllers, size_t n)
{
    for (const char *p = controllers, *end = controllers + n; p < end;) {
        size_t word = strcspn(p, ",:");
        if (word == 6 && strncmp(p, "memory", 6) == 0)
            return true;
        p += word + 1;
    }
    return false;
}

static void add_line(struct hw_limits *l, const char *root, const char *line, size_t n)
{
    char path[3000], mount[600];
    const char *first = memchr(line, ':', n);
    const char *second = first ? memchr(first + 1, ':', n - (size_t)(first + 1 - line)) : NULL;
    if (!second)
        return;
    size_t len = n - (size_t)(second + 1 - line), names = (size_t)(second - first - 1);
    bool v2 = names == 0;
    if (len >= sizeof path || (!v2 && !names_memory(first + 1, names)))
        return;
    memcpy(path, second + 1, len);
    path[len] = '\0';
    if (path[0] != '/' || strstr(path, "/.."))
        return;
    if (path[1] == '\0')
        path[0] = '\0'; /* the root's path is "/" */
    /* Where both versions are mounted, v2 has a directory of its own. */
    static const char *const v2_mounts[] = {"", "/unified"};
    for (size_t i = 0; v2 && i < 2; i++) {
        char copy[sizeof path];
        (void)snprintf(copy, sizeof copy, "%s", path);
        (void)snprintf(mount, sizeof mount, "%s%s", root, v2_mounts[i]); /* cut: not opened */
        add_groups(l, mount, copy, true);
    }
    (void)snprintf(mount, sizeof mount, "%s/memory", root);
    if (!v2)
        add_groups(l, mount, path, false);
}

static void find_groups(struct hw_limits *l, int proc_dir, const struct hw_limits_roots *roots)
{
    char *text;
    size_t n;
    if (hw_file_read(proc_dir, "cgroup", MAX_TEXT, &text, &n, NULL) < 0)
        return;
    for (char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        add_line(l, roots->cgroup, p, len);
        p += len + (p[len] == '\n');
    }
    free(text);
}

void hw_limits_init(struct hw_limits *l, int proc_dir, const struct hw_limits_roots *roots)
{
    *l = (struct hw_limits){.has_machine = true};
    find_rlimits(l, proc_dir);
    find_groups(l, proc_dir, roots);
}

void hw_limits_done(struct hw_limits *l)
{
    for (size_t i = 0; i < l->n_groups; i++)
        (void)close(l->groups[i].dir); /* only a name */
    l->n_groups = 0;
}

/* ---- usage ---- */

static void take_nearer(struct hw_limit_state *best, const char *what, uint64_t limit,
                        uint64_t used)
{
    struct hw_limit_state s = {what, limit, used};
    if (limit && limit < HUGE && (!best->what || hw_limit_percent(&s) > hw_limit_percent(best)))
        *best = s;
}

/* File pages are dropped before any process is killed: first those that were not used recently
 * and not missed, in the end all. */
static uint64_t droppable(int dir, bool v2, bool all)
{
    char *text;
    size_t n;
    uint64_t bytes = 0, active = 0;
    if (hw_file_read(dir, "memory.stat", MAX_TEXT, &text, &n, NULL) < 0)
        return 0;
    (void)number_of(text, v2 ? "inactive_file" : "total_inactive_file", &bytes); /* or none */
    if (all)
        (void)number_of(text, v2 ? "active_file" : "total_active_file", &active);
    free(text);
    return bytes + active < bytes ? bytes : bytes + active;
}

static void look_at_group(const struct hw_limits_group *g, bool all_files,
                          struct hw_limit_state *best)
{
    uint64_t limit, used;
    if (!number_in(g->dir, g->v2 ? "memory.max" : "memory.limit_in_bytes", &limit) ||
        !number_in(g->dir, g->v2 ? "memory.current" : "memory.usage_in_bytes", &used) ||
        limit == 0 || limit >= HUGE)
        return;
    if (used > limit / 2) { /* else it is not near in any case */
        uint64_t files = droppable(g->dir, g->v2, all_files);
        used = used > files ? used - files : 0;
    }
    take_nearer(best, "memory group", limit, used);
}

static void look_at_machine(const char *meminfo, struct hw_limit_state *best)
{
    char *text;
    size_t n;
    uint64_t total, available, swap = 0, swap_free = 0;
    if (hw_file_read(-1, meminfo, MAX_TEXT, &text, &n, NULL) < 0)
        return;
    if (number_of(text, "MemTotal", &total) && number_of(text, "MemAvailable", &available)) {
        (void)number_of(text, "SwapTotal", &swap); /* none: 0 */
        (void)number_of(text, "SwapFree", &swap_free);
        uint64_t all = total + swap, left = available + swap_free;
        take_nearer(best, "machine", all * 1024, all > left ? (all - left) * 1024 : 0);
    }
    free(text);
}

static void look_at_rlimits(const struct hw_limits *l, int proc_dir, struct hw_limit_state *best)
{
    char *text;
    size_t n;
    uint64_t size, data;
    if ((l->address_space >= HUGE && l->data >= HUGE) ||
        hw_file_read(proc_dir, "status", MAX_TEXT, &text, &n, NULL) < 0)
        return;
    if (number_of(text, "VmSize", &size))
        take_nearer(best, "address space", l->address_space, size * 1024);
    if (number_of(text, "VmData", &data))
        take_nearer(best, "data", l->data, data * 1024);
    free(text);
}

struct hw_limit_state hw_limits_nearest(const struct hw_limits *l, int proc_dir,
                                        const struct hw_limits_roots *roots)
{
    struct hw_limit_state best = {0};
    look_at_rlimits(l, proc_dir, &best);
    for (size_t i = 0; i < l->n_groups; i++)
        look_at_group(&l->groups[i], /* all_files = */ false, &best);
    if (l->has_machine)
        look_at_machine(roots->meminfo, &best);
    return best;
}

uint64_t hw_limits_room(const struct hw_limits *l, const struct hw_limits_roots *roots,
                        const char **what)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i <= l->n_groups; i++) {
        struct hw_limit_state s = {0};
        if (i < l->n_groups)
            look_at_group(&l->groups[i], /* all_files = */ true, &s);
        else if (l->has_machine)
            look_at_machine(roots->meminfo, &s);
        uint64_t left = !s.what ? UINT64_MAX : s.limit > s.used ? s.limit - s.used : 0;
        if (left >= least)
            continue;
        least = left;
        if (what)
            *what = s.what;
    }
    return least;
}

/* ---- what a group holds ---- */

static uint64_t stat_of(const char *text, const char *v2, const char *v1)
{
    uint64_t n = 0;
    return number_of(text, v2, &n) || (v1 && number_of(text, v1, &n)) ? n : UINT64_MAX;
}

static bool read_group(const struct hw_limits_group *g, struct hw_memory_group *out)
{
    char *text;
    size_t n;
    struct stat st;
    *out = (struct hw_memory_group){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                    UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    if (fstat(g->dir, &st) == 0)
        out->id = (uint64_t)st.st_ino;
    (void)number_in(g->dir, g->v2 ? "memory.current" : "memory.usage_in_bytes", &out->current);
    if (!number_in(g->dir, g->v2 ? "memory.max" : "memory.limit_in_bytes", &out->limit) ||
        out->limit >= HUGE)
        out->limit = UINT64_MAX;
    if (hw_file_read(g->dir, "memory.stat", MAX_TEXT, &text, &n, NULL) < 0)
        return false;
    out->anon = stat_of(text, "anon ", "rss ");
    out->file = stat_of(text, "file ", "cache ");
    out->kernel = stat_of(text, "kernel ", NULL);
    out->sock = stat_of(text, "sock ", NULL);
    out->shmem = stat_of(text, "shmem ", NULL);
    free(text);
    return out->anon != UINT64_MAX;
}

bool hw_memory_group_read(int proc_dir, const struct hw_limits_roots *roots,
                          struct hw_memory_group *out)
{
    struct hw_limits l = {.all_groups = true};
    bool found = false;
    find_groups(&l, proc_dir, roots);
    for (size_t i = 0; !found && i < l.n_groups; i++) /* its own comes first */
        found = read_group(&l.groups[i], out);
    hw_limits_done(&l);
    return found;
}
