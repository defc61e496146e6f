/*
 * feed_test.c - records in, books and stacks out; and targets that lie
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/clock.h"
#include "base/error.h"
#include "daemon/books/drain.h"
#include "daemon/books/ring_consumer.h"
#include "unwind/walk.h"

struct fix {
    struct hw_ring_consumer *feed;
    struct hw_ring_writer w, attached;
    uint8_t *shared; /* the writer's view, to scribble on */
};

static void set_up_with(struct fix *f, uint64_t bytes, bool slots)
{
    struct hw_ring_reader r;
    assert_int_equal(slots ? hw_ring_create_with_slots(&r, bytes) : hw_ring_create(&r, bytes),
                     HW_OK);
    assert_int_equal(hw_ring_attach(r.fd, &f->attached), HW_OK);
    hw_ring_close_fd(&r);
    f->w = f->attached;
#ifdef __SANITIZE_THREAD__
    /* TSan orders by address: it only sees who waits for whom when both sides use one mapping. */
    f->w.shm = r.shm;
    f->w.data = (uint8_t *)(uintptr_t)r.data;
#endif
    f->feed = calloc(1, sizeof *f->feed);
    hw_ring_consumer_init(f->feed, &r, true);
    f->feed->arch = HW_ARCH_HERE;
    f->shared = (uint8_t *)f->w.shm;
}

static void set_up(struct fix *f, uint64_t bytes)
{
    set_up_with(f, bytes, /* slots = */ false);
}

static void tear_down(struct fix *f)
{
    hw_ring_detach(&f->attached);
    hw_ring_consumer_done(f->feed);
    free(f->feed);
}

static uint64_t put(struct fix *f, const void *rec, uint32_t size, enum hw_rec_type type)
{
    uint64_t pos = hw_ring_reserve(&f->w, size);
    if (!pos)
        return 0;
    memcpy((uint8_t *)hw_ring_at(&f->w, pos) + 8, (const uint8_t *)rec + 8, size - 8);
    hw_ring_commit(&f->w, pos, size, type);
    return pos;
}

static void put_stack(struct fix *f, uint64_t id, uint32_t stop, uint32_t n, uint64_t first)
{
    struct {
        struct hw_rec_stack h;
        uint64_t pcs[HW_MAX_FRAMES + 8];
    } r = {.h = {.stack_id = id, .n_frames = n, .stop = stop}};
    for (uint32_t i = 0; i < n; i++)
        r.pcs[i] = first + i;
    uint32_t words = (n + 63) / 64;
    assert_true(put(f, &r, (uint32_t)(sizeof r.h + (n + words) * 8), HW_REC_STACK) != 0);
}

static uint64_t put_alloc(struct fix *f, uint64_t stack, uint64_t size)
{
    struct hw_rec_alloc a = {.address = 0x10,
                             .alloc_size = size,
                             .sample_size = size,
                             .stack_id = stack,
                             .time_ns = 5,
                             .heap_id = 1};
    return put(f, &a, sizeof a, HW_REC_ALLOC);
}

static uint64_t put_exact(struct fix *f, uint64_t stack, uint64_t size)
{
    struct hw_rec_exact e = {.stack_id = stack, .time_ns = 5, .size_heap = hw_exact_pack(size, 1)};
    return put(f, &e, sizeof e, HW_REC_EXACT);
}

static uint64_t put_free(struct fix *f, uint64_t id)
{
    struct hw_rec_free r = {.sample_id = id, .time_ns = 6};
    return put(f, &r, sizeof r, HW_REC_FREE);
}

static void put_mixed(struct fix *f, uint64_t id, uint32_t n, const uint64_t *at, uint64_t managed)
{
    struct {
        struct hw_rec_stack h;
        uint64_t at[64 + 2];
    } r = {.h = {.stack_id = id, .n_frames = n, .stop = HW_STOP_END}};
    memcpy(r.at, at, n * sizeof *at);
    r.at[n + 1] = managed;
    assert_true(put(f, &r, (uint32_t)(sizeof r.h + (n + 2) * 8), HW_REC_MIXED) != 0);
}

static void put_name(struct fix *f, uint64_t id, const char *function, const char *file,
                     const char *module)
{
    struct {
        struct hw_rec_name h;
        char text[256];
    } r = {.h = {.id = id,
                 .line = 12,
                 .n_function = (uint16_t)strlen(function),
                 .n_file = (uint16_t)strlen(file),
                 .n_module = (uint16_t)strlen(module)}};
    int n = snprintf(r.text, sizeof r.text, "%s%s%s", function, file, module);
    assert_true(put(f, &r, (uint32_t)(sizeof r.h + ((size_t)n + 7) / 8 * 8), HW_REC_NAME) != 0);
}

