/*
 * memory_owner.c - glibc's memory, as its first bytes show it:
 *
 *   arena, at a multiple of 64 MiB        block with its own pages, at a page
 *     +0   struct malloc_state *ar_ptr      +0   prev_size: 0
 *     +8   heap_info *prev                  +8   size | 2 (IS_MMAPPED), a multiple of the page
 *     +16  size                             size bytes on: the next one, or something else
 *     +24  mprotect_size: what is writable
 *
 * Memory of a program could look like that by chance or on purpose; then a row of the account has
 * another name, and no sum is wrong.
 */
#include "proc/memory_owner.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "proc/maps.h"
#include "proc/owner_names.h"

#include "base/banned.h"

#define PAGE            UINT64_C(4096)
#define ARENA           (UINT64_C(64) << 20)
#define MAX_GUARD_KB    1024u
#define MAX_STACK_SIZES 8u
#define PAGES_AT_ONCE   512u
#define PRESENT         (UINT64_C(1) << 63)

static const char arena_name[] = "[malloc arena]", block_name[] = "[malloc block]",
                  other_stack[] = "[stack:other]", reserved_name[] = "[reserved]",
                  own_name[] = "[heapwise]", own_file[] = "[heapwise:shared]",
                  own_library[] = "[heapwise:library]";

typedef HW_VEC(struct hw_smaps_entry) entry_list;

struct naming {
    const struct hw_owner_facts *f;
    entry_list out;
    uint64_t max_probes, max_pages;        /* in one mapping: read, of the page map */
    uint64_t n_scanned;                    /* of the page map, in this one */
    uint64_t n_pages;                      /* of the page map, in all */
    uint64_t stack_sizes[MAX_STACK_SIZES]; /* of those that threads are on */
    size_t n_stack_sizes;
    bool marked_stacks; /* the kernel shows which mappings were meant for stacks (nh) */
    const struct hw_smaps_entry *image; /* the newest mapping of a file from its beginning */
    const char *known_image;            /* whose end is */
    uint64_t image_end;
    uint64_t
        chain_end; /* of neighbours that may be one block or arena, which was advised on in parts */
    uint64_t rest_end; /* of what began in a mapping before */
    const char *rest_name;
    struct pages { /* of the page map, from a page on */
        uint64_t first;
        size_t n;
        uint64_t words[PAGES_AT_ONCE];
    } pages;
};

/* A part of a mapping; sizes follow when all are known. */
struct part {
    uint64_t start, end;
    const char *name; /* NULL = the mapping's own */
};
typedef HW_VEC(struct part) part_list;

/* ---- glibc's marks ---- */

static bool peek(struct naming *n, uint64_t at, void *out, size_t size)
{
    return n->f->mem >= 0 && hw_fd_pread_all(n->f->mem, out, size, at) == HW_OK;
}

/* Bytes of the arena that begins there; 0 = none does. */
static uint64_t arena_at(struct naming *n, uint64_t at, uint64_t end)
{
    uint64_t w[4];
    if (at % ARENA != 0 || !peek(n, at, w, sizeof w))
        return 0;
    uint64_t behind =
        w[0] % ARENA; /* the record, in its first heap: only that has none before it */
    bool is_in_it = w[0] - behind == at, is_first = w[1] == 0;
    if (w[0] < ARENA || behind < 32 || behind >= 256 || is_in_it != is_first || w[1] % ARENA != 0 ||
        w[2] % PAGE != 0 || w[3] % PAGE != 0 || w[2] == 0 || w[3] < w[2] || w[3] > ARENA)
        return 0;
    return w[3] < end - at ? w[3] : end - at;
}

static uint64_t block_at(struct naming *n, uint64_t at, uint64_t end)
{
    uint64_t w[2];
    if (!peek(n, at, w, sizeof w) || w[0] != 0 || (w[1] & (PAGE - 1)) != 2 || w[1] < 2 * PAGE)
        return 0;
    uint64_t size = w[1] & ~(PAGE - 1);
    return size <= end - at ? size : 0;
}

