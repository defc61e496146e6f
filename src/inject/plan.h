/*
 * plan.h - which bytes of an allocator's code change, so that its functions lead to our hooks
 *
 * Why:     calls that are bound inside a file (an allocator linked into the program, a static
 *          program, musl) go through no table. There the function itself is changed: a jump to our
 *          hook replaces its first instructions, which move to a copy that jumps back.
 * Shapes:  made from the file's own bytes, never from memory, so the same plan results when the
 *          change is undone. Addresses are the target's.
 *
 *              malloc:   jmp  ----------------> near:  jmp *hook         one slot a function
 *              rest: <-------------.                   copy of what the jump covers
 *                                  '-----------------  jmp rest          = the real function
 *
 *          A branch of the allocator's own code to a changed function (realloc to malloc) is led
 *          to the copy, or it would be counted twice. Functions that only pass on to another one
 *          of the family (libstdc++'s operator new) stay as they are.
 * Owns:    its vectors.
 * Errors:  HW_EUNSUPPORTED with the function and the reason; HW_ENOMEM.
 */
#ifndef HW_INJECT_PLAN_H
#define HW_INJECT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"
#include "wire/attach.h"

struct hw_error;

#define HW_PLAN_NEAR_BYTES 4096u
#define HW_PLAN_JUMP_BYTES 5u
#define HW_PLAN_MOST_BYTES 20u

struct hw_plan_in {
    struct hw_bytes text;
    uint64_t text_at;
    uint64_t entry[HW_HOOKED_COUNT], end[HW_HOOKED_COUNT]; /* 0 = there is none */
    /* A word of the target, as a procedure linkage table holds it. */
    bool (*word)(void *arg, uint64_t at, uint64_t *out);
    void *arg;
};

/* The instructions that a jump overwrites. */
struct hw_plan_window {
    uint64_t lo, hi;
    uint32_t name; /* enum hw_hooked_name */
    uint8_t n;     /* instructions: where each was, and where its copy is, from lo and the copy */
    uint8_t old_at[8], new_at[8];
};

struct hw_plan_change {
    uint64_t at;
    uint32_t n;
    uint8_t before[HW_PLAN_MOST_BYTES], after[HW_PLAN_MOST_BYTES];
};

struct hw_plan {
    HW_VEC(struct hw_plan_window) windows;
    HW_VEC(struct hw_plan_change) changes; /* windows first, in the same order */
    HW_VEC(uint32_t) site_names;           /* of the changes behind the windows */
    uint64_t near_at;
    uint8_t near[HW_PLAN_NEAR_BYTES];
    uint64_t real[HW_HOOKED_COUNT];
};

const char *hw_hooked_text(uint32_t name);
int hw_plan_make(const struct hw_plan_in *in, struct hw_plan *out, struct hw_error *err);
/* Fills near, real and the bytes to write. near_at must be within 2 GiB of the text. */
int hw_plan_place(const struct hw_plan_in *in, struct hw_plan *p, uint64_t near_at,
                  const uint64_t hooks[HW_HOOKED_COUNT], struct hw_error *err);
void hw_plan_done(struct hw_plan *p);

/* Would a thread that is stopped at, or returns to, this address find half an instruction? */
bool hw_plan_covers(const struct hw_plan *p, uint64_t pc);
/* The same place in the copy; false = it is between two instructions of a window. */
bool hw_plan_moves(const struct hw_plan *p, uint64_t pc, uint64_t *out);

#endif
