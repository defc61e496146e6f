/*
 * maps.c - one line per mapping:
 *
 *   55d0c0a00000-55d0c0a21000 r-xp 00002000 fe:01 131090    /usr/bin/true
 *
 * The name is everything after the blanks up to the newline; the kernel writes a newline in a name
 * as \012 and a backslash as itself, so only \012 is undone (other digits would be ambiguous).
 */
#include "proc/maps.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/lower_bound.h"

#include "base/banned.h"

struct line {
    char *pos, *end;
};

static bool take_number(struct line *l, unsigned base, char stop, uint64_t *out)
{
    uint64_t v = 0;
    char *start = l->pos;
    for (; l->pos < l->end && *l->pos != stop; l->pos++) {
        char c = *l->pos;
        unsigned d = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                            : 99;
        if (d >= base || l->pos - start >= 20)
            return false;
        v = v * base + d;
    }
    if (l->pos == start || l->pos == l->end)
        return false;
    l->pos++; /* the stop character */
    *out = v;
    return true;
}

static bool take_flags(struct line *l, uint32_t *out)
{
    if (l->end - l->pos < 5 || l->pos[4] != ' ')
        return false;
    *out = (l->pos[0] == 'r' ? HW_MAP_READ : 0u) | (l->pos[1] == 'w' ? HW_MAP_WRITE : 0u) |
           (l->pos[2] == 'x' ? HW_MAP_EXEC : 0u) | (l->pos[3] == 's' ? HW_MAP_SHARED : 0u);
    l->pos += 5;
    return true;
}

static void undo_escapes(char *s)
{
    char *to = s;
    for (const char *from = s; *from; from++) {
        if (strncmp(from, "\\012", 4) == 0) {
            *to++ = '\n';
            from += 3;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static bool parse_line(struct line l, struct hw_map *m)
{
    uint64_t major, minor;
    *m = (struct hw_map){0};
    if (!take_number(&l, 16, '-', &m->start) || !take_number(&l, 16, ' ', &m->end) ||
        !take_flags(&l, &m->flags) || !take_number(&l, 16, ' ', &m->offset) ||
        !take_number(&l, 16, ':', &major) || !take_number(&l, 16, ' ', &minor))
        return false;
    /* The inode ends at a blank, or at the end of the line if there is no name. */
    char *ino = l.pos;
    *l.end = ' '; /* the newline's place: gives take_number its stop */
    l.end++;
    if (!take_number(&l, 10, ' ', &m->inode))
        return false;
    l.end--;
    *l.end = '\0';
    if (l.pos > l.end)
        l.pos = l.end;
    (void)ino;
    while (l.pos < l.end && *l.pos == ' ')
        l.pos++;
    m->dev_major = (uint32_t)major;
    m->dev_minor = (uint32_t)minor;
    m->path = l.pos;
    static const char deleted[] = " (deleted)";
    size_t n = (size_t)(l.end - l.pos);
    if (n > sizeof deleted - 1 &&
        memcmp(l.end - (sizeof deleted - 1), deleted, sizeof deleted - 1) == 0) {
        m->flags |= HW_MAP_DELETED;
        l.end[-(ptrdiff_t)(sizeof deleted - 1)] = '\0';
    }
    undo_escapes(l.pos);
    return m->start < m->end;
}

int hw_maps_parse(char *text, size_t n, struct hw_maps *out)
{
    struct hw_maps m = {.text = text};
    int rc = HW_OK;
    for (char *p = text, *end = text + n; p < end;) {
        char *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl)
            nl = end; /* text[n] is ours: parse_line may write there */
        struct hw_map e;
        uint64_t last_end = m.maps.n ? m.maps.v[m.maps.n - 1].end : 0;
        if (!parse_line((struct line){p, nl}, &e) || e.start < last_end) {
            m.n_bad++;
        } else if (m.maps.n >= HW_MAPS_MAX_ENTRIES) {
            rc = HW_ELIMIT;
            break;
        } else if (hw_vec_push(&m.maps, e) < 0) {
            rc = HW_ENOMEM;
            break;
        }
        p = nl + 1;
    }
    if (rc < 0)
        hw_maps_done(&m);
    else
        *out = m;
    return rc;
}

int hw_maps_read(int proc_dir, struct hw_maps *out, struct hw_error *err)
{
    char *text;
    size_t n;
    int rc = hw_file_read(proc_dir, "maps", HW_MAPS_MAX_BYTES, &text, &n, err);
    if (rc < 0)
        return rc;
    rc = hw_maps_parse(text, n, out);
    if (rc < 0)
        return hw_fail(err, rc, 0, "list of mappings:");
    return HW_OK;
}

void hw_maps_done(struct hw_maps *m)
{
    hw_vec_done(&m->maps);
    free(m->text);
    m->text = NULL;
}

const struct hw_map *hw_maps_find(const struct hw_maps *m, uint64_t addr)
{
    size_t lo = HW_LOWER_BOUND(mid, 0, m->maps.n, m->maps.v[mid].end <= addr);
    return lo < m->maps.n && m->maps.v[lo].start <= addr ? &m->maps.v[lo] : NULL;
}

const struct hw_map *hw_maps_find_code(const struct hw_maps *m, const char *name)
{
    for (size_t i = 0; i < m->maps.n; i++) {
        const char *slash = strrchr(m->maps.v[i].path, '/');
        if ((m->maps.v[i].flags & HW_MAP_EXEC) && slash && strcmp(slash + 1, name) == 0)
            return &m->maps.v[i];
    }
    return NULL;
}
