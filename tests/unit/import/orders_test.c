/*
 * The same dumps twice: in the order all writers use, and in random others. Fields of a sample
 * shuffled, said twice (the last counts), with unknown ones between; heads in front of, between and
 * behind samples; lengths of one byte and of four; names in front of and behind their use. The
 * models must be the same.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "codec/pb.h"
#include "import/import.h"
#include "model/profile.h"
#include "schema/fields.h"

#define F_PACKET(name)  HW_F_TracePacket_##name
#define F_PROFILE(name) HW_F_ProfilePacket_##name
#define F_DUMP(name)    HW_F_ProfilePacket_ProcessHeapSamples_##name
#define F_SAMPLE(name)  HW_F_ProfilePacket_HeapSample_##name

enum { N_STACKS = 90, N_DUMPS = 7, N_FIELDS = 18, ROUNDS = 40 };

static const uint32_t fields[N_FIELDS] = {
    F_SAMPLE(callstack_id),
    F_SAMPLE(self_allocated),
    F_SAMPLE(self_freed),
    F_SAMPLE(alloc_count),
    F_SAMPLE(free_count),
    F_SAMPLE(est_alloc_count),
    F_SAMPLE(est_free_count),
    F_SAMPLE(self_idle),
    F_SAMPLE(variance_bytes),
    F_SAMPLE(variance_objects),
    F_SAMPLE(variance_alloc_space),
    F_SAMPLE(variance_alloc_objects),
    F_SAMPLE(rounding_bytes),
    F_SAMPLE(variance_rounding),
    F_SAMPLE(temporary_space),
    F_SAMPLE(temporary_objects),
    F_SAMPLE(variance_temporary_space),
    F_SAMPLE(variance_temporary_objects),
};
enum { F_VARIANCE = 8 }; /* in there */

struct dumps {
    uint64_t values[N_DUMPS][N_STACKS][N_FIELDS]; /* cumulative */
    bool there[N_DUMPS][N_STACKS][N_FIELDS];      /* [0]: is the sample there at all */
};

static uint64_t rng;

static uint64_t below(uint64_t n)
{
    rng = hw_hash_u64(rng + 0x9e3779b97f4a7c15u);
    return rng % n;
}

static bool is_number(uint32_t field)
{
    return field == F_SAMPLE(rounding_bytes) || field == F_SAMPLE(temporary_space) ||
           field == F_SAMPLE(temporary_objects);
}

static void make_dumps(struct dumps *d, int style)
{
    for (size_t i = 0; i < N_DUMPS; i++)
        for (size_t s = 0; s < N_STACKS; s++) {
            uint64_t *v = d->values[i][s];
            if (i)
                memcpy(v, d->values[i - 1][s], sizeof d->values[i][s]);
            for (int f = 1; f < N_FIELDS; f++) {
                d->there[i][s][f] = style != 1 || below(4);
                if (f >= 5 && style == 2) /* a writer that does not know them */
                    d->there[i][s][f] = false;
                v[f] += below(3) ? below(1ull << below(20)) : 0;
                if (style == 3 && below(40) == 0)
                    v[f] = below(2) ? below(1ull << 63) * 2 : 1ull << (54 + below(5));
            }
            double variance = (double)below(1 << 20) * 16;
            memcpy(&v[F_VARIANCE], &variance, sizeof variance);
            for (int f = F_VARIANCE + 1; f < N_FIELDS; f++) {
                if (is_number(fields[f]))
                    continue;
                float more = (float)below(1 << 20);
                v[f] = 0;
                memcpy(&v[f], &more, sizeof more);
            }
            /* Callstack 0 has no entry; some ids mean the same frames. */
            v[0] = style == 1 && below(20) == 0 ? below(N_STACKS) : s;
            d->there[i][s][0] = below(3) != 0;
        }
}

static void put_field(struct hw_pb *w, uint32_t field, uint64_t v)
{
    if (field == F_SAMPLE(variance_bytes))
        hw_pb_fixed64(w, field, v);
    else if (field >= F_SAMPLE(variance_objects) && !is_number(field)) {
        float more;
        memcpy(&more, &v, sizeof more);
        hw_pb_float(w, field, more);
    } else
        hw_pb_uint(w, field, v);
}

