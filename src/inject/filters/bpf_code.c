/*
 * bpf_code.c - see bpf_code.h
 *
 *   a value is (v, known): bit i of v is certain where bit i of known is set, else 0 in v
 *
 *   load, AND, OR, XOR, shifts by a known number     bit by bit
 *   + - * / % and the rest                           known where both are wholly known
 *   a jump                                           certain where the known bits decide it, else
 *                                                    the second way waits on a stack
 *
 * The code only jumps forwards, so each way ends; how many there are together is limited by steps.
 * Real filters (systemd's, libseccomp's, Docker's) ask for a few arguments, so there are few ways.
 */
#include "inject/filters/bpf_code.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <string.h>

#include "base/banned.h"

#define MAX_WAYS  64u /* paths that wait at a time */
#define MAX_STEPS 32768u
#define ALL       UINT32_MAX

struct value {
    uint32_t v, known;
};

struct way {
    size_t at;
    struct value a, x, mem[BPF_MEMWORDS];
};

static struct value exactly(uint32_t v)
{
    return (struct value){v, ALL};
}

static uint32_t compute(uint16_t op, uint32_t a, uint32_t b)
{
    switch (op) {
    case BPF_ADD:
        return a + b;
    case BPF_SUB:
        return a - b;
    case BPF_MUL:
        return a * b;
    case BPF_DIV:
        return b ? a / b : 0;
    case BPF_MOD:
        return b ? a % b : 0;
    case BPF_OR:
        return a | b;
    case BPF_AND:
        return a & b;
    case BPF_XOR:
        return a ^ b;
    case BPF_LSH:
        return a << (b & 31);
    case BPF_RSH:
        return a >> (b & 31);
    default:
        return -a; /* BPF_NEG */
    }
}

static struct value alu(uint16_t op, struct value a, struct value b)
{
    uint32_t known;
    bool shifts = (op == BPF_LSH || op == BPF_RSH) && b.known == ALL;
    if (a.known == ALL && (b.known == ALL || op == BPF_NEG))
        return exactly(compute(op, a.v, b.v));
    if (op == BPF_AND)
        known = (a.known & b.known) | (a.known & ~a.v) | (b.known & ~b.v);
    else if (op == BPF_OR)
        known = (a.known & b.known) | a.v | b.v;
    else if (op == BPF_XOR)
        known = a.known & b.known;
    else if (shifts && op == BPF_LSH)
        known = ~(~a.known << (b.v & 31));
    else if (shifts)
        known = ~(~a.known >> (b.v & 31));
    else
        known = 0;
    return (struct value){compute(op, a.v, b.v) & known, known};
}

/* 1, 0, or -1 = that depends. */
static int jumps(uint16_t op, struct value a, struct value b)
{
    uint32_t both = a.known & b.known;
    uint32_t a_most = a.v | ~a.known, b_most = b.v | ~b.known;
    switch (op) {
    case BPF_JEQ:
        return ((a.v ^ b.v) & both) != 0 ? 0 : both == ALL ? 1 : -1;
    case BPF_JGT:
        return a.v > b_most ? 1 : a_most <= b.v ? 0 : -1;
    case BPF_JGE:
        return a.v >= b_most ? 1 : a_most < b.v ? 0 : -1;
    default: /* BPF_JSET */
        return (a.v & b.v) != 0 ? 1 : (a_most & b_most) == 0 ? 0 : -1;
    }
}

/* The kernel accepts only loads of whole words inside the call's data. */
static bool load(const struct hw_bpf_call *call, uint32_t at, struct value *out)
{
    if (at > sizeof call->data - sizeof out->v || at % sizeof out->v)
        return false;
    memcpy(&out->v, (const char *)&call->data + at, sizeof out->v);
    memcpy(&out->known, (const char *)&call->known + at, sizeof out->known);
    out->v &= out->known;
    return true;
}

static bool step_load(const struct hw_bpf_call *call, const struct sock_filter *f, struct way *w)
{
    struct value *to = BPF_CLASS(f->code) == BPF_LD ? &w->a : &w->x;
    switch (BPF_MODE(f->code)) {
    case BPF_ABS:
        return to == &w->a && load(call, f->k, to);
    case BPF_MEM:
        *to = w->mem[f->k % BPF_MEMWORDS];
        return true;
    case BPF_LEN:
        *to = exactly((uint32_t)sizeof call->data);
        return true;
    default:
        *to = exactly(f->k);
        return BPF_MODE(f->code) == BPF_IMM;
    }
}