static int add_part(part_list *parts, uint64_t start, uint64_t end, const char *name)
{
    struct part *last = parts->n ? &parts->v[parts->n - 1] : NULL;
    if (last && last->name == name && last->end == start) {
        last->end = end;
        return HW_OK;
    }
    return hw_vec_push(parts, ((struct part){start, end, name})) < 0 ? HW_ENOMEM : HW_OK;
}

/* The first page at or behind `at` that is in memory; `end`: none is, or nobody may know. */
static uint64_t next_present(struct naming *n, uint64_t at, uint64_t end)
{
    struct pages *k = &n->pages;
    while (at < end) {
        uint64_t page = at / PAGE, left = end / PAGE - page;
        if (page < k->first || page >= k->first + k->n) {
            *k = (struct pages){.first = page, .n = left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE};
            n->n_pages += k->n;
            n->n_scanned += k->n;
            if (n->f->pagemap < 0 || n->n_scanned > n->max_pages ||
                hw_fd_pread_all(n->f->pagemap, k->words, k->n * sizeof *k->words,
                                page * sizeof *k->words) < 0)
                k->n = 0;
        }
        if (k->n == 0)
            return end;
        if (k->words[page - k->first] & PRESENT)
            return at;
        at += PAGE;
    }
    return end;
}

/* Adds what begins at *at, as far as it lies in this mapping. */
static int add_block(struct naming *n, const struct hw_smaps_entry *e, uint64_t *at, uint64_t size,
                     const char *name, part_list *parts)
{
    uint64_t start = *at, end = start + size;
    n->rest_end = end > e->end ? end : 0;
    n->rest_name = name;
    *at = end < e->end ? end : e->end;
    return add_part(parts, start, *at, name);
}

/* A header was written, so its page is in memory (or swapped, and then it is not found):
 * untouched memory is left alone. What is neither is skipped page by page. */
static int find_parts(struct naming *n, const struct hw_smaps_entry *e, uint64_t from,
                      part_list *parts)
{
    int rc = HW_OK;
    uint64_t at = from;
    n->n_scanned = 0;
    if (n->rest_end > at)
        rc = add_block(n, e, &at, n->rest_end - at, n->rest_name, parts);
    for (uint64_t n_probes = 0; rc == HW_OK && at < e->end; n_probes++) {
        uint64_t next = n_probes < n->max_probes ? next_present(n, at, e->end) : e->end;
        if (next > at)
            rc = add_part(parts, at, next, NULL);
        at = next;
        if (rc < 0 || at == e->end)
            break;
        uint64_t size = arena_at(n, at, n->chain_end);
        const char *name = size ? arena_name : block_name;
        if (!size)
            size = block_at(n, at, n->chain_end);
        if (!size)
            name = NULL;
        rc = add_block(n, e, &at, size ? size : PAGE, name, parts);
    }
    return rc;
}

/* ---- dividing a mapping ---- */

/* Pages in memory; false: not known. */
static bool count_present(struct naming *n, uint64_t start, uint64_t end, uint64_t *out)
{
    enum { BATCH = 4096 };
    static const uint64_t most = UINT64_C(1) << 32;
    uint64_t words[BATCH];
    *out = 0;
    if (n->f->pagemap < 0 || end - start > most ||
        n->n_pages + (end - start) / PAGE > HW_OWNERS_MAX_PAGES)
        return false;
    n->n_pages += (end - start) / PAGE;
    for (uint64_t page = start / PAGE; page < end / PAGE;) {
        uint64_t left = end / PAGE - page;
        size_t batch = left < BATCH ? (size_t)left : BATCH;
        if (hw_fd_pread_all(n->f->pagemap, words, batch * sizeof *words, page * sizeof *words) < 0)
            return false;
        for (size_t i = 0; i < batch; i++)
            *out += (words[i] & PRESENT) != 0;
        page += batch;
    }
    return true;
}

static uint64_t share_of(uint64_t kb, double share)
{
    return (uint64_t)((double)kb * share + 0.5);
}

/* Takes a share of each figure of what is left; the last part takes the rest, so that no sum
 * changes. */
