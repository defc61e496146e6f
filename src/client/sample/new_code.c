/*
 * new_code.c - giving the recorder time to read new code, copying stacks until it has, holding
 * dlclose
 */
#include "client/sample/new_code.h"

#include "client/kernel/sys.h"
#include "client/ring/mapped_tables.h"

#define COPY_BYTES_PER_SECOND (1000u * HW_MAX_COPY_BYTES) /* of a thread */
#define COPY_LEAST_BYTES      4096u
#define SECOND_NS             1000000000ull

#define WAIT_STEP_NS    100000 /* for a new module's table */
#define WAIT_STEPS      50
#define WAIT_SESSION_NS 50000000u
#define WAIT_SHARE      50

/* When every allocation is recorded, every stack must be complete. A JVM opens a dozen libraries
 * when it starts, and on a busy machine each table takes longer. After two waits in vain the
 * limits above apply again: the recorder does not answer. */
#define EXACT_STEPS      2000 /* 200 ms */
#define EXACT_SESSION_NS (20 * WAIT_SESSION_NS)
#define EXACT_SHARE      10
#define EXACT_IN_VAIN    2u

static bool is_patient(const struct hw_client_session *s)
{
    return s->base[HW_HEAP_ID_LIBC] == 1 &&
           atomic_load_explicit(&s->waits_in_vain, memory_order_relaxed) < EXACT_IN_VAIN;
}

static uint64_t budget_ns(const struct hw_client_session *s, bool patient)
{
    uint64_t age = hw_local_sandbox_ns() - s->began_ns;
    return patient ? EXACT_SESSION_NS + age / EXACT_SHARE : WAIT_SESSION_NS + age / WAIT_SHARE;
}

/*
 * A module that the recorder has not seen: if the user allows us to wait for room, we also wait a
 * moment for its table. A plug-in that is closed soon, or a program that ends, would otherwise take
 * the names of its frames along. At most 5 ms at a time, and 50 ms and 2 % of the session's time
 * together; at interval 1 200 ms, and a second and 10 %. The usual wait lasts until the recorder
 * next reads the ring, 1 ms, and compiles one table. pc 0: only a list that is up to date is waited
 * for.
 */
HW_COLD bool hw_await_module(struct hw_client_session *s, uint64_t pc)
{
    if ((s->config.flags & HW_CC_BLOCK) == 0)
        return false;
    bool patient = is_patient(s);
    for (int i = 0; i < (patient ? EXACT_STEPS : WAIT_STEPS); i++) {
        if (atomic_fetch_add_explicit(&s->waited_ns, WAIT_STEP_NS, memory_order_relaxed) >=
            budget_ns(s, patient))
            return false;
        hw_sys_step_ns(WAIT_STEP_NS, hw_sandbox());
        const struct hw_module_snapshot *now = hw_tables_modules(s);
        const struct hw_module *m = now && pc ? hw_module_find(now, pc) : NULL;
        if (hw_modules_settled(s) && (!pc || (m && !(m->flags & HW_MODULE_PENDING))))
            return true;
    }
    (void)atomic_fetch_add_explicit(&s->waits_in_vain, 1, memory_order_relaxed);
    return false;
}

/*
 * A copy counts as if it were the largest possible, so that a thread makes at most a thousand per
 * second. If code comes and goes and the user allows us to wait, it counts by its size: a plug-in
 * that is opened, used and closed hundreds of times a second would use up that thousand.
 */
bool hw_copy_allowed(const struct hw_client_session *s, struct hw_slab *slab, uint64_t n_bytes,
                     uint64_t now_ns)
{
    uint32_t cost = HW_MAX_COPY_BYTES;
    if (slab->is_unsettled && (s->config.flags & HW_CC_BLOCK) && n_bytes < cost)
        cost = n_bytes > COPY_LEAST_BYTES ? (uint32_t)n_bytes : COPY_LEAST_BYTES;
    if (now_ns - slab->copy_second_ns >= SECOND_NS) {
        slab->copy_second_ns = now_ns;
        slab->copied_bytes = 0;
    }
    if (cost > COPY_BYTES_PER_SECOND - slab->copied_bytes)
        return false;
    slab->copied_bytes += cost;
    return true;
}

/* dlclose waits until the recorder has read up to here. The sample is in the ring: a mark made
 * earlier could be waited for, and be over, before there is anything to wait for. */
HW_COLD void hw_note_unsettled(struct hw_client_session *s, struct hw_slab *slab)
{
    slab->is_unsettled = false;
    uint64_t pos = atomic_load(&s->ring.shm->write_pos);
    uint64_t old = atomic_load(&s->unsettled_pos);
    while ((int64_t)(pos - old) > 0 &&
           !atomic_compare_exchange_weak(&s->unsettled_pos, &old, pos)) {
    }
}
