/*
 * exec_share.c - counts of starts, and the draw
 *
 * The rate is that of the last half minute: what was counted in the present one, plus the part of
 * the one before that lies in the last half minute if its starts were spread evenly.
 */
#include "daemon/execwatch/exec_share.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/banned.h"

#define WINDOW_NS        (30 * UINT64_C(1000000000))
#define CALL_NS          (50 * UINT64_C(1000000)) /* both questions of one call come within */
#define WINDOWS_A_MINUTE 2u

static struct hw_exec_starts *find(struct hw_exec_shares *s, uint64_t id, uint64_t now)
{
    struct hw_exec_starts *set = s->starts[id % HW_EXEC_SHARE_SETS], *oldest = set;
    for (size_t i = 0; i < HW_EXEC_SHARE_WAYS; i++) {
        if (set[i].id == id)
            return &set[i];
        if (set[i].since_ns < oldest->since_ns)
            oldest = &set[i];
    }
    *oldest = (struct hw_exec_starts){.id = id, .since_ns = now};
    return oldest;
}

/* Starts a minute, before this one. */
static uint64_t count(struct hw_exec_shares *s, uint64_t id, uint64_t now)
{
    struct hw_exec_starts *x = find(s, id, now);
    uint64_t windows = (now - x->since_ns) / WINDOW_NS;
    if (windows) {
        x->before = windows == 1 ? x->now : 0;
        x->now = 0;
        x->since_ns += windows * WINDOW_NS;
    }
    uint64_t left = WINDOW_NS - (now - x->since_ns);
    uint64_t rate = (x->now + x->before * left / WINDOW_NS) * WINDOWS_A_MINUTE;
    x->now += x->now < UINT32_MAX;
    return rate;
}

static uint32_t share_of(uint64_t rate, uint64_t most)
{
    uint32_t share = 0;
    while (share < HW_EXEC_SHARE_MOST && rate >> share >= most)
        share++;
    return share;
}

/* xorshift64*, whose upper bits are good. */
static uint64_t next_random(struct hw_exec_shares *s)
{
    s->random ^= s->random >> 12;
    s->random ^= s->random << 25;
    s->random ^= s->random >> 27;
    return (s->random * UINT64_C(2685821657736338717)) >> 32;
}

uint32_t hw_exec_share_draw(struct hw_exec_shares *s, const struct hw_exec_start *start,
                            uint32_t per_minute)
{
    struct hw_exec_share_call *c = &s->calls[start->call % HW_EXEC_SHARE_CALLS];
    uint64_t now = start->at_ns;
    if (c->key == start->call && now < c->until_ns)
        return c->drawn;
    uint64_t program = count(s, start->program, now), command = count(s, start->command, now);
    uint32_t share = share_of(command, per_minute);
    uint32_t of_program = share_of(program, (uint64_t)per_minute * HW_EXEC_SHARE_OF_PROGRAM);
    share = of_program > share ? of_program : share;
    bool held = share == 0 || next_random(s) % (UINT64_C(1) << share) == 0;
    *c = (struct hw_exec_share_call){start->call, now + CALL_NS, held ? share : HW_EXEC_PASSED};
    return c->drawn;
}