/* The kernel answers a division by zero with 0 (the thread is killed). */
static bool step_alu(const struct sock_filter *f, struct way *w)
{
    struct value b = BPF_SRC(f->code) == BPF_X ? w->x : exactly(f->k);
    bool divides = BPF_OP(f->code) == BPF_DIV || BPF_OP(f->code) == BPF_MOD;
    w->a = alu(BPF_OP(f->code), w->a, b);
    return !divides || b.v != 0; /* a bit that is known to be set */
}

/* One instruction that is neither a jump nor a return. False: the kernel would not accept it. */
static bool step(const struct hw_bpf_call *call, const struct sock_filter *f, struct way *w)
{
    switch (BPF_CLASS(f->code)) {
    case BPF_LD:
    case BPF_LDX:
        return step_load(call, f, w);
    case BPF_ST:
        w->mem[f->k % BPF_MEMWORDS] = w->a;
        return true;
    case BPF_STX:
        w->mem[f->k % BPF_MEMWORDS] = w->x;
        return true;
    case BPF_ALU:
        return step_alu(f, w);
    default: /* BPF_MISC */
        if (BPF_MISCOP(f->code) == BPF_TAX)
            w->x = w->a;
        else
            w->a = w->x;
        return true;
    }
}

uint32_t hw_bpf_stricter(uint32_t a, uint32_t b)
{
    int32_t of_a = (int32_t)(a & SECCOMP_RET_ACTION_FULL);
    int32_t of_b = (int32_t)(b & SECCOMP_RET_ACTION_FULL);
    return of_b < of_a ? b : a;
}

/* ---- all paths ---- */

struct run {
    const struct hw_bpf_call *call;
    struct way ways[MAX_WAYS];
    size_t n_ways, n_steps;
    uint32_t answer;
};

/* A condition. False: there are too many paths. */
static bool fork_way(struct run *r, const struct sock_filter *f, struct way *w)
{
    int way = jumps(BPF_OP(f->code), w->a, BPF_SRC(f->code) == BPF_X ? w->x : exactly(f->k));
    if (way < 0 && r->n_ways == MAX_WAYS)
        return false;
    if (way < 0) {
        r->ways[r->n_ways] = *w;
        r->ways[r->n_ways++].at += 1u + f->jf;
    }
    w->at += way ? f->jt : f->jf;
    return true;
}

/* Runs one path to its end. False: the answer is already the strictest one. */
static bool go(struct run *r, const struct sock_filter *code, size_t n, struct way *w)
{
    for (; w->at < n && r->n_steps < MAX_STEPS; w->at++, r->n_steps++) {
        const struct sock_filter *f = &code[w->at];
        bool fine = true;
        if (BPF_CLASS(f->code) == BPF_RET) {
            bool by_a = BPF_RVAL(f->code) == BPF_A;
            r->answer = hw_bpf_stricter(r->answer, by_a ? w->a.v : f->k);
            return !by_a || w->a.known == ALL;
        }
        if (BPF_CLASS(f->code) != BPF_JMP)
            fine = step(r->call, f, w);
        else if (BPF_OP(f->code) == BPF_JA)
            w->at += f->k;
        else
            fine = fork_way(r, f, w);
        if (!fine)
            return false;
    }
    return false;
}

uint32_t hw_bpf_answer(const struct sock_filter *code, size_t n, const struct hw_bpf_call *call)
{
    struct run r = {.call = call, .n_ways = 1, .answer = SECCOMP_RET_ALLOW};
    struct way w;
    r.ways[0].a.known = r.ways[0].x.known = ALL; /* registers and memory start as 0 */
    for (size_t i = 0; i < BPF_MEMWORDS; i++)
        r.ways[0].mem[i].known = ALL;
    while (r.n_ways != 0) {
        w = r.ways[--r.n_ways];
        if (!go(&r, code, n, &w))
            return SECCOMP_RET_KILL_PROCESS;
    }
    return r.answer;
}
