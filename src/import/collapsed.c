/*
 * One line per stack: `root;…;leaf VALUE`, as flame graph scripts write and read it. What the value
 * counts is not defined; it is taken as bytes, allocated and still held.
 *
 * There is no magic: a file is taken for this format when most lines of its head, the first one at
 * least, end in a space and a number, and one of them has a ';'; empty lines and comments (#) do
 * not count.
 */
#include "import/collapsed.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "base/progress.h"
#include "codec/text_lines.h"
#include "model/profile.h"

#include "base/banned.h"

struct collapsed {
    struct hw_profile *p;
    HW_VEC(hw_frame_id) path;
    uint64_t n_bad;
};

/* Splits the line into stack and value; a fraction of the value is dropped. */
static bool split(struct hw_bytes line, struct hw_bytes *stack, uint64_t *value)
{
    while (line.n && (line.p[line.n - 1] == ' ' || line.p[line.n - 1] == '\t'))
        line.n--;
    size_t at = line.n;
    while (at && line.p[at - 1] != ' ' && line.p[at - 1] != '\t')
        at--;
    struct hw_bytes word = hw_bytes_skip(line, at);
    const uint8_t *dot = word.n ? memchr(word.p, '.', word.n) : NULL;
    if (dot)
        word.n = (size_t)(dot - word.p);
    if (at < 2 || !hw_word_decimal(&word, value))
        return false;
    *stack = hw_bytes_of(line.p, at - 1);
    return true;
}

static int push_frame(struct collapsed *in, struct hw_bytes name)
{
    struct hw_frame f = {.mapping = {HW_ID_NONE}};
    hw_frame_id row;
    int rc = hw_profile_str(in->p, name, &f.name);
    if (rc == HW_OK)
        rc = hw_callsites_frame(in->p->callsites, &f, &row);
    return rc == HW_OK && hw_vec_push(&in->path, row) < 0 ? HW_ENOMEM : rc;
}

static int add_stack(struct collapsed *in, struct hw_bytes stack, uint64_t value)
{
    struct hw_alloc_row row = {.size = value > INT64_MAX ? INT64_MAX : (int64_t)value};
    in->path.n = 0;
    while (in->path.n <= HW_MAX_CALLSITE_DEPTH) {
        const uint8_t *end = stack.n ? memchr(stack.p, ';', stack.n) : NULL;
        size_t n = end ? (size_t)(end - stack.p) : stack.n;
        int rc = push_frame(in, hw_bytes_of(stack.p, n));
        if (rc < 0)
            return rc;
        if (!end)
            break;
        stack = hw_bytes_of(end + 1, stack.n - n - 1);
    }
    if (in->path.n > HW_MAX_CALLSITE_DEPTH) {
        in->n_bad++;
        return HW_OK;
    }
    int rc = hw_callsites_intern(in->p->callsites, in->path.v, in->path.n, &row.callsite);
    return rc < 0 ? rc : hw_alloc_rows_push(&in->p->allocs, &row);
}

static int add_dump(struct hw_profile *p)
{
    struct hw_heap_dump d = {0};
    int rc = hw_profile_process(p, 0, &d.upid);
    if (rc == HW_OK)
        rc = hw_profile_str(p, hw_bytes_str("unknown"), &d.heap_name);
    return rc == HW_OK && hw_vec_push(&p->dumps, d) < 0 ? HW_ENOMEM : rc;
}

static int read_collapsed(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct collapsed in = {.p = into};
    struct hw_lines lines = hw_lines_of(file);
    struct hw_bytes line, stack;
    uint64_t value;
    int rc = add_dump(into);
    while (rc == HW_OK && hw_lines_next(&lines, &line)) {
        if (line.n == 0 || line.p[0] == '#')
            continue;
        if (split(line, &stack, &value))
            rc = value ? add_stack(&in, stack, value) : HW_OK;
        else
            in.n_bad++;
        hw_progress_at(into->progress, lines.offset, file.n);
    }
    hw_vec_done(&in.path);
    if (rc == HW_OK && in.n_bad)
        rc = hw_profile_stat_add(into, "stackprofile_parser_error", -1, HW_STAT_ERROR,
                                 (int64_t)in.n_bad);
    return rc < 0 ? hw_fail(err, rc, lines.offset, "line %llu:", (unsigned long long)lines.number)
                  : HW_OK;
}

static int probe(struct hw_bytes head)
{
    struct hw_lines lines = hw_lines_of(head);
    struct hw_bytes line, stack;
    uint64_t value;
    int n_good = 0, n_bad = 0, n_stacks = 0;
    while (hw_lines_next(&lines, &line)) {
        bool cut = lines.rest.n == 0 && head.p[head.n - 1] != '\n';
        if (line.n == 0 || line.p[0] == '#' || (cut && n_good))
            continue;
        if (memchr(line.p, 0, line.n))
            return 0;
        if (split(line, &stack, &value)) {
            n_good++;
            n_stacks += memchr(stack.p, ';', stack.n) != NULL;
        } else if (n_good == 0)
            return 0;
        else
            n_bad++;
    }
    return n_stacks && n_good >= 3 * n_bad ? 30 : 0;
}

const struct hw_importer hw_import_collapsed = {
    .name = "folded",
    .summary = "one line a stack with one figure, as flamegraph scripts have it",
    .probe = probe,
    .read = read_collapsed,
};