static void test_managed(void **state)
{
    (void)state;
    struct fix f;
    set_up(&f, 64 * 1024);
    const struct hw_managed_names *m = &f.feed->managed;
    uint64_t java = hw_managed_id(HW_MANAGED_JAVA, 5), python = hw_managed_id(HW_MANAGED_PYTHON, 5);
    uint64_t at[] = {0x1000, java, python, 0x2000};
    put_name(&f, python, "outer", "a.py", "");
    put_mixed(&f, 77, 4, at, 6);
    put_mixed(&f, 78, 2, at, 2);
    put_alloc(&f, 77, 100);
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 1), HW_CONSUMER_EMPTY);
    assert_int_equal(m->names.n, 1);
    assert_int_equal(m->n_unnamed, 1);
    const struct hw_stack *s = f.feed->stacks.v[0];
    assert_true(s->mixed);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(hw_stack_is_managed(s, i), i == 1 || i == 2);
    put_name(&f, java, "p.C.m", "C.java", "[java] c.jar");
    put_name(&f, java, "p.C.other", "C.java", ""); /* the first one stays */
    put_mixed(&f, 77, 4, at, 6);                   /* said again: fine */
    put_stack(&f, 77, HW_STOP_END, 4, 0x1000);     /* another one */
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 1), HW_CONSUMER_EMPTY);
    assert_int_equal(m->n_unnamed, 0);
    assert_int_equal(m->names.n, 2);
    assert_int_equal(m->names.v[1]->n_file, 6);
    assert_memory_equal(m->names.v[1]->text, "p.C.mC.java[java] c.jar", 23);
    assert_int_equal(f.feed->n_collisions, 1);
    tear_down(&f);
}

static void test_frames_of_managed(void **state)
{
    (void)state;
    struct hw_managed_frames m;
    struct hw_callsites *cs;
    struct {
        struct hw_managed_name n;
        char text[32];
    } x = {.n = {hw_managed_id(HW_MANAGED_JAVA, 1), 12, 5, 6, 0}};
    hw_frame_id a, b, none;
    memcpy(x.n.text, "p.C.mC.java", 11);
    assert_int_equal(hw_callsites_new(&cs), HW_OK);
    hw_managed_frames_init(&m);
    assert_int_equal(hw_managed_frames_get(&m, cs, x.n.id, &none), HW_OK);
    assert_string_equal(
        hw_strings_cstr(hw_callsites_strings(cs), hw_callsites_get_frame(cs, none)->name),
        "[unnamed function]");
    assert_int_equal(hw_managed_frames_name(&m, cs, &x.n), HW_OK);
    assert_int_equal(hw_managed_frames_get(&m, cs, x.n.id, &a), HW_OK);
    const struct hw_frame *row = hw_callsites_get_frame(cs, a);
    struct hw_strings *s = hw_callsites_strings(cs);
    assert_string_equal(hw_strings_cstr(s, row->name), "p.C.m");
    assert_string_equal(hw_strings_cstr(s, row->file), "C.java");
    assert_int_equal(row->line, 12);
    assert_string_equal(hw_strings_cstr(s, hw_callsites_get_mapping(cs, row->mapping)->path),
                        "[java]");
    x.n.id = hw_managed_id(HW_MANAGED_JAVA, 2); /* the same function and line under another id */
    assert_int_equal(hw_managed_frames_name(&m, cs, &x.n), HW_OK);
    assert_int_equal(hw_managed_frames_get(&m, cs, x.n.id, &b), HW_OK);
    assert_int_equal(a.v, b.v);
    hw_managed_frames_done(&m);
    hw_callsites_free(cs);
}

