/*
 * frozen_test.c - a client library of an earlier version still finds everything where it was
 *
 * Almost all of it is checked by the compiler: members of tests/frozen/ that are not where src/wire
 * has them do not build.
 */
#include "test.h"

#include "../../frozen/wire_v10.h"
#include "base/arch.h"
#include "unwind/table.h"
#include "unwind/walk.h"
#include "wire/control_page.h"
#include "wire/handshake.h"
#include "wire/ring.h"

#define SAME(value, frozen) _Static_assert((value) == (frozen), #value)
/* The same place and size. */
#define PLACE(type, member)                                                                        \
    _Static_assert(offsetof(struct hw_##type, member) == offsetof(struct v10_##type, member) &&    \
                       sizeof((struct hw_##type *)0)->member ==                                    \
                           sizeof((struct v10_##type *)0)->member,                                 \
                   #type "." #member)
/* All of a record, which does not grow either. */
#define SIZE(type) _Static_assert(sizeof(struct hw_##type) == sizeof(struct v10_##type), #type)

/* ---- handshake ---- */

SAME(HW_HELLO_MAGIC, V10_HELLO_MAGIC);
SAME(HW_WELCOME_MAGIC, V10_WELCOME_MAGIC);
SAME(HW_WELCOME_FDS, V10_WELCOME_FDS);
SAME(HW_HELLO_STARTUP, V10_HELLO_STARTUP);
SAME(HW_HELLO_BLOCKING, V10_HELLO_BLOCKING);
SAME(HW_HELLO_ATTACHED, V10_HELLO_ATTACHED);
SAME(HW_HELLO_FORKED, V10_HELLO_FORKED);
SAME(HW_HELLO_HELD, V10_HELLO_HELD);
SAME(HW_HELLO_BARE, V10_HELLO_BARE);
SAME(HW_ARCH_X86_64, V10_ARCH_X86_64);
SAME(HW_ARCH_ARM64, V10_ARCH_ARM64);
SAME(HW_ARCH_X86, V10_ARCH_X86);
PLACE(hello, magic);
PLACE(hello, version);
PLACE(hello, arch);
PLACE(hello, flags);
PLACE(hello, page_size);
PLACE(hello, pid_inside);
PLACE(hello, tables_kib);
PLACE(hello, main_stack_hi);
PLACE(hello, allocator_base);
SAME(HW_HELLO_LEAST_BYTES, sizeof(struct v10_hello));
SAME(HW_WELCOME_NO, V10_WELCOME_NO);
SAME(HW_WELCOME_WAIT, V10_WELCOME_WAIT);
SAME(HW_WELCOME_PROFILE, V10_WELCOME_PROFILE);
PLACE(welcome, magic);
PLACE(welcome, version);
PLACE(welcome, status);
PLACE(welcome, generation);
PLACE(welcome, now_ns);
_Static_assert(offsetof(struct hw_welcome, config) == offsetof(struct v10_welcome, config),
               "welcome.config");
PLACE(client_config, flags);
PLACE(client_config, n_heaps);
PLACE(client_config, default_interval_bytes);
PLACE(client_config, block_timeout_us);
PLACE(client_config, adaptive_threshold_bytes);
PLACE(client_config, adaptive_max_interval_bytes);
PLACE(client_config, seed);
PLACE(client_config, max_frames);
PLACE(client_config, stack_mode);
PLACE(client_config, max_samples_per_second);
PLACE(client_config, heaps);
PLACE(client_config, scopes);
SIZE(heap_choice);
PLACE(heap_choice, interval_bytes);
PLACE(heap_choice, name);
SAME(HW_CC_BLOCK, V10_CC_BLOCK);
SAME(HW_CC_DISABLE_FORK_TEARDOWN, V10_CC_DISABLE_FORK_TEARDOWN);
SAME(HW_CC_FOLLOW_FORK, V10_CC_FOLLOW_FORK);
SAME(HW_CC_STRIP_ENV, V10_CC_STRIP_ENV);
SAME(HW_CC_ALL_HEAPS, V10_CC_ALL_HEAPS);
SAME(HW_CC_STREAM, V10_CC_STREAM);
SAME(HW_CC_MALLOC_INFO, V10_CC_MALLOC_INFO);
SAME(HW_CC_ADDRESSES, V10_CC_ADDRESSES);
SAME(HW_CC_NATIVE_ONLY, V10_CC_NATIVE_ONLY);
SAME(HW_CC_TYPES, V10_CC_TYPES);
SAME(HW_CC_SLICES, V10_CC_SLICES);
SAME(HW_STACKS_NATIVE, V10_STACKS_NATIVE);
SAME(HW_STACKS_THREADS, V10_STACKS_THREADS);
SAME(HW_STACKS_PSEUDO, V10_STACKS_PSEUDO);
SAME(HW_STACKS_MIXED, V10_STACKS_MIXED);

/* ---- control page ---- */

SAME(HW_CONTROL_MAGIC, V10_CONTROL_MAGIC);
SAME(HW_CONTROL_BYTES, V10_CONTROL_BYTES);
SAME(HW_SANDBOX_NONE, V10_SANDBOX_NONE);
SAME(HW_SANDBOX_FILTER, V10_SANDBOX_FILTER);
SAME(HW_SANDBOX_STRICT, V10_SANDBOX_STRICT);
PLACE(control_page, generation);
PLACE(control_page, maps_wanted);
PLACE(control_page, heartbeat);
PLACE(control_page, ended);
PLACE(control_page, malloc_info_wanted);
PLACE(control_page, magic);
PLACE(control_page, version);
PLACE(control_page, sandbox);
PLACE(control_page, socket_path);
PLACE(control_page, java_end_wanted);
PLACE(control_page, java_lo);
PLACE(control_page, java_hi);
PLACE(control_page, java_library);
PLACE(control_page, python);
PLACE(control_page, python.eval_lo);
PLACE(control_page, python.eval_hi);
PLACE(control_page, python.cold_lo);
PLACE(control_page, python.cold_hi);
PLACE(control_page, python.runtime);
PLACE(control_page, python.code_type);
PLACE(control_page, python.minor);
PLACE(control_page, doublings);
PLACE(control_page, filters);

/* ---- tables ---- */

SAME(HW_TABLES_MAGIC, V10_TABLES_MAGIC);
SAME(HW_TABLES_BYTES, V10_TABLES_BYTES);
SAME(HW_TABLE_VERSION, V10_TABLE_VERSION);
PLACE(tables_dir, magic);
PLACE(tables_dir, version);
PLACE(tables_dir, arch);
PLACE(tables_dir, snapshot_off);
PLACE(tables_dir, closes_seen);
PLACE(tables_dir, used);
SIZE(module);
PLACE(module, lo);
PLACE(module, hi);
PLACE(module, bias);
PLACE(module, table_off);
PLACE(module, flags);
PLACE(module_snapshot, generation);
PLACE(module_snapshot, n_modules);

/* ---- ring ---- */

SAME(HW_RING_MAGIC, V10_RING_MAGIC);
SAME(HW_RING_FIRST_POS, V10_RING_FIRST_POS);
SAME(HW_RING_WRITERS, V10_RING_WRITERS);
SAME(HW_SLICE_SLOTS, V10_SLICE_SLOTS);
SAME(HW_SLICE_BATCH, V10_SLICE_BATCH);
SAME(HW_CLIENT_HIT_TIMEOUT, V10_CLIENT_HIT_TIMEOUT);
SAME(HW_CLIENT_INVALID_STACK_BOUNDS, V10_CLIENT_INVALID_STACK_BOUNDS);
SAME(HW_CLIENT_RECORDER_GONE, V10_CLIENT_RECORDER_GONE);
SAME(HW_CLIENT_NO_MEMORY, V10_CLIENT_NO_MEMORY);
SAME(HW_CLIENT_LOCKED_OUT, V10_CLIENT_LOCKED_OUT);
PLACE(ring_shm, magic);
PLACE(ring_shm, version);
PLACE(ring_shm, slots_bytes);
PLACE(ring_shm, data_bytes);
PLACE(ring_shm, client_error);
PLACE(ring_shm, closes_begun);
PLACE(ring_shm, closes_ended);
PLACE(ring_shm, target_behind_ns);
PLACE(ring_shm, write_pos);
PLACE(ring_shm, read_pos);
PLACE(ring_shm, intents);
#define frames_unclear python_unclear /* its name then */
struct renamed_ring_counters {
#define X(name, text) _Atomic uint64_t name;
    HW_RING_COUNTERS_10(X)
#undef X
};
#define X(name, text)                                                                              \
    SAME(offsetof(struct renamed_ring_counters, name), offsetof(struct v10_ring_counters, name));
HW_RING_COUNTERS_10(X)
#undef X
#undef frames_unclear
SAME(offsetof(struct hw_ring_counters, frames_unclear),
     offsetof(struct v10_ring_counters, python_unclear));
_Static_assert(sizeof(struct hw_ring_counters) >= sizeof(struct v10_ring_counters), "counters");
SIZE(ring_intent);
SIZE(slice_slot);
PLACE(slice_slot, n);
PLACE(slice_slot, batch);
PLACE(slice_slot, tid);
PLACE(slice_slot, ticks);
PLACE(slice_slot, time_ns);
PLACE(slice_slot, entry);
PLACE(slice_entry, id);
PLACE(slice_entry, when);

/* ---- records ---- */

SAME(HW_REC_ALLOC, V10_REC_ALLOC);
SAME(HW_REC_FREE, V10_REC_FREE);
SAME(HW_REC_STACK, V10_REC_STACK);
SAME(HW_REC_ALLOC_COPY, V10_REC_ALLOC_COPY);
SAME(HW_REC_HEAP, V10_REC_HEAP);
SAME(HW_REC_MAPS, V10_REC_MAPS);
SAME(HW_REC_PAD, V10_REC_PAD);
SAME(HW_REC_MINFO, V10_REC_MINFO);
SAME(HW_REC_EXACT, V10_REC_EXACT);
SAME(HW_REC_FAILED, V10_REC_FAILED);
SAME(HW_REC_MIXED, V10_REC_MIXED);
SAME(HW_REC_NAME, V10_REC_NAME);
SAME(HW_REC_SLICES, V10_REC_SLICES);
SAME(HW_ALLOC_TRUNCATED, V10_ALLOC_TRUNCATED);
SAME(HW_ALLOC_REALLOC, V10_ALLOC_REALLOC);
SAME(HW_ALLOC_APP_SAMPLED, V10_ALLOC_APP_SAMPLED);
SAME(HW_ALLOC_DOUBLINGS_SHIFT, V10_ALLOC_DOUBLINGS_SHIFT);
SAME(HW_HEAP_ID_LIBC, V10_HEAP_ID_LIBC);
SAME(HW_MANAGED_JAVA, V10_MANAGED_JAVA);
SAME(HW_MANAGED_PYTHON, V10_MANAGED_PYTHON);
SAME(HW_MANAGED_SCOPE, V10_MANAGED_SCOPE);
SAME(HW_MANAGED_TYPE, V10_MANAGED_TYPE);
SAME(HW_MANAGED_SLICE, V10_MANAGED_SLICE);
SAME(HW_MANAGED_THREAD, V10_MANAGED_THREAD);
SIZE(rec_alloc);
PLACE(rec_alloc, address);
PLACE(rec_alloc, alloc_size);
PLACE(rec_alloc, sample_size);
PLACE(rec_alloc, stack_id);
PLACE(rec_alloc, time_ns);
PLACE(rec_alloc, heap_id);
PLACE(rec_alloc, flags);
SIZE(rec_exact);
PLACE(rec_exact, stack_id);
PLACE(rec_exact, time_ns);
PLACE(rec_exact, size_heap);
SIZE(rec_free);
PLACE(rec_free, sample_id);
PLACE(rec_free, time_ns);
SIZE(rec_stack);
PLACE(rec_stack, stack_id);
PLACE(rec_stack, n_frames);
PLACE(rec_stack, stop);
PLACE(rec_stack, time_ns);
SIZE(rec_name);
PLACE(rec_name, id);
PLACE(rec_name, line);
PLACE(rec_name, n_function);
PLACE(rec_name, n_file);
PLACE(rec_name, n_module);
SIZE(rec_copy);
PLACE(rec_copy, sp);
PLACE(rec_copy, hi);
PLACE(rec_copy, n_bytes);
PLACE(rec_copy, n_regs);
PLACE(rec_copy, arch);
PLACE(rec_copy, reason);
PLACE(rec_copy, closes);
SIZE(rec_heap);
PLACE(rec_heap, heap_id);
PLACE(rec_heap, interval_bytes);
PLACE(rec_heap, name);
SIZE(rec_failed);
PLACE(rec_failed, size);
PLACE(rec_failed, time_ns);
SIZE(rec_slices);
PLACE(rec_slices, slot);
PLACE(rec_slices, batch);
PLACE(rec_slices, tid);
PLACE(rec_slices, ticks);
PLACE(rec_slices, time_ns);
PLACE(rec_slices, end_ticks);
PLACE(rec_slices, end_time_ns);
SIZE(rec_maps);
PLACE(rec_maps, pc);
SIZE(rec_minfo);
PLACE(rec_minfo, time_ns);
PLACE(rec_minfo, arena_bytes);
PLACE(rec_minfo, mmap_bytes);
PLACE(rec_minfo, in_use_bytes);
PLACE(rec_minfo, free_bytes);
PLACE(rec_minfo, releasable_bytes);
PLACE(rec_minfo, took_ns);

/* ---- what is no layout ---- */

static void test_welcome_has_the_size_of_its_version(void **state)
{
    (void)state;
    assert_int_equal(hw_welcome_bytes(10), sizeof(struct v10_welcome));
}

static void test_heads_are_the_same(void **state)
{
    (void)state;
    for (uint64_t pos = 4096; pos < (UINT64_C(1) << 40); pos = (pos * 3 + 8) & ~UINT64_C(7))
        for (uint32_t size = 8; size <= HW_REC_MAX_BYTES; size = size * 5 / 8 * 8) {
            uint32_t tid = 0;
            uint64_t open = v10_rec_open(pos, size, 4711);
            assert_int_equal(hw_rec_head(pos, size, HW_REC_FREE),
                             v10_rec_head(pos, size, V10_REC_FREE));
            assert_int_equal(hw_rec_open_size(open, pos, &tid), size);
            assert_int_equal(tid, 4711);
            assert_int_equal(hw_ring_intent_of(pos, size, tid), v10_intent(pos, size, tid));
        }
}

/* client's oldest, its newest, what is agreed on */
static void test_newest_of_both_is_agreed_on(void **state)
{
    (void)state;
    static const uint32_t cases[][3] = {
        {8, 9, 0},
        {9, 9, 0},
        {10, 10, 10},
        {8, 10, 10},
        {HW_WIRE_VERSION, HW_WIRE_VERSION, HW_WIRE_VERSION},
        {HW_WIRE_VERSION, HW_WIRE_VERSION + 1, HW_WIRE_VERSION},
        {10, UINT32_MAX, HW_WIRE_VERSION},
        {HW_WIRE_VERSION + 1, HW_WIRE_VERSION + 1, 0},
        {12, 11, 0}, /* nonsense */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(hw_wire_agree(cases[i][0], cases[i][1]), cases[i][2]);
    assert_true(hw_wire_is_supported(HW_WIRE_VERSION));
    assert_true(HW_WIRE_OLDEST <= HW_WIRE_CLIENT_OLDEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_welcome_has_the_size_of_its_version),
        cmocka_unit_test(test_heads_are_the_same),
        cmocka_unit_test(test_newest_of_both_is_agreed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
