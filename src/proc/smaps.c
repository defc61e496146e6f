/*
 * smaps.c - a head line as in maps ("start-end perms offset dev inode   name"), then "Key:  N kB"
 * lines, until the next head. A head is known by its first character: keys are capitalised, hex
 * digits are small.
 */
#include "proc/smaps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/maps.h"

#include "base/banned.h"

static int parse_head(char *line, struct hw_smaps *s)
{
    struct hw_smaps_entry e = {0};
    char perms[5] = "";
    int behind = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %*u%n", &e.start, &e.end, perms,
               &behind) != 3 ||
        behind == 0)
        return HW_OK; /* not a head after all: skipped */
    e.flags = (perms[0] == 'r' ? HW_MAP_READ : 0u) | (perms[1] == 'w' ? HW_MAP_WRITE : 0u) |
              (perms[2] == 'x' ? HW_MAP_EXEC : 0u) | (perms[3] == 's' ? HW_MAP_SHARED : 0u);
    char *path = line + behind;
    while (*path == ' ')
        path++;
    e.path = path;
    return hw_vec_push(&s->entries, e) < 0 ? HW_ENOMEM : HW_OK;
}

static void parse_value(const char *line, struct hw_smaps_entry *e)
{
#define X(name, key)                                                                               \
    if (strncmp(line, key, sizeof key - 1) == 0) {                                                 \
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

int hw_smaps_read(int proc_dir, int rollup, struct hw_smaps *out)
{
    char *text;
    size_t n;
    if (hw_file_read(proc_dir, rollup ? "smaps_rollup" : "smaps", 512u * 1024 * 1024, &text, &n,
                     NULL) < 0)
        return HW_EGONE;
    return hw_smaps_parse(text, n, out);
}

void hw_smaps_done(struct hw_smaps *s)
{
    hw_vec_done(&s->entries);
    free(s->text);
    s->text = NULL;
}