static void test_records(void **state)
{
    (void)state;
    struct fix f;
    set_up(&f, 64 * 1024);
    struct hw_rec_heap heap = {.heap_id = 1, .interval_bytes = 1, .name = "libc.malloc"};
    put(&f, &heap, sizeof heap, HW_REC_HEAP);
    put_stack(&f, 77, HW_STOP_END, 5, 0x1000);
    uint64_t a = put_alloc(&f, 77, 100);
    put_exact(&f, 77, 30);
    put_stack(&f, 77, HW_STOP_END, 5, 0x1000); /* said again: fine */
    put_stack(&f, 77, HW_STOP_END, 5, 0x2000); /* another one under this id: counted */
    put_stack(&f, 78, HW_STOP_BOUNDS, 1, 0x9);
    put_alloc(&f, 78, 1);
    put_alloc(&f, 79, 1); /* its frames never came */
    put_free(&f, a);
    put_free(&f, a);   /* twice */
    put_free(&f, 123); /* never seen */
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 1), HW_CONSUMER_EMPTY);
    assert_int_equal(f.feed->n_samples, 4);
    assert_int_equal(f.feed->n_collisions, 1);
    assert_int_equal(f.feed->n_lost_stacks, 1);
    assert_int_equal(f.feed->n_unwind_errors, 2);
    assert_int_equal(f.feed->stacks.n, 3);
    assert_int_equal(f.feed->stacks.v[0]->pcs[4], 0x1004);
    assert_int_equal(f.feed->books.n_unknown_free, 2);
    struct hw_snapshot *s;
    assert_int_equal(hw_ring_consumer_snapshot(f.feed, HW_SNAP_PEAK, &s), HW_OK);
    assert_int_equal(s->books.n, 1);
    assert_string_equal(s->books.v[0].name, "libc.malloc");
    assert_int_equal(s->books.v[0].cells.n, 3);
    assert_int_equal(s->books.v[0].cells.v[0].t.allocated, 130);
    assert_int_equal(s->books.v[0].cells.v[0].t.freed, 100);
    assert_true(s->books.v[0].has_peak); /* 132 live before the free */
    assert_int_equal(s->books.v[0].peak_cells.v[0].t.freed, 0);
    hw_snapshot_free(s);
    assert_int_equal(hw_ring_consumer_snapshot(f.feed, HW_SNAP_PEAK, &s), HW_OK);
    assert_int_equal(s->books.v[0].cells.n, 0); /* nothing changed since */
    assert_false(s->books.v[0].has_peak);
    hw_snapshot_free(s);
    tear_down(&f);
}

/* A stack id without frames is booked on the common stack, but only as long as it has none. */
static void test_late_frames(void **state)
{
    (void)state;
    struct fix f;
    set_up(&f, 64 * 1024);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t id = 50 + round;
        put_exact(&f, id, 10);
        put_exact(&f, id, 10);
        if (round)
            assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 1),
                             HW_CONSUMER_EMPTY);
        put_stack(&f, id, HW_STOP_END, 2, 0x1000 * id);
        put_exact(&f, id, 1);
        put_alloc(&f, id, 1);
        assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 1), HW_CONSUMER_EMPTY);
    }
    assert_int_equal(f.feed->n_lost_stacks, 4);
    const struct hw_book *k = f.feed->books.books[1];
    assert_int_equal(k->cells.n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t want = f.feed->stacks.v[k->cells.v[i].stack]->n_frames ? 2 : 40;
        assert_int_equal(k->cells.v[i].now.allocated, want);
    }
    tear_down(&f);
}

static void test_until_and_holes(void **state)
{
    (void)state;
    struct fix f;
    set_up(&f, 64 * 1024);
    put_stack(&f, 1, HW_STOP_END, 1, 0x1);
    put_alloc(&f, 1, 10);
    uint64_t until;
    assert_int_equal(hw_ring_write_pos(&f.feed->ring, &until), HW_OK);
    put_alloc(&f, 1, 20); /* behind the dump's border */
    assert_int_equal(hw_ring_consumer_drain(f.feed, until, 1000, 1), HW_CONSUMER_REACHED);
    assert_int_equal(f.feed->books.books[1]->live, 10);
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1, 1), HW_CONSUMER_MORE);
    uint64_t hole = hw_ring_reserve(&f.w, 56); /* a writer that stops here */
    put_alloc(&f, 1, 40);
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 5), HW_CONSUMER_HOLE);
    assert_int_equal(f.feed->hole_pos, hole);
    assert_int_equal(f.feed->hole_since_ns, 5);
    assert_int_equal(f.feed->books.books[1]->live, 30);
    f.feed->dead = true;
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 6), HW_CONSUMER_EMPTY);
    assert_int_equal(f.feed->books.books[1]->live, 70);
    assert_int_equal(f.feed->ring.holes, 1);
    tear_down(&f);
}