static struct hw_smaps_entry take_share(struct hw_smaps_entry *rest, double size, double rss)
{
    struct hw_smaps_entry e = *rest;
#define X(name, key)                                                                               \
    e.name##_kb = share_of(rest->name##_kb, rss);                                                  \
    rest->name##_kb -= e.name##_kb;
    uint64_t whole = rest->size_kb;
    HW_SMAPS_FIELDS(X)
#undef X
    rest->size_kb = whole;
    e.size_kb = share_of(whole, size);
    rest->size_kb -= e.size_kb;
    return e;
}

static int divide(struct naming *n, const struct hw_smaps_entry *e, const part_list *parts)
{
    struct hw_smaps_entry rest = *e;
    HW_VEC(uint64_t) present = {0};
    uint64_t pages = 0, left = e->end - e->start;
    bool known = true;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < parts->n; i++) {
        uint64_t here = 0;
        known = known && count_present(n, parts->v[i].start, parts->v[i].end, &here);
        pages += here;
        if (hw_vec_push(&present, here) < 0)
            rc = HW_ENOMEM;
    }
    for (size_t i = 0; rc == HW_OK && i < parts->n; i++) {
        const struct part *p = &parts->v[i];
        double size = (double)(p->end - p->start) / (double)left, rss = size;
        if (known)
            rss = pages ? (double)present.v[i] / (double)pages : 0;
        if (i + 1 == parts->n)
            size = rss = 1;
        struct hw_smaps_entry piece = take_share(&rest, size, rss);
        piece.start = p->start;
        piece.end = p->end;
        piece.path = p->name ? p->name : e->path;
        left -= p->end - p->start;
        pages -= known ? present.v[i] : 0;
        if (hw_vec_push(&n->out, piece) < 0)
            rc = HW_ENOMEM;
    }
    hw_vec_done(&present);
    return rc;
}

static int put_parts(struct naming *n, const struct hw_smaps_entry *e, const part_list *parts)
{
    struct hw_smaps_entry one = *e;
    if (parts->n != 1)
        return divide(n, e, parts);
    one.path = parts->v[0].name ? parts->v[0].name : e->path;
    return hw_vec_push(&n->out, one) < 0 ? HW_ENOMEM : HW_OK;
}

/* ---- stacks ---- */

static bool is_nameless(const struct hw_smaps_entry *e)
{
    return e->path[0] == '\0' && !(e->flags & HW_MAP_SHARED);
}

static bool is_writable(const struct hw_smaps_entry *e)
{
    return (e->flags & (HW_MAP_READ | HW_MAP_WRITE)) == (HW_MAP_READ | HW_MAP_WRITE);
}

/* Inaccessible memory just below, and little of it, as below every stack. */
static bool has_guard(const struct hw_smaps *s, size_t i)
{
    const struct hw_smaps_entry *g = i ? &s->entries.v[i - 1] : NULL;
    return g && is_nameless(g) && !(g->flags & (HW_MAP_READ | HW_MAP_WRITE | HW_MAP_EXEC)) &&
           g->end == s->entries.v[i].start && g->size_kb <= MAX_GUARD_KB;
}

static const char *thread_at(const struct naming *n, const struct hw_smaps_entry *e)
{
    for (size_t i = 0; i < n->f->threads.n; i++)
        if (n->f->threads.v[i].sp >= e->start && n->f->threads.v[i].sp < e->end)
            return n->f->threads.v[i].label;
    return NULL;
}

/* As large as one that a thread is on: another thread's, or kept for the next. */
static bool is_like_stack(const struct naming *n, const struct hw_smaps_entry *e)
{
    if (n->marked_stacks && !e->no_huge)
        return false;
    for (size_t i = 0; i < n->n_stack_sizes; i++)
        if (n->stack_sizes[i] == e->end - e->start)
            return true;
    return false;
}

