/*
 * reading_memory.c - the sources of an account of a process's memory, one right after the other
 *
 * The mappings take the longest, so they come first, and the totals that they are compared with
 * right after them. Nothing stops the process meanwhile. What is in its heaps comes last: the process decides how long
 * that takes, up to a limit, and may end meanwhile.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "base/text/text_parts.h"
#include "daemon/code/blocking_reader_job.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "proc/file.h"

#include "base/banned.h"

#define MAX_TEXT   (16u << 20)          /* some 20,000 mappings */
#define AUXV       1024u                /* bytes; the kernel's has 20 to 25 pairs */
#define MAX_CPU_NS UINT64_C(1000000000) /* some 60 GiB in small pages */

/* Addresses that change at each exec. */
struct image {
    size_t n;
    char auxv[AUXV];
};

struct memory_job {
    struct hw_reading_job job;
    enum hw_owner_allocator allocator;
    struct hw_owner_ranges own;
    bool wants_heaps;
    struct hw_reading_memory memory;
};

/* Of the process as it was when it was read. */
struct hw_reading_places {
    struct image image;
    struct hw_smaps mappings; /* neither named nor summed */
};

/* In a job of its own: whatever the process does to hold it up, its mappings are known. */
struct heaps_job {
    struct hw_reading_job job;
    enum hw_owner_allocator allocator;
    struct hw_reading_places *places; /* own */
    struct hw_glibc_arenas arenas;
    struct hw_python_heap python;
    struct hw_go_heap go;
    struct hw_reading_go *go_alloc; /* own */
    struct hw_jvm_code jvm_code;
    struct hw_v8_heap v8;
};

static void read_image(int dir, struct image *out)
{
    char *text;
    out->n = 0;
    if (hw_file_read(dir, "auxv", AUXV, &text, &out->n, NULL) < 0)
        return;
    memcpy(out->auxv, text, out->n);
    free(text);
}