/* Records that are well-formed outside and lie inside. */
static void test_liars(void **state)
{
    (void)state;
    static uint64_t rec[HW_REC_MAX_BYTES / 8];
    static const struct {
        uint32_t type, size;
        uint32_t at; /* 32-bit word that lies */
        uint32_t value;
    } lies[] = {
        {HW_REC_STACK, 24, 4, 5}, /* n_frames beyond the record */
        {HW_REC_STACK, 24, 4, 0xffffffff},
        {HW_REC_STACK, 4200, 4, 513},
        {HW_REC_ALLOC, 16, 2, 1},  /* too short */
        {HW_REC_ALLOC, 56, 12, 0}, /* heap 0 */
        {HW_REC_ALLOC, 56, 12, 256},
        {HW_REC_EXACT, 24, 2, 1},
        {HW_REC_EXACT, 40, 7, 1u << 16},
        {HW_REC_EXACT, 32, 7, 0}, /* heap 0 */
        {HW_REC_EXACT, 32, 7, 256u << 16},
        {HW_REC_FREE, 8, 0, 0},
        {HW_REC_HEAP, 88, 2, 9999},
        {HW_REC_ALLOC_COPY, 88, 18, 0xffffff}, /* n_bytes */
        {HW_REC_ALLOC_COPY, 88, 19, 0xffff},   /* n_regs */
        {HW_REC_MAPS, 8, 0, 0},
        {HW_REC_MIXED, 40, 4, 1}, /* one frame, and no second word of bits */
        {HW_REC_MIXED, 4200, 4, 513},
        {HW_REC_NAME, 24, 4, 0},
        {HW_REC_NAME, 32, 5, 1},      /* a text beyond the record */
        {HW_REC_NAME, 2048, 5, 1025}, /* longer than allowed */
        {HW_REC_NAME, 2048, 6, 1025},
        {HW_REC_TYPE_COUNT, 16, 0, 0},
        {0xff, 16, 0, 0},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct fix f;
        set_up(&f, 64 * 1024);
        memset(rec, 0, sizeof rec);
        ((uint32_t *)rec)[lies[i].at] = lies[i].value;
        if (lies[i].type == HW_REC_STACK || lies[i].type == HW_REC_MIXED)
            rec[1] = 1;
        assert_true(put(&f, rec, lies[i].size, (enum hw_rec_type)lies[i].type) != 0);
        assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 1), HW_CONSUMER_BROKEN);
        assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 1), HW_CONSUMER_BROKEN);
        struct hw_snapshot *s; /* what was booked before is still shown */
        assert_int_equal(hw_ring_consumer_snapshot(f.feed, 0, &s), HW_OK);
        assert_true(s->broken);
        hw_snapshot_free(s);
        tear_down(&f);
    }
}

static void test_scribbles(void **state)
{
    (void)state;
    uint64_t x = 88172645463325252u;
    for (int round = 0; round < 300; round++) {
        struct fix f;
        set_up(&f, HW_RING_MIN_BYTES);
        f.feed->dead = round & 1;
        for (int i = 0; i < 200; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            switch (x % 7) {
            case 0:
                if (hw_ring_free_bytes(&f.w) > 200)
                    put_stack(&f, x % 5, (uint32_t)(x >> 8) % 12, (uint32_t)(x >> 16) % 8, x);
                break;
            case 1:
                put_alloc(&f, x % 7, x >> 20);
                break;
            case 2:
                put_free(&f, HW_RING_FIRST_POS + x % 4096 / 8 * 8);
                break;
            case 3: /* the data, the counters, the positions: anything */
                f.w.data[x % HW_RING_MIN_BYTES] = (uint8_t)(x >> 32);
                break;
            case 4:
                if (x % 50 == 4)
                    f.shared[64 + (x >> 20) % 130] = (uint8_t)(x >> 32);
                break;
            default:
                (void)hw_ring_consumer_drain(f.feed, UINT64_MAX, 50, (uint64_t)i);
            }
        }
        struct hw_snapshot *s;
        assert_int_equal(hw_ring_consumer_snapshot(f.feed, HW_SNAP_MAX, &s), HW_OK);
        hw_snapshot_free(s);
        tear_down(&f);
    }
}