static void find_stack_sizes(struct naming *n, const struct hw_smaps *s)
{
    static const uint64_t usual = UINT64_C(8) << 20;
    n->stack_sizes[n->n_stack_sizes++] = usual;
    n->stack_sizes[n->n_stack_sizes++] = usual - PAGE;
    bool marked = false;
    for (size_t i = 0; i < s->entries.n && n->n_stack_sizes < MAX_STACK_SIZES; i++) {
        const struct hw_smaps_entry *e = &s->entries.v[i];
        if (!is_nameless(e) || !has_guard(s, i) || !thread_at(n, e))
            continue;
        if (!is_like_stack(n, e))
            n->stack_sizes[n->n_stack_sizes++] = e->end - e->start;
        marked |= e->no_huge;
    }
    n->marked_stacks = marked;
}

/* ---- variables without bytes in a file ---- */

/* Where the last segment of an ELF file ends that is mapped from `start` on; 0 = it is none. */
static uint64_t image_end(struct naming *n, uint64_t start)
{
    enum { MAX_HEADERS = 32 };
    Elf64_Ehdr head;
    Elf64_Phdr segments[MAX_HEADERS];
    uint64_t low = UINT64_MAX, high = 0;
    if (!peek(n, start, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof *segments ||
        head.e_phnum == 0 || head.e_phnum > MAX_HEADERS || head.e_phoff > PAGE ||
        !peek(n, start + head.e_phoff, segments, head.e_phnum * sizeof *segments))
        return 0;
    for (size_t i = 0; i < head.e_phnum; i++) {
        const Elf64_Phdr *p = &segments[i];
        if (p->p_type != PT_LOAD || p->p_memsz > UINT64_MAX - PAGE - p->p_vaddr)
            continue;
        low = p->p_vaddr < low ? p->p_vaddr : low;
        high = p->p_vaddr + p->p_memsz > high ? p->p_vaddr + p->p_memsz : high;
    }
    low &= ~(PAGE - 1);
    return high > low && high - low <= UINT64_MAX - PAGE - start
               ? start + ((high - low + PAGE - 1) & ~(PAGE - 1))
               : 0;
}

/* The file that was mapped last has variables without bytes up to *end, which the kernel joins
 * with what is mapped after them. NULL = they are not here. */
static const char *variables_of(struct naming *n, const struct hw_smaps_entry *e, uint64_t *end)
{
    if (!n->image)
        return NULL;
    if (n->image->path != n->known_image) {
        n->known_image = n->image->path;
        n->image_end = image_end(n, n->image->start);
    }
    *end = n->image_end;
    return e->start < n->image_end ? n->image->path : NULL;
}

/* ---- one mapping after the other ---- */

/* NULL = only what is in it shows that. */
static const char *plain_name(const struct naming *n, const struct hw_smaps *s, size_t i)
{
    const struct hw_smaps_entry *e = &s->entries.v[i];
    if (!(e->flags & (HW_MAP_READ | HW_MAP_WRITE | HW_MAP_EXEC)))
        return e->rss_kb + e->swap_kb ? e->path : reserved_name;
    if (e->flags & HW_MAP_EXEC)
        return "[jit code]";
    if (hw_owner_is_go_heap(e))
        return hw_owner_go;
    if (!is_writable(e))
        return e->path;
    if (n->f->own.by_flags && e->no_reserve && e->no_huge)
        return own_name;
    if (has_guard(s, i)) {
        const char *thread = thread_at(n, e);
        if (thread)
            return thread;
        if (is_like_stack(n, e) && (e->has_fault_handler ||
                                    hw_owner_was_stack(n->f->mem, n->f->pagemap, e->start, e->end)))
            return other_stack;
    }
    return NULL; /* its contents are read */
}

/* Mappings that follow each other, where what begins in one may continue in the next. */
static void find_chain(struct naming *n, const struct hw_smaps *s, size_t i)
{
    const struct hw_smaps_entry *e = &s->entries.v[i];
    if (e->start < n->chain_end)
        return;
    n->rest_end = 0;
    n->chain_end = e->end;
    while (++i < s->entries.n && e[1].start == e->end && is_nameless(&e[1]) && is_writable(&e[1]) &&
           !(e[1].flags & HW_MAP_EXEC))
        n->chain_end = (++e)->end;
}

static int name_one(struct naming *n, const struct hw_smaps *s, size_t i)
{
    struct hw_smaps_entry e = s->entries.v[i];
    const char *name = is_nameless(&e) ? plain_name(n, s, i) : e.path;
    part_list parts = {0};
    uint64_t from = e.start, end;
    int rc = HW_OK;
    if (!name)
        find_chain(n, s, i);
    if (name || (e.rss_kb + e.swap_kb == 0 && n->rest_end <= e.start)) {
        e.path = name ? name : e.path;
        return hw_vec_push(&n->out, e) < 0 ? HW_ENOMEM : HW_OK;
    }
    const char *file = variables_of(n, &e, &end);
    if (file) {
        from = end < e.end ? end : e.end;
        rc = add_part(&parts, e.start, from, file);
    }
    if (rc == HW_OK && n->f->allocator == HW_OWNER_GLIBC && !e.has_fault_handler)
        rc = find_parts(n, &e, from, &parts);
    else if (rc == HW_OK && from < e.end)
        rc = add_part(&parts, from, e.end, hw_owner_of_rest(s, n->f->allocator));
    if (rc == HW_OK)
        rc = put_parts(n, &e, &parts);
    hw_vec_done(&parts);
    return rc;
}

/* ---- what each may cost ---- */

static int by_value(const void *pa, const void *pb)
{
    uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    return a < b ? -1 : a > b;
}

/* The most that each may have if all together may have `all`, and none gets more than it wants. */
static uint64_t fair_share(uint64_t *wanted, size_t n, uint64_t all)
{
    uint64_t left = all;
    if (n)
        qsort(wanted, n, sizeof *wanted, by_value);
    for (size_t i = 0; i < n; i++) {
        if (wanted[i] > left / (n - i))
            return left / (n - i);
        left -= wanted[i];
    }
    return all;
}

/* Small mappings are read as a whole. Without a limit for each, a runtime's heap, which has no
 * block of malloc, would take all readings. */
static int share_probes(struct naming *n, const struct hw_smaps *s)
{
    HW_VEC(uint64_t) resident = {0}, all = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < s->entries.n; i++) {
        const struct hw_smaps_entry *e = &s->entries.v[i];
        if (is_nameless(e) && is_writable(e) &&
            (hw_vec_push(&resident, e->rss_kb / (PAGE / 1024)) < 0 ||
             hw_vec_push(&all, (e->end - e->start) / PAGE) < 0))
            rc = HW_ENOMEM;
    }
    n->max_probes = fair_share(resident.v, resident.n, HW_OWNERS_MAX_PROBES);
    n->max_pages = fair_share(all.v, all.n, HW_OWNERS_MAX_PAGES / 2); /* half is for dividing */
    hw_vec_done(&resident);
    hw_vec_done(&all);
    return rc;
}

