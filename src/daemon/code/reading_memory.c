/*
 * reading_memory.c - the sources of an account of a process's memory, one right after the other
 *
 * The mappings take the longest, so they come first, and the totals that they are compared with
 * right after them. Nothing stops the process meanwhile.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/code/blocking_reader_job.h"

#include "base/banned.h"

#define MAX_TEXT   (16u << 20)          /* some 20,000 mappings */
#define AUXV       1024u                /* bytes; the kernel's has 20 to 25 pairs */
#define MAX_CPU_NS UINT64_C(1000000000) /* some 60 GiB in small pages */

struct memory_job {
    struct hw_reading_job job;
    enum hw_owner_allocator allocator;
    struct hw_owner_ranges own;
    bool wants_heaps;
    struct hw_reading_memory memory;
};

/* Addresses that change at each exec. */
static size_t read_auxv(int dir, char out[AUXV])
{
    char *text;
    size_t n;
    if (hw_file_read(dir, "auxv", AUXV, &text, &n, NULL) < 0)
        return 0;
    memcpy(out, text, n);
    free(text);
    return n;
}

/* Where the program's own mappings lie, as far as any of them exist. */
static int keep_maps(struct hw_reading_memory *r)
{
    const struct hw_smaps *s = &r->smaps;
    for (size_t i = 0; i < s->entries.n; i++) {
        const struct hw_smaps_entry *e = &s->entries.v[i];
        struct hw_reading_map m = {e->start, e->end, e->rss_kb * 1024};
        bool is_file = e->path[0] == '/' || (e->flags & HW_MAP_SHARED);
        if (is_file || e->rss_kb == 0 || e->start >= e->end)
            continue;
        if (m.rss_bytes > m.end - m.start)
            m.rss_bytes =
                m.end - m.start; /* the kernel may count a page for it that it has just lost */
        if (hw_vec_push(&r->maps, m) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* Before mappings are named and summed. */
static int read_heaps(struct memory_job *m, const struct hw_owner_facts *facts)
{
    struct hw_reading_memory *r = &m->memory;
    int rc = HW_OK;
    if (m->allocator == HW_OWNER_UNREAD || !m->wants_heaps)
        return HW_OK;
    uint64_t began = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    r->heaps_ns = r->began_ns;
    if (m->allocator == HW_OWNER_GLIBC)
        rc = hw_glibc_arenas_read(&r->smaps, facts->mem, facts->pagemap,
                                  hw_reading_heap_start(m->job.who.dir), &r->arenas);
    if (rc == HW_OK)
        rc = hw_python_heap_read(&r->smaps, facts->mem, facts->pagemap, &r->python);
    if (rc == HW_OK)
        rc = hw_go_heap_read(&r->smaps, facts->mem, facts->pagemap, &r->go);
    r->heaps_cpu_ns = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
    return rc;
}

static void run_memory(struct hw_reading_job *j)
{
    struct memory_job *m = (struct memory_job *)(void *)j;
    struct hw_reading_memory *r = &m->memory;
    struct hw_owner_facts facts = {.mem = -1, .pagemap = -1};
    char before[AUXV], after[AUXV];
    size_t n_before = read_auxv(j->who.dir, before);
    r->began_ns = hw_now_boottime_ns();
    j->rc = hw_smaps_read_some(j->who.dir, MAX_TEXT, MAX_CPU_NS, &r->smaps);
    if (j->rc == HW_OK && (hw_proc_status(j->who.dir, &r->status) < 0 || r->smaps.entries.n == 0))
        j->rc = HW_EGONE;
    r->ended_ns = hw_now_boottime_ns();
    if (j->rc == HW_OK)
        j->rc = hw_owner_facts_read(j->who.dir, m->allocator, &facts);
    facts.own = m->own;
    if (j->rc == HW_OK)
        r->has_jvm = hw_jvm_counters_read(&r->smaps, facts.mem, facts.pagemap, &r->jvm);
    if (j->rc == HW_OK)
        j->rc = read_heaps(m, &facts);
    if (j->rc == HW_OK)
        j->rc = hw_owners_name(&r->smaps, &facts);
    if (j->rc == HW_OK)
        j->rc = keep_maps(r);
    if (j->rc == HW_OK)
        j->rc = hw_smaps_sum(&r->smaps); /* it is kept: 16 MiB of text per target would be much */
    hw_owner_facts_done(&facts);
    if (j->rc == HW_OK)
        r->has_group = hw_memory_group_read(j->who.dir, &hw_limits_usual, &r->group);
    if (read_auxv(j->who.dir, after) != n_before || memcmp(before, after, n_before) != 0)
        j->rc = HW_EGONE;
}

static void drop_memory(struct hw_reading_job *j)
{
    hw_reading_memory_done(&((struct memory_job *)(void *)j)->memory);
}

int hw_reading_memory(struct hw_blocking_reader *l, struct hw_reading_who who,
                      enum hw_owner_allocator allocator, const struct hw_owner_ranges *own,
                      bool wants_heaps, struct hw_reading_memory *out)
{
    struct memory_job *m = hw_reading_job_new(sizeof *m, &who, run_memory, drop_memory);
    if (m) {
        m->allocator = allocator;
        m->own = *own;
        m->wants_heaps = wants_heaps;
    }
    int rc = m ? hw_reading_job_do(l, &m->job) : HW_ENOMEM;
    if (rc < 0)
        return rc;
    rc = m->job.rc;
    if (rc == HW_OK) {
        *out = m->memory;
        out->cpu_ns = m->job.cpu_ns;
        m->memory = (struct hw_reading_memory){0};
    }
    hw_reading_job_free(&m->job);
    return rc;
}

void hw_reading_memory_done(struct hw_reading_memory *m)
{
    hw_smaps_done(&m->smaps);
    hw_vec_done(&m->maps);
    hw_glibc_arenas_done(&m->arenas);
}