/* A copied stack without any table: kept, with its first frame and a reason. */
static void test_copy(void **state)
{
    (void)state;
    struct {
        struct hw_rec_copy c;
        uint64_t regs[17];
        uint64_t stack[4];
    } r = {.c = {.alloc = {.heap_id = 1, .alloc_size = 7, .sample_size = 7},
                 .sp = 0x7ffe0000,
                 .hi = 0x7fff0000,
                 .n_bytes = 32,
                 .n_regs = 17,
                 .arch = HW_ARCH_X86_64}};
    if (HW_ARCH_HERE != HW_ARCH_X86_64)
        skip();
    r.regs[16] = 0x401234;
    r.regs[7] = 0x7ffe0000;
    struct fix f;
    set_up(&f, 64 * 1024);
    put(&f, &r, sizeof r, HW_REC_ALLOC_COPY);
    uint64_t t = 1000000000;
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 10, t), HW_CONSUMER_STALLED);
    assert_true(f.feed->maps_wanted); /* the main thread is asked to look at the maps */
    assert_int_equal(f.feed->maps_pc, 0x401234);
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 10, t + 1000000),
                     HW_CONSUMER_STALLED);
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 10, t + 300000000),
                     HW_CONSUMER_EMPTY);
    assert_int_equal(f.feed->n_copies, 1);
    assert_int_equal(f.feed->books.books[1]->live, 7);
    assert_int_equal(f.feed->stacks.v[0]->pcs[0], 0x401234);
    tear_down(&f);
}

/* Every copy that leads through unknown code waits for a look at the mappings of its own; and code
 * may have gone since the last look although its address is known. */
static void test_copies_in_a_row(void **state)
{
    (void)state;
    static struct {
        struct hw_tables_dir dir;
        struct {
            struct hw_module_snapshot s;
            struct hw_module m;
        } list;
    } tables;
    struct {
        struct hw_rec_copy c;
        uint64_t regs[17];
        uint64_t stack[4];
    } r = {.c = {.alloc = {.heap_id = 1, .alloc_size = 7, .sample_size = 7},
                 .sp = 0x7ffe0000,
                 .hi = 0x7fff0000,
                 .n_bytes = 32,
                 .n_regs = 17,
                 .arch = HW_ARCH_X86_64}};
    if (HW_ARCH_HERE != HW_ARCH_X86_64)
        skip();
    r.regs[7] = r.c.sp;
    struct fix f;
    set_up(&f, 64 * 1024);
    tables.list.s = (struct hw_module_snapshot){.generation = 3, .n_modules = 1};
    tables.list.m = (struct hw_module){.lo = 0x10000, .hi = 0x20000, .flags = HW_MODULE_NO_TABLE};
    atomic_store(&tables.dir.snapshot_off, sizeof tables.dir);
    f.feed->tables = &tables;
    uint64_t t = 1000000000;
    for (uint64_t i = 1; i <= 3; i++, t += 3000000) {
        r.regs[16] = 0x10000 + i * 0x20000;
        put(&f, &r, sizeof r, HW_REC_ALLOC_COPY);
        assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 10, t), HW_CONSUMER_STALLED);
        assert_int_equal(f.feed->maps_ask, i);
        tables.list.m.hi += 0x20000; /* there it is */
        f.feed->maps_answered = true;
        assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 10, t + 2000000),
                         HW_CONSUMER_EMPTY);
        assert_int_equal(f.feed->stacks.v[i - 1]->generation, 3);
    }
    /* Two dlcloses ago this address was something else, perhaps. */
    r.c.closes = 2;
    put(&f, &r, sizeof r, HW_REC_ALLOC_COPY);
    for (uint32_t seen = 0; seen < 2; seen++) {
        atomic_store(&tables.dir.closes_seen, seen);
        assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 10, t++), HW_CONSUMER_STALLED);
    }
    atomic_store(&tables.dir.closes_seen, 2);
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 10, t), HW_CONSUMER_EMPTY);
    assert_int_equal(f.feed->n_copies, 4);
    tear_down(&f);
}