static void put_sample(struct hw_pb *w, const struct dumps *d, size_t i, size_t s, bool odd)
{
    size_t order[N_FIELDS];
    struct hw_pb m = {0};
    for (size_t k = 0; k < N_FIELDS; k++) {
        size_t to = odd ? below(k + 1) : k;
        order[k] = order[to];
        order[to] = k;
    }
    for (size_t k = 0; k < N_FIELDS; k++) {
        size_t f = order[k];
        if (odd && below(8) == 0)
            hw_pb_uint(&m, (uint32_t)(4 + 3 * below(2)), below(1 << 20)); /* of no use */
        if (f && !d->there[i][s][f])
            continue;
        if (odd && below(8) == 0)
            put_field(&m, fields[f], below(100));
        put_field(&m, fields[f], d->values[i][s][f]);
    }
    if (odd && below(30) == 0) { /* longer than one byte of length says */
        static const char filler[200];
        hw_pb_bytes(&m, 77, filler, 100 + below(100));
    }
    struct hw_bytes b = hw_pb_view(&m);
    if (odd && below(2)) {
        hw_pb_bytes(w, F_DUMP(samples), b.p, b.n);
    } else {
        hw_pb_begin(w, F_DUMP(samples));
        hw_strbuf_add(&w->buf, b.p, b.n);
        hw_pb_end(w);
    }
    hw_pb_done(&m);
}

static void put_head(struct hw_pb *w, size_t part, size_t i)
{
    if (part == 0) {
        hw_pb_uint(w, F_DUMP(pid), 4711);
        hw_pb_str(w, F_DUMP(heap_name), "libc.malloc");
    } else {
        hw_pb_uint(w, F_DUMP(timestamp), 1000 + i);
        hw_pb_uint(w, F_DUMP(orig_sampling_interval_bytes), 1);
        hw_pb_uint(w, F_DUMP(all_variances), 1);
    }
}

static void begin_packet(struct hw_pb *w)
{
    hw_pb_begin(w, HW_F_Trace_packet);
    hw_pb_uint(w, F_PACKET(trusted_uid), 1000);
    hw_pb_uint(w, F_PACKET(trusted_packet_sequence_id), 3);
}

static void put_dump(struct hw_pb *w, const struct dumps *d, size_t i, bool odd)
{
    size_t at[2] = {0, 0}; /* where the parts of the head stand */
    if (odd) {
        at[0] = below(2) ? N_STACKS : below(N_STACKS);
        at[1] = below(N_STACKS + 1);
    }
    begin_packet(w);
    hw_pb_begin(w, F_PACKET(profile_packet));
    if (odd && i % 2)
        hw_pb_uint(w, F_PROFILE(index), i);
    hw_pb_begin(w, F_PROFILE(process_dumps));
    for (size_t s = 0; s <= N_STACKS; s++) {
        for (size_t part = 0; part < 2; part++)
            if (at[part] == s)
                put_head(w, part, i);
        if (s < N_STACKS && d->there[i][s][0])
            put_sample(w, d, i, s, odd);
    }
    hw_pb_end(w);
    if (!odd || i % 2 == 0)
        hw_pb_uint(w, F_PROFILE(index), i);
    hw_pb_end(w);
    hw_pb_end(w);
}

/* Callstacks begin alike; each fifth is the one before it under another id. */
static void put_names(struct hw_pb *w, bool odd)
{
    begin_packet(w);
    hw_pb_begin(w, F_PACKET(interned_data));
    for (uint64_t i = 1; i < N_STACKS; i++) {
        hw_pb_begin(w, HW_F_InternedData_frames);
        hw_pb_uint(w, HW_F_Frame_iid, i);
        hw_pb_uint(w, HW_F_Frame_rel_pc, 16 * i);
        hw_pb_end(w);
    }
    for (uint64_t k = 1; k < N_STACKS; k++) {
        uint64_t i = odd ? N_STACKS - k : k, like = i % 5 ? i : i - 1;
        hw_pb_begin(w, HW_F_InternedData_callstacks);
        if (!odd || i % 3)
            hw_pb_uint(w, HW_F_Callstack_iid, i);
        for (uint64_t f = 1; f <= 6; f++)
            hw_pb_uint(w, HW_F_Callstack_frame_ids, f);
        hw_pb_uint(w, HW_F_Callstack_frame_ids, 1 + like % 7);
        hw_pb_uint(w, HW_F_Callstack_frame_ids, like == 17 ? 5000 : like); /* one is broken */
        if (odd && i % 3 == 0)
            hw_pb_uint(w, HW_F_Callstack_iid, i);
        hw_pb_end(w);
    }
    hw_pb_end(w);
    hw_pb_end(w);
}

