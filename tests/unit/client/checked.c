/*
 * checked.c - a client whose every walk is compared with one without a cache, inside real programs
 *
 * Linked into a second build of the client library with --wrap=hw_walk and hw_walk_known. Where a stack was known, or was
 * walked with the thread's cache, it is walked again without any: both must give the same. If not, the program says so and
 * traps. At its end it says on stderr
 *
 *     checked: KNOWN known stacks, WALKED walks, SKIPPED of them not compared
 *
 * One thread compares at a time, and others go on without: nothing of this may wait inside of a malloc.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "unwind/walk.h"

void __real_hw_walk(const struct hw_walk_in *in, struct hw_walk_cache *c, struct hw_walk_out *out);
void __wrap_hw_walk(const struct hw_walk_in *in, struct hw_walk_cache *c, struct hw_walk_out *out);
bool __real_hw_walk_known(const struct hw_module_snapshot *snapshot,
                          const struct hw_walk_regs *regs, uint64_t hi, struct hw_walk_cache *c,
                          struct hw_walk_out *out);
bool __wrap_hw_walk_known(const struct hw_module_snapshot *snapshot,
                          const struct hw_walk_regs *regs, uint64_t hi, struct hw_walk_cache *c,
                          struct hw_walk_out *out);

static _Atomic int busy;
static struct hw_walk_in in_use; /* of the last walk: its tables */
static struct hw_walk_out bare;
static _Atomic unsigned long n_known, n_walked, n_skipped;

static bool begin(void)
{
    int none = 0;
    bool ok = atomic_compare_exchange_strong(&busy, &none, 1);
    n_skipped += !ok;
    return ok;
}

static void say(const char *text, int n)
{
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
        return; /* nobody reads it */
}

static void compare(const char *what, const struct hw_walk_out *out, bool frames)
{
    static char text[400];
    bool same = out->stop == bare.stop && out->n_frames == bare.n_frames &&
                out->generation == bare.generation && out->stack_id == bare.stack_id &&
                (!frames || (memcmp(out->pcs, bare.pcs, bare.n_frames * sizeof *bare.pcs) == 0 &&
                             memcmp(out->exact, bare.exact, sizeof bare.exact) == 0));
    if (same)
        return;
    say(text,
        snprintf(text, sizeof text,
                 "DIFFERS: %s: %u frames, stop %u, id %llx; walked %u frames, stop %u, id %llx\n",
                 what, out->n_frames, out->stop, (unsigned long long)out->stack_id, bare.n_frames,
                 bare.stop, (unsigned long long)bare.stack_id));
    __builtin_trap();
}

void __wrap_hw_walk(const struct hw_walk_in *in, struct hw_walk_cache *c, struct hw_walk_out *out)
{
    __real_hw_walk(in, c, out);
    n_walked++;
    if (!begin())
        return;
    in_use = *in;
    __real_hw_walk(in, NULL, &bare);
    compare("with the cache", out, /* frames = */ true);
    atomic_store(&busy, 0);
}

bool __wrap_hw_walk_known(const struct hw_module_snapshot *snapshot,
                          const struct hw_walk_regs *regs, uint64_t hi, struct hw_walk_cache *c,
                          struct hw_walk_out *out)
{
    if (!__real_hw_walk_known(snapshot, regs, hi, c, out))
        return false;
    n_known++;
    if (!begin())
        return true;
    if (in_use.snapshot == snapshot) {
        in_use.regs = *regs;
        in_use.hi = hi;
        __real_hw_walk(&in_use, NULL, &bare);
        compare("known", out, /* frames = */ false);
    } else {
        n_skipped++;
    }
    atomic_store(&busy, 0);
    return true;
}

__attribute__((destructor)) static void report(void)
{
    char text[120];
    say(text, snprintf(text, sizeof text,
                       "checked: %lu known stacks, %lu walks, %lu of them not compared\n",
                       (unsigned long)n_known, (unsigned long)n_walked, (unsigned long)n_skipped));
}