/* What an interpreter ran comes behind the bytes, and replaces its evaluations if it is whole and fits. */
static void test_copy_with_a_chain(void **state)
{
    (void)state;
    static struct {
        struct hw_tables_dir dir;
        struct {
            struct hw_module_snapshot s;
            struct hw_module m;
        } list;
    } tables;
    struct {
        struct hw_rec_copy c;
        uint64_t regs[17];
        uint64_t stack[4];
        struct hw_copy_chain chain;
        uint64_t ids[2];
        uint16_t ends[4];
    } r = {.c = {.alloc = {.heap_id = 1, .alloc_size = 7, .sample_size = 7},
                 .sp = 0x7ffe0000,
                 .hi = 0x7fff0000,
                 .n_bytes = 32,
                 .n_regs = 17,
                 .arch = HW_ARCH_X86_64},
           .stack = {0x7ffe0010, 0x10200, 0, 0x10300},
           .chain = {.eval_lo = 0x101f0, .eval_bytes = 0x20, .n_ids = 2, .n_parts = 1},
           .ids = {hw_managed_id(HW_MANAGED_PYTHON, 5), hw_managed_id(HW_MANAGED_PYTHON, 6)},
           .ends = {2}};
    if (HW_ARCH_HERE != HW_ARCH_X86_64)
        skip();
    r.regs[16] = 0x10100;
    r.regs[7] = r.regs[6] = r.c.sp;
    tables.list.s = (struct hw_module_snapshot){.generation = 3, .n_modules = 1};
    tables.list.m = (struct hw_module){.lo = 0x10000, .hi = 0x20000, .flags = HW_MODULE_NO_TABLE};
    atomic_store(&tables.dir.snapshot_off, sizeof tables.dir);
    for (int damage = 0; damage < 6; damage++) {
        struct fix f;
        set_up(&f, 64 * 1024);
        f.feed->tables = &tables;
        uint32_t size = sizeof r;
        r.chain.n_ids = damage == 1 ? 3 : damage == 2 ? HW_MAX_FRAMES + 1 : 2;
        r.chain.n_parts = damage == 3 ? 2 : 1;
        r.ends[1] = 1; /* before the one before it */
        r.ends[0] = damage == 4 ? 3 : 2;
        if (damage == 1 || damage == 5) /* ids beyond the record; no chain */
            size =
                (uint32_t)(damage == 1 ? sizeof r - sizeof r.ends : offsetof(__typeof__(r), chain));
        assert_true(put(&f, &r, size, HW_REC_ALLOC_COPY) != 0);
        assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 10, 1), HW_CONSUMER_EMPTY);
        assert_int_equal(f.feed->books.books[1]->live, 7);
        const struct hw_stack *s = f.feed->stacks.v[0];
        assert_int_equal(s->mixed, damage == 0);
        assert_int_equal(s->pcs[0], 0x10100);
        assert_int_equal(s->pcs[1], damage == 0 ? r.ids[0] : 0x10200);
        if (damage == 0) {
            assert_int_equal(s->pcs[2], r.ids[1]);
            assert_int_equal(s->pcs[3], 0x10300);
            assert_true(hw_stack_is_managed(s, 1) && hw_stack_is_managed(s, 2));
            assert_false(hw_stack_is_managed(s, 0) || hw_stack_is_managed(s, 3));
        }
        tear_down(&f);
    }
}

/* ---- threads: two writers, a drain thread, dumps meanwhile ---- */

struct writer {
    struct fix *f;
    int n;
};

static void *write_much(void *arg)
{
    struct writer *w = arg;
    for (int i = 0; i < w->n; i++) {
        uint64_t id;
        while ((id = put_alloc(w->f, 1, 3)) == 0)
            usleep(100);
        while (i % 2 && put_free(w->f, id) == 0)
            usleep(100);
    }
    return NULL;
}

static struct hw_snapshot *wait_snapshot(struct hw_message_queue *m, bool *final, size_t *n_stacks)
{
    struct hw_snapshot *s = NULL;
    while (!s) {
        struct hw_msg *q = hw_message_queue_take(m);
        if (!q)
            usleep(500);
        while (q) {
            struct hw_msg *next = q->next;
            if (q->type == HW_DRAINED_STACKS) {
                *n_stacks += q->n;
                free(q->data);
            } else if (q->type == HW_DRAINED_SNAP) {
                s = q->data;
                *final = q->flags & 1;
            }
            free(q);
            q = next;
        }
    }
    return s;
}