/* What was put out takes the place of what it was made of. */
static void take_out(struct naming *n, struct hw_smaps *s)
{
    hw_vec_done(&s->entries);
    s->entries.v = n->out.v;
    s->entries.n = n->out.n;
    s->entries.cap = n->out.cap;
    n->out = (entry_list){0};
}

/* ---- the profiler's own ---- */

static int by_begin(const void *pa, const void *pb)
{
    const struct hw_owner_range *a = pa, *b = pb;
    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

/* The kernel may have joined it with neighbours of the program's. own: by address; image: of those the library's,
 * whose variables have no name either. */
static int put_own(struct naming *n, const struct hw_smaps_entry *e,
                   const struct hw_owner_ranges *own, uint64_t image)
{
    part_list parts = {0};
    uint64_t at = e->start;
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < own->n; i++) {
        uint64_t lo = own->v[i].lo > at ? own->v[i].lo : at;
        uint64_t hi = own->v[i].hi < e->end ? own->v[i].hi : e->end;
        if (lo >= hi)
            continue;
        rc = lo > at ? add_part(&parts, at, lo, NULL) : HW_OK;
        const char *name = own->v[i].lo == image ? own_library : own_name;
        rc = rc == HW_OK ? add_part(&parts, lo, hi, name) : rc;
        at = hi;
    }
    if (rc == HW_OK && at < e->end)
        rc = add_part(&parts, at, e->end, NULL);
    rc = rc == HW_OK ? put_parts(n, e, &parts) : rc;
    hw_vec_done(&parts);
    return rc;
}