static void put_clock(struct hw_pb *w, uint64_t id)
{
    hw_pb_begin(w, HW_F_ClockSnapshot_clocks);
    hw_pb_uint(w, HW_F_ClockSnapshot_Clock_clock_id, id);
    hw_pb_uint(w, HW_F_ClockSnapshot_Clock_timestamp, 1000);
    hw_pb_end(w);
}

static struct hw_profile *import(const struct dumps *d, bool odd, size_t names_at)
{
    char path[] = "/tmp/hw-orders-XXXXXX";
    struct hw_profile *p;
    struct hw_error err;
    struct hw_pb w = {0};
    hw_autofd int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)unlink(path);
    begin_packet(&w); /* the sequence starts here */
    hw_pb_uint(&w, F_PACKET(sequence_flags), 1);
    hw_pb_begin(&w, F_PACKET(clock_snapshot));
    put_clock(&w, HW_V_BuiltinClock_BUILTIN_CLOCK_BOOTTIME);
    put_clock(&w, HW_V_BuiltinClock_BUILTIN_CLOCK_MONOTONIC_COARSE);
    hw_pb_end(&w);
    hw_pb_end(&w);
    for (size_t i = 0; i <= N_DUMPS; i++) {
        if (i == names_at)
            put_names(&w, odd);
        if (i < N_DUMPS)
            put_dump(&w, d, i, odd);
    }
    assert_false(hw_pb_failed(&w));
    assert_int_equal(hw_fd_write_all(fd, w.buf.p, w.buf.n), 0);
    hw_pb_done(&w);
    assert_int_equal(hw_import_fd(fd, "orders", &p, &err), 0);
    return p;
}

static size_t n_temporary; /* rows with some */

static void same_models(const struct hw_profile *a, const struct hw_profile *b)
{
    assert_int_equal(a->dumps.n, b->dumps.n);
    assert_int_equal(a->allocs.n, b->allocs.n);
    assert_int_equal(hw_callsites_count(a->callsites), hw_callsites_count(b->callsites));
    for (size_t i = 0; i < a->allocs.n; i++) {
        struct hw_alloc_row x = hw_alloc_row_get(&a->allocs, i);
        struct hw_alloc_row y = hw_alloc_row_get(&b->allocs, i);
        assert_int_equal(x.dump, y.dump);
        assert_int_equal(x.callsite.v, y.callsite.v);
        assert_int_equal(x.samples, y.samples);
        assert_int_equal(x.count, y.count);
        assert_int_equal(x.size, y.size);
        assert_int_equal(x.idle, y.idle);
        assert_true(x.variance == y.variance);
        assert_true(x.variance_objects == y.variance_objects);
        assert_true(x.variance_alloc_space == y.variance_alloc_space);
        assert_true(x.variance_alloc_objects == y.variance_alloc_objects);
        assert_int_equal(x.rounding, y.rounding);
        assert_true(x.variance_rounding == y.variance_rounding);
        assert_int_equal(x.temporary_space, y.temporary_space);
        assert_int_equal(x.temporary_objects, y.temporary_objects);
        assert_true(x.variance_temporary_space == y.variance_temporary_space);
        assert_true(x.variance_temporary_objects == y.variance_temporary_objects);
        n_temporary += x.temporary_space != 0;
    }
    assert_int_equal(a->stats.n, b->stats.n);
    for (size_t i = 0; i < a->stats.n; i++)
        assert_int_equal(a->stats.v[i].value, b->stats.v[i].value);
}

static void order_does_not_matter(void **state)
{
    (void)state;
    static struct dumps d;
    size_t n_rows = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        rng = round;
        make_dumps(&d, (int)(round % 4));
        struct hw_profile *usual = import(&d, /* odd = */ false, 0);
        struct hw_profile *odd = import(&d, /* odd = */ true, below(N_DUMPS + 1));
        same_models(usual, odd);
        n_rows += usual->allocs.n;
        hw_profile_free(usual);
        hw_profile_free(odd);
    }
    assert_in_range(n_rows, ROUNDS * N_DUMPS * N_STACKS / 4, ROUNDS * N_DUMPS * N_STACKS * 2);
    assert_true(n_temporary > n_rows / 8);
}

HW_TEST_MAIN(cmocka_unit_test(order_does_not_matter))