static void test_threads(void **state)
{
    (void)state;
    struct fix f;
    set_up(&f, 64 * 1024);
    struct hw_ring_reader mapped = f.feed->ring;
#ifdef __SANITIZE_THREAD__
    /* TSan orders by address: it only sees who waits for whom when both sides use one mapping. */
    f.feed->ring.shm = f.w.shm;
    f.feed->ring.data = f.w.data;
#endif
    put_stack(&f, 1, HW_STOP_END, 3, 0x1);
    struct hw_message_queue answers;
    struct hw_drain *d;
    assert_int_equal(hw_message_queue_init(&answers), HW_OK);
    assert_int_equal(hw_drain_new(2, &answers, &d), HW_OK);
    assert_int_equal(hw_drain_add(d, f.feed, 5), HW_OK);
    struct writer w = {&f, 20000};
    pthread_t a, b;
    pthread_create(&a, NULL, write_much, &w);
    pthread_create(&b, NULL, write_much, &w);
    uint64_t allocated = 0;
    size_t n_stacks = 0;
    bool final = false;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(hw_drain_snap(d, f.feed, 5, HW_SNAP_PEAK, false, false), HW_OK);
        struct hw_snapshot *s = wait_snapshot(&answers, &final, &n_stacks);
        assert_false(final);
        if (s->books.n && s->books.v[0].cells.n) {
            assert_true(s->books.v[0].cells.v[0].t.allocated >= allocated); /* only grows */
            allocated = s->books.v[0].cells.v[0].t.allocated;
        }
        hw_snapshot_free(s);
    }
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    assert_int_equal(hw_drain_snap(d, f.feed, 5, 0, true, true), HW_OK);
    struct hw_snapshot *s = wait_snapshot(&answers, &final, &n_stacks);
    assert_true(final);
    assert_int_equal(n_stacks, 1);
    assert_int_equal(s->n_samples, 40000);
    hw_snapshot_free(s);
    /* Orders that come too late find nobody. */
    assert_int_equal(hw_drain_maps_done(d, f.feed, 5, 0), HW_OK);
    assert_int_equal(f.feed->books.books[1]->live, 2 * 3 * 10000);
    hw_drain_free(d);
    hw_message_queue_done(&answers);
    f.feed->ring.shm = mapped.shm;
    f.feed->ring.data = mapped.data;
    tear_down(&f);
}

/* The books of the moment come without anybody's asking, who may be busy for long, and before the
 * answer to an order that was given earlier; what follows is in that one. */
static void test_failure(void **state)
{
    (void)state;
    struct fix f;
    struct hw_message_queue answers;
    struct hw_drain *d;
    struct hw_snapshot *seen[2] = {NULL};
    uint32_t flags[2], n = 0;
    set_up(&f, 64 * 1024);
    f.feed->stops_at_failure = true;
    struct hw_rec_heap heap = {.heap_id = 1, .interval_bytes = 1, .name = "libc.malloc"};
    struct hw_rec_failed failed = {.size = 1000, .time_ns = 6};
    put(&f, &heap, sizeof heap, HW_REC_HEAP);
    put_stack(&f, 77, HW_STOP_END, 3, 0x1);
    uint64_t a = put_alloc(&f, 77, 100);
    put(&f, &failed, sizeof failed, HW_REC_FAILED);
    put_free(&f, a);
    assert_int_equal(hw_message_queue_init(&answers), HW_OK);
    assert_int_equal(hw_drain_new(1, &answers, &d), HW_OK);
    assert_int_equal(hw_drain_snap(d, f.feed, 5, 0, false, false), HW_OK); /* not added yet: lost */
    assert_int_equal(hw_drain_add(d, f.feed, 5), HW_OK);
    assert_int_equal(hw_drain_snap(d, f.feed, 5, 0, true, false), HW_OK);
    while (n < 2) {
        struct hw_msg *q = hw_message_queue_take(&answers);
        if (!q)
            usleep(500);
        for (struct hw_msg *next; q; q = next) {
            next = q->next;
            if (q->type == HW_DRAINED_SNAP) {
                assert_true(n < 2);
                seen[n] = q->data;
                flags[n++] = q->flags;
            } else {
                assert_int_not_equal(q->type, HW_DRAINED_BROKEN);
                free(q->data);
            }
            free(q);
        }
    }
    assert_int_equal(flags[0], HW_DRAINED_AT_FAILURE);
    assert_int_equal(flags[1], HW_DRAINED_FINAL);
    assert_int_equal(seen[0]->books.v[0].cells.v[0].t.allocated, 100);
    assert_int_equal(seen[0]->books.v[0].cells.v[0].t.freed, 0);
    assert_int_equal(seen[1]->books.v[0].cells.v[0].t.freed, 100);
    for (int i = 0; i < 2; i++)
        hw_snapshot_free(seen[i]);
    hw_drain_free(d);
    hw_message_queue_done(&answers);
    tear_down(&f);
}

/* ---- scopes ---- */