static bool is_image(int dir, const struct image *before)
{
    struct image now;
    read_image(dir, &now);
    return now.n == before->n && memcmp(now.auxv, before->auxv, now.n) == 0;
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

static void free_places(struct hw_reading_places *p)
{
    if (p)
        hw_smaps_done(&p->mappings);
    free(p);
}

/* Naming gives mappings other names and divides them, summing frees the text. */
static int keep_places(struct hw_reading_memory *r)
{
    const struct hw_smaps *from = &r->smaps;
    struct hw_smaps *to = &r->places->mappings;
    if (hw_vec_reserve(&to->entries, from->entries.n) < 0)
        return HW_ENOMEM;
    memcpy(to->entries.v, from->entries.v, from->entries.n * sizeof *to->entries.v);
    to->entries.n = from->entries.n;
    to->cut = from->cut;
    return HW_OK;
}

static int sum(struct hw_reading_memory *r)
{
    if (r->places->mappings.entries.n) {
        r->places->mappings.text = r->smaps.text;
        r->smaps.text = NULL;
    }
    return hw_smaps_sum(&r->smaps);
}

static void run_memory(struct hw_reading_job *j)
{
    struct memory_job *m = (struct memory_job *)(void *)j;
    struct hw_reading_memory *r = &m->memory;
    struct hw_owner_facts facts = {.mem = -1, .pagemap = -1};
    r->places = calloc(1, sizeof *r->places);
    if (!r->places) {
        j->rc = HW_ENOMEM;
        return;
    }
    read_image(j->who.dir, &r->places->image);
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
        j->rc = m->wants_heaps ? keep_places(r) : HW_OK;
    if (j->rc == HW_OK)
        j->rc = hw_owners_name(&r->smaps, &facts);
    if (j->rc == HW_OK)
        j->rc = keep_maps(r);
    if (j->rc == HW_OK)
        j->rc = sum(r);
    hw_owner_facts_done(&facts);
    if (j->rc == HW_OK)
        r->has_group = hw_memory_group_read(j->who.dir, &hw_limits_usual, &r->group);
    if (!is_image(j->who.dir, &r->places->image))
        j->rc = HW_EGONE;
}

static void drop_memory(struct hw_reading_job *j)
{
    hw_reading_memory_done(&((struct memory_job *)(void *)j)->memory);
}

/* ---- a JVM's code cache, and V8's spaces ---- */

struct library {
    struct hw_image image;
    uint64_t bias;
};

/* Its texts are constants of the file, as it is mapped. */
static bool read_text(void *arg, uint64_t at, char *out, size_t max)
{
    const struct library *l = arg;
    uint64_t offset, left;
    if (!hw_image_offset(&l->image, at - l->bias, &offset, &left))
        return false;
    size_t n = left < max ? (size_t)left : max;
    return hw_fd_pread_all(l->image.fd, out, n, offset) == HW_OK && memchr(out, 0, n);
}

static bool is_libjvm(const struct hw_map *m)
{
    static const char name[] = "/libjvm.so";
    size_t n = strlen(m->path);
    return n >= sizeof name - 1 && strcmp(m->path + n - (sizeof name - 1), name) == 0;
}

static int read_code(const struct heaps_job *h, int mem, int pagemap, const struct hw_map *m,
                     struct hw_jvm_code *out)
{
    const struct hw_reading_who *who = &h->job.who;
    struct library l = {.bias = m->start - m->offset};
    struct hw_jvm_texts texts = {read_text, &l};
    uint64_t va;
    hw_autofd int fd = -1;
    if (hw_proc_open_mapping(who->dir, who->uid, m, &fd, NULL) < 0 ||
        hw_image_open(&l.image, fd, NULL, 0, /* with_sections = */ true, NULL) < 0)
        return HW_OK;
    bool has = hw_symbols_find(&l.image, ".dynsym", "gHotSpotVMStructs", &va);
    int rc = has ? hw_jvm_code_read(&h->places->mappings, mem, pagemap, va + l.bias, &texts, out)
                 : HW_OK;
    hw_image_close(&l.image);
    return rc;
}

static bool has_version(const struct hw_image *i, const char *symbol, uint32_t *out)
{
    uint64_t va, offset, left;
    return hw_symbols_find(i, ".dynsym", symbol, &va) && hw_image_offset(i, va, &offset, &left) &&
           left >= sizeof *out && hw_fd_pread_all(i->fd, out, sizeof *out, offset) == HW_OK;
}

/* V8's version are variables that the program does not change, so they are the file's. */
static int read_v8(const struct heaps_job *h, int mem, int pagemap, const struct hw_map *m,
                   struct hw_v8_heap *out)
{
    const struct hw_reading_who *who = &h->job.who;
    struct hw_image image;
    uint32_t major, minor;
    hw_autofd int fd = -1;
    if (hw_proc_open_mapping(who->dir, who->uid, m, &fd, NULL) < 0 ||
        hw_image_open(&image, fd, NULL, 0, /* with_sections = */ true, NULL) < 0)
        return HW_OK;
    bool has = has_version(&image, "_ZN2v88internal7Version6major_E", &major) &&
               has_version(&image, "_ZN2v88internal7Version6minor_E", &minor);
    hw_image_close(&image);
    out->state = HW_V8_HEAP_VERSION;
    return has ? hw_v8_heap_read(&h->places->mappings, mem, pagemap, major, minor, out) : HW_OK;
}

static bool is_node(const struct hw_map *m)
{
    const char *slash = strrchr(m->path, '/');
    return slash && (strcmp(slash, "/node") == 0 || hw_starts_with(slash, "/libnode.so"));
}

/* The first mapping, and with it the beginning, of a file; NULL: none. */
static const struct hw_map *file_of(const struct hw_maps *maps,
                                    bool (*is_it)(const struct hw_map *))
{
    for (size_t i = 0; i < maps->maps.n; i++)
        if (maps->maps.v[i].offset == 0 && is_it(&maps->maps.v[i]))
            return &maps->maps.v[i];
    return NULL;
}

/* What only the runtime's file says where to find. */
static int read_runtimes(struct heaps_job *h, int mem, int pagemap)
{
    struct hw_maps maps;
    bool may_be = false;
    for (size_t i = 0; i < h->places->mappings.entries.n; i++) {
        const char *path = h->places->mappings.entries.v[i].path;
        may_be |= strstr(path, "/libjvm.so") != NULL || strstr(path, "/node") != NULL ||
                  strstr(path, "/libnode.so") != NULL;
    }
    if (!may_be || hw_maps_read(h->job.who.dir, &maps, NULL) < 0)
        return HW_OK;
    const struct hw_map *jvm = file_of(&maps, is_libjvm), *node = file_of(&maps, is_node);
    int rc = jvm ? read_code(h, mem, pagemap, jvm, &h->jvm_code) : HW_OK;
    if (rc == HW_OK && node)
        rc = read_v8(h, mem, pagemap, node, &h->v8);
    hw_maps_done(&maps);
    return rc;
}

static void run_heaps(struct hw_reading_job *j)
{
    struct heaps_job *h = (struct heaps_job *)(void *)j;
    int dir = j->who.dir;
    hw_autofd int mem = openat(dir, "mem", O_RDONLY | O_CLOEXEC);
    hw_autofd int pagemap = openat(dir, "pagemap", O_RDONLY | O_CLOEXEC);
    j->rc = HW_OK;
    if (h->allocator == HW_OWNER_GLIBC)
        j->rc = hw_glibc_arenas_read(&h->places->mappings, mem, pagemap, hw_reading_heap_start(dir),
                                     &h->arenas);
    if (j->rc == HW_OK)
        j->rc = hw_python_heap_read(&h->places->mappings, mem, pagemap, &h->python);
    if (j->rc == HW_OK)
        j->rc = hw_go_heap_read(&h->places->mappings, mem, pagemap, &h->go);
    if (j->rc == HW_OK && h->go.state != HW_GO_HEAP_NONE)
        h->go_alloc = hw_reading_go_new(&j->who, &h->places->mappings, mem, pagemap);
    if (j->rc == HW_OK)
        j->rc = read_runtimes(h, mem, pagemap);
    if (!is_image(dir, &h->places->image))
        j->rc = HW_EGONE;
}

static void drop_heaps(struct hw_reading_job *j)
{
    struct heaps_job *h = (struct heaps_job *)(void *)j;
    free_places(h->places);
    hw_glibc_arenas_done(&h->arenas);
    hw_reading_go_free(h->go_alloc);
}

int hw_reading_memory(struct hw_blocking_reader *l, struct hw_reading_who who,
                      enum hw_owner_allocator allocator, const struct hw_owner_ranges *own,
                      bool wants_heaps, struct hw_reading_memory *out)
{
    struct memory_job *m = hw_reading_job_new(sizeof *m, &who, run_memory, drop_memory);
    if (m) {
        m->allocator = allocator;
        m->own = *own;
        m->wants_heaps = wants_heaps && allocator != HW_OWNER_UNREAD;
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

void hw_reading_heaps(struct hw_blocking_reader *l, struct hw_reading_who who,
                      enum hw_owner_allocator allocator, struct hw_reading_memory *m)
{
    struct hw_reading_places *places = m->places;
    bool has_places = places && places->mappings.entries.n;
    struct heaps_job *h =
        has_places ? hw_reading_job_new(sizeof *h, &who, run_heaps, drop_heaps) : NULL;
    m->places = NULL;
    if (!h) {
        free_places(places);
        return;
    }
    h->allocator = allocator;
    h->places = places;
    int rc = hw_reading_job_do(l, &h->job);
    if (rc < 0) {
        hw_log(WARN, "pid %d: what is in its heaps: %s", who.pid, hw_errc_text(rc));
        return;
    }
    m->heaps_cpu_ns = h->job.cpu_ns;
    m->cpu_ns += h->job.cpu_ns;
    if (h->job.rc == HW_OK) {
        m->heaps_ns = m->began_ns;
        m->arenas = h->arenas;
        m->python = h->python;
        m->go = h->go;
        m->go_alloc = h->go_alloc;
        m->jvm_code = h->jvm_code;
        m->v8 = h->v8;
        h->arenas = (struct hw_glibc_arenas){.v = {0}};
        h->go_alloc = NULL;
    }
    hw_reading_job_free(&h->job);
}

void hw_reading_forget_heaps(struct hw_reading_memory *m)
{
    m->heaps_ns = 0;
    hw_glibc_arenas_done(&m->arenas);
    hw_reading_go_free(m->go_alloc);
    m->go_alloc = NULL;
}

void hw_reading_memory_done(struct hw_reading_memory *m)
{
    free_places(m->places);
    m->places = NULL;
    hw_smaps_done(&m->smaps);
    hw_vec_done(&m->maps);
    hw_reading_forget_heaps(m);
}