static bool is_own_file(const struct hw_owner_ranges *own, const struct hw_smaps_entry *e)
{
    for (uint32_t i = 0; i < own->n_files; i++) {
        const struct hw_owner_file *f = &own->files[i];
        if (f->inode == e->inode && f->dev_major == e->dev_major && f->dev_minor == e->dev_minor)
            return true;
    }
    return false;
}

/* A name alone could be any file's, and the client's word alone any library's. */
static bool is_own_library(const struct hw_owner_ranges *own, const struct hw_smaps_entry *e)
{
    static const char *const names[] = {"libheapprofd_glibc_preload", "libheapwise"};
    const char *base =
        strncmp(e->path, "/memfd:", 7) == 0 ? e->path + 7 : strrchr(e->path, '/') + 1;
    bool named = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        named |= hw_starts_with(base, names[i]);
    for (uint32_t i = 0; named && i < own->n; i++)
        if (e->start >= own->v[i].lo && e->end <= own->v[i].hi)
            return true;
    return named && own->n == 0;
}

static const char *own_name_of(const struct hw_owner_ranges *own, const struct hw_smaps_entry *e)
{
    if (e->path[0] != '/')
        return NULL;
    return is_own_file(own, e) ? own_file : is_own_library(own, e) ? own_library : NULL;
}

/* First of all: what it has is nothing that the rest is compared with. */
static int cut_own(struct naming *n, struct hw_smaps *s)
{
    struct hw_owner_ranges own = n->f->own;
    uint64_t image = 0;
    int rc = HW_OK;
    for (size_t i = 0; i < s->entries.n; i++) {
        struct hw_smaps_entry *e = &s->entries.v[i];
        const char *name = own_name_of(&own, e);
        e->path = name ? name : e->path;
        for (uint32_t k = 0; name == own_library && k < own.n; k++)
            image = e->start >= own.v[k].lo && e->end <= own.v[k].hi ? own.v[k].lo : image;
    }
    if (own.n == 0)
        return HW_OK;
    qsort(own.v, own.n, sizeof *own.v, by_begin);
    for (size_t i = 0; rc == HW_OK && i < s->entries.n; i++) {
        const struct hw_smaps_entry *e = &s->entries.v[i];
        bool is_used = (e->flags & (HW_MAP_READ | HW_MAP_WRITE | HW_MAP_EXEC)) || e->rss_kb;
        if (is_used && is_nameless(e) && e->start < e->end)
            rc = put_own(n, e, &own, image);
        else
            rc = hw_vec_push(&n->out, *e) < 0 ? HW_ENOMEM : HW_OK;
    }
    if (rc == HW_OK)
        take_out(n, s);
    return rc;
}

int hw_owners_name(struct hw_smaps *s, const struct hw_owner_facts *f)
{
    struct naming n = {.f = f};
    int rc = cut_own(&n, s);
    if (rc == HW_OK)
        rc = share_probes(&n, s);
    find_stack_sizes(&n, s);
    for (size_t i = 0; rc == HW_OK && i < s->entries.n; i++) {
        const struct hw_smaps_entry *e = &s->entries.v[i];
        if (e->path[0] == '/' && !(e->flags & HW_MAP_SHARED) &&
            strncmp(e->path, "/memfd:", 7) != 0 &&
            (!n.image || strcmp(n.image->path, e->path) != 0))
            n.image = e;
        rc = name_one(&n, s, i);
    }
    if (rc == HW_OK)
        rc = hw_owner_names_limit(n.out.v, n.out.n);
    if (rc == HW_OK)
        take_out(&n, s);
    hw_vec_done(&n.out);
    return rc;
}