static void put_batch(struct fix *f, uint32_t slot, uint32_t batch, uint32_t n)
{
    struct {
        struct hw_rec_slices r;
        struct hw_slice_entry e[HW_SLICE_BATCH];
    } rec = {.r = {.slot = slot, .batch = batch, .tid = 7, .ticks = 1000, .time_ns = 5000}};
    rec.r.end_ticks = 1000 + 100;
    rec.r.end_time_ns = 5000 + 200;
    for (uint32_t i = 0; i < n; i++)
        rec.e[i] = (struct hw_slice_entry){i % 2 ? 0 : 9, (uint64_t)i << HW_SLICE_DEPTH_BITS | 3};
    put(f, &rec, (uint32_t)(sizeof rec.r + n * sizeof *rec.e), HW_REC_SLICES);
}

static void fill_slot(struct hw_slice_slot *s, uint32_t batch, uint32_t n)
{
    s->tid = 7;
    s->ticks = hw_slice_ticks();
    s->time_ns = hw_now_monotonic_ns();
    for (uint32_t i = 0; i < n; i++)
        s->entry[i] =
            (struct hw_slice_entry){i % 2 ? 0 : 9, (uint64_t)i << HW_SLICE_DEPTH_BITS | 3};
    atomic_store(&s->batch, batch);
    atomic_store(&s->n, n);
}

/* A batch's times lie between its ends; a rest is told once, and not again with its batch. */
static void test_slices(void **state)
{
    (void)state;
    struct fix f;
    set_up_with(&f, HW_RING_MIN_BYTES, /* slots = */ true);
    put_batch(&f, 5, 0, 10);
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 1), HW_CONSUMER_EMPTY);
    assert_int_equal(f.feed->slices.n, 10);
    assert_int_equal(f.feed->slices.v[4].time_ns, 5000 + 8);
    assert_int_equal(f.feed->slices.v[4].depth, 3);
    assert_int_equal(f.feed->slices.v[4].tid, 7);
    assert_int_equal(f.feed->slices.v[5].id, 0);

    struct hw_slice_slot *slot = &f.w.slots[5];
    fill_slot(slot, 2, 4); /* batch 1 is not here yet */
    hw_ring_consumer_slice_rests(f.feed, /* final = */ false);
    assert_int_equal(f.feed->slices.n, 10);
    fill_slot(slot, 1, 6);
    atomic_store(&slot->n, 4);
    hw_ring_consumer_slice_rests(f.feed, /* final = */ false);
    assert_int_equal(f.feed->slices.n, 14);
    hw_ring_consumer_slice_rests(f.feed, /* final = */ false);
    assert_int_equal(f.feed->slices.n, 14);
    atomic_store(&slot->n, 6);
    hw_ring_consumer_slice_rests(f.feed, /* final = */ false);
    assert_int_equal(f.feed->slices.n, 16);
    put_batch(&f, 5, 1, 20); /* the same one, whole */
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 1), HW_CONSUMER_EMPTY);
    assert_int_equal(f.feed->slices.n, 30);
    for (size_t i = 1; i < f.feed->slices.n; i++)
        assert_true(f.feed->slices.v[i].time_ns >= f.feed->slices.v[i - 1].time_ns);

    fill_slot(slot, 2, 2);
    put_batch(&f, 6, 0, 2); /* names may be in the ring */
    hw_ring_consumer_slice_rests(f.feed, /* final = */ false);
    assert_int_equal(f.feed->slices.n, 30);
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 1), HW_CONSUMER_EMPTY);
    hw_ring_consumer_slice_rests(f.feed, /* final = */ true);
    assert_int_equal(f.feed->slices.n, 34);

    atomic_store(&slot->n, UINT32_MAX); /* nonsense is no rest */
    hw_ring_consumer_slice_rests(f.feed, /* final = */ true);
    assert_int_equal(f.feed->slices.n, 34);
    put_batch(&f, HW_SLICE_SLOTS, 0, 2);
    assert_int_equal(hw_ring_consumer_drain(f.feed, UINT64_MAX, 1000, 1), HW_CONSUMER_BROKEN);
    tear_down(&f);
}

HW_TEST_MAIN(cmocka_unit_test(test_records), cmocka_unit_test(test_managed),
             cmocka_unit_test(test_frames_of_managed), cmocka_unit_test(test_late_frames),
             cmocka_unit_test(test_until_and_holes), cmocka_unit_test(test_liars),
             cmocka_unit_test(test_scribbles), cmocka_unit_test(test_copy),
             cmocka_unit_test(test_copies_in_a_row), cmocka_unit_test(test_copy_with_a_chain),
             cmocka_unit_test(test_threads), cmocka_unit_test(test_failure),
             cmocka_unit_test(test_slices))
