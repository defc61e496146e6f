/* mark_names.c - the names of marks, as the program gives them, and sending them to the recorder */
#include <string.h>
#include <sys/prctl.h>

#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/ring/mark_names.h"
#include "heapwise/marks.h"

static bool is_one_of(char c, const char *set)
{
    while (*set && *set != c)
        set++;
    return *set != '\0';
}

/* Bytes before the first c, or the end. (The bare client has no strchr.) */
static size_t until(const char *p, char c)
{
    size_t n = 0;
    while (p[n] && p[n] != c)
        n++;
    return n;
}

static size_t length_of_type(const char *p)
{
    size_t n = 0;
    int depth = 0;
    for (; p[n]; n++) {
        if (is_one_of(p[n], "<([{"))
            depth++;
        else if (depth > 0 && is_one_of(p[n], ">)]}"))
            depth--;
        else if (depth == 0 && is_one_of(p[n], ";,]"))
            break;
    }
    return n;
}

/* "... [with T = X; F = ...]" of GCC, "... [T = X, F = ...]" of Clang. */
struct hw_mark_text hw_mark_text_of(const struct heapwise_mark *m)
{
    const char *p = m->name;
    if (m->flags & HEAPWISE_MARK_PRETTY)
        for (const char *at = p; *(at += until(at, '[')); at++) {
            size_t with = strncmp(at + 1, "with ", 5) == 0 ? 6 : 1;
            if (strncmp(at + with, "T = ", 4) == 0)
                return (struct hw_mark_text){at + with + 4, length_of_type(at + with + 4)};
        }
    return (struct hw_mark_text){p, strlen(p)};
}

uint64_t hw_mark_id(enum hw_managed_kind kind, struct hw_mark_text t)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < t.n; i++)
        h = (h ^ (unsigned char)t.p[i]) * 0x100000001b3u;
    h ^= h >> 32;
    return hw_managed_id(kind, h * 0x9e3779b97f4a7c15u);
}

void hw_name_send(struct hw_client_session *s, uint64_t id, struct hw_mark_text t,
                  struct hw_mark_text file)
{
    _Atomic uint64_t *named = &s->named[id % HW_NAMED_SLOTS];
    struct heapwise_managed_text name = {
        .function = t.p, .n_function = t.n, .file = file.p, .n_file = file.n};
    if (!hw_name_is_sent(s, id) && hw_push_name(s, id, &name))
        atomic_store_explicit(named, id, memory_order_relaxed);
}

/* Into 16 bytes; false: there is none, or none that we may request. */
bool hw_marks_thread_name(char *out)
{
    bool known = !hw_sandbox() && hw_kernel(SYS_prctl, PR_GET_NAME, out) == 0;
    out[known ? 15 : 0] = '\0';
    return known && out[0];
}
