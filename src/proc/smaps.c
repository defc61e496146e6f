/*
 * smaps.c - a head line as in maps ("start-end perms offset dev inode   name"), then "Key:  N kB"
 * lines, until the next head. A head is known by its first character: keys are capitalised, hex
 * digits are small.
 *
 * The process goes on between two calls of read. Since Linux 6.17 the kernel goes on behind the end
 * of what it has said last, and a mapping that has grown since, as a heap does, lies there once
 * more: what is said last counts.
 */
#include "proc/smaps.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "proc/maps.h"

#include "base/banned.h"

static int parse_head(char *line, struct hw_smaps *s)
{
    struct hw_smaps_entry e = {.n_mappings = 1};
    char perms[5] = "";
    int behind = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %x:%x %" SCNu64 "%n", &e.start, &e.end, perms,
               &e.dev_major, &e.dev_minor, &e.inode, &behind) != 6 ||
        behind == 0)
        return HW_OK; /* not a head after all: skipped */
    e.flags = (perms[0] == 'r' ? HW_MAP_READ : 0u) | (perms[1] == 'w' ? HW_MAP_WRITE : 0u) |
              (perms[2] == 'x' ? HW_MAP_EXEC : 0u) | (perms[3] == 's' ? HW_MAP_SHARED : 0u);
    char *path = line + behind;
    while (*path == ' ')
        path++;
    e.path = path;
    while (s->entries.n && s->entries.v[s->entries.n - 1].end > e.start)
        s->entries.n--;
    return hw_vec_push(&s->entries, e) < 0 ? HW_ENOMEM : HW_OK;
}

static void parse_flags(const char *line, struct hw_smaps_entry *e)
{
    e->no_reserve = strstr(line, " nr") != NULL;
    e->no_huge = strstr(line, " nh") != NULL;
    e->has_fault_handler =
        strstr(line, " um") != NULL || strstr(line, " uw") != NULL || strstr(line, " ui") != NULL;
}

static void parse_value(const char *line, struct hw_smaps_entry *e)
{
    if (strncmp(line, "VmFlags:", 8) == 0) {
        parse_flags(line, e);
        return;
    }
#define X(name, key)                                                                               \
    if (hw_starts_with(line, key)) {                                                               \
        e->name##_kb = strtoull(line + sizeof key - 1, NULL, 10);                                  \
        return;                                                                                    \
    }
    HW_SMAPS_FIELDS(X)
#undef X
}

static int hw_smaps_parse(char *text, size_t n, struct hw_smaps *out)
{
    struct hw_smaps s = {.text = text};
    int rc = HW_OK;
    for (char *p = text, *end = text + n; rc == HW_OK && p < end;) {
        char *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl)
            nl = end;
        *nl = '\0';
        if ((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'f'))
            rc = parse_head(p, &s);
        else if (s.entries.n)
            parse_value(p, &s.entries.v[s.entries.n - 1]);
        p = nl + 1;
    }
    if (rc < 0)
        hw_smaps_done(&s);
    else
        *out = s;
    return rc;
}

/* Cut at a mapping's head, so that the last one has all its lines. */
static size_t whole_part(char *text, size_t n)
{
    size_t at = n;
    while (at > 0 &&
           !(text[at - 1] == '\n' && at < n &&
             ((text[at] >= '0' && text[at] <= '9') || (text[at] >= 'a' && text[at] <= 'f'))))
        at--;
    text[at] = '\0';
    return at;
}

/*
 * The kernel writes mappings into a page of text until one does not fit, throws away what it knows of that, and looks at
 * all its pages again in the next call: of 4 GiB in small pages that is 30 ms of 65. It stops before if it has as much as
 * it was asked for, so less is asked for than it has to say of any mapping. Of thousands of mappings, the calls would
 * cost more than that.
 */
int hw_smaps_read_some(int proc_dir, size_t max_bytes, uint64_t max_cpu_ns, struct hw_smaps *out)
{
    enum { PIECE = 64 * 1024, SMALL = 512, FEW = 1024 * 1024, LEAST = 8192 /* a mapping */ };
    hw_autofd int fd = openat(proc_dir, "smaps", O_RDONLY | O_CLOEXEC);
    size_t n = 0, room = 0;
    char *text = NULL;
    uint64_t until_ns = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) + max_cpu_ns;
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0 && n < max_bytes &&
           (n < LEAST || hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns)) {
        if (n + PIECE + 1 > room) {
            room = 2 * room + PIECE + 1;
            char *more = realloc(text, room);
            if (!more) {
                free(text);
                return HW_ENOMEM;
            }
            text = more;
        }
        got = read(fd, text + n, n < FEW ? SMALL : PIECE);
        n += got > 0 ? (size_t)got : 0;
    }
    if (got < 0 || n == 0) {
        free(text);
        return HW_EGONE;
    }
    text[n] = '\0';
    bool cut = got > 0;
    int rc = hw_smaps_parse(text, cut ? whole_part(text, n) : n, out);
    if (rc == HW_OK)
        out->cut = cut;
    return rc;
}

int hw_smaps_read(int proc_dir, int rollup, struct hw_smaps *out)
{
    enum { MOST = 512 * 1024 * 1024 };
    char *text;
    size_t n;
    if (!rollup)
        return hw_smaps_read_some(proc_dir, MOST, UINT64_MAX / 2, out);
    if (hw_file_read(proc_dir, "smaps_rollup", MOST, &text, &n, NULL) < 0)
        return HW_EGONE;
    return hw_smaps_parse(text, n, out);
}

static int by_path(const void *pa, const void *pb)
{
    const struct hw_smaps_entry *a = pa, *b = pb;
    int order = strcmp(a->path, b->path);
    return order ? order : a->start < b->start ? -1 : a->start > b->start;
}

static void add_entry(struct hw_smaps_entry *to, const struct hw_smaps_entry *e)
{
    to->n_mappings += e->n_mappings;
#define X(name, key) to->name##_kb += e->name##_kb;
    HW_SMAPS_FIELDS(X)
#undef X
}

int hw_smaps_sum(struct hw_smaps *s)
{
    size_t n_names = 0, n_text = 0, at = 0;
    if (s->entries.n)
        qsort(s->entries.v, s->entries.n, sizeof *s->entries.v, by_path);
    for (size_t i = 0; i < s->entries.n; i++)
        if (i == 0 || strcmp(s->entries.v[i].path, s->entries.v[i - 1].path) != 0) {
            n_names++;
            n_text += strlen(s->entries.v[i].path) + 1;
        }
    struct hw_smaps_entry *sums = calloc(n_names + 1, sizeof *sums);
    char *names = malloc(n_text + 1);
    if (!sums || !names) {
        free(sums);
        free(names);
        return HW_ENOMEM;
    }
    n_names = 0;
    for (size_t i = 0; i < s->entries.n; i++) {
        const struct hw_smaps_entry *e = &s->entries.v[i];
        if (n_names && strcmp(sums[n_names - 1].path, e->path) == 0) {
            add_entry(&sums[n_names - 1], e);
            continue;
        }
        size_t n = strlen(e->path) + 1;
        sums[n_names] = *e;
        sums[n_names++].path = memcpy(names + at, e->path, n);
        at += n;
    }
    free(s->entries.v);
    free(s->text);
    s->entries.v = sums;
    s->entries.n = n_names;
    s->entries.cap = n_names + 1;
    s->text = names;
    return HW_OK;
}

void hw_smaps_done(struct hw_smaps *s)
{
    hw_vec_done(&s->entries);
    free(s->text);
    s->text = NULL;
}
