/*
 * plan.c - see plan.h
 *
 * The allocator's own code is found by following it as the processor would: from the entries,
 * across branches, and into functions that it calls and that lie between the first and the last of
 * the family. Jumps through tables are not followed. This finds two things: branches to a function
 * of the family, and branches into the few bytes that a jump overwrites. For the latter the whole
 * text is searched for four-byte distances as well.
 */
#include "inject/plan.h"

#include <string.h>

#include "base/error.h"
#include "inject/remote/x86.h"

#include "base/banned.h"

#define SLOT_BYTES 96u
#define COPY_AT    16u
#define ENDBR      "\xf3\x0f\x1e\xfa"
#define ENDBR_SIZE 4u

_Static_assert((HW_HOOKED_COUNT - 1) * SLOT_BYTES <= HW_PLAN_NEAR_BYTES, "a slot a function");

enum kind { ALWAYS, OWN_ONLY, TABLE_ONLY, CALLS };
static const struct {
    const char *name;
    enum kind kind;
} names[HW_HOOKED_COUNT] = {
#define X(name, kind) {#name, kind},
#include "wire/hooked.def"
#undef X
};

const char *hw_hooked_text(uint32_t name)
{
    return name < HW_HOOKED_COUNT ? names[name].name : "?";
}

struct job {
    const struct hw_plan_in *in;
    struct hw_plan *out;
    struct hw_error *err;
    bool with_calls;
    uint64_t entry[HW_HOOKED_COUNT]; /* to be hooked */
    uint64_t hull_lo, hull_hi;
    uint8_t *seen; /* one byte for each byte of text: the last walk that visited it */
    uint8_t walk;
    HW_VEC(uint64_t) todo;
};

static int refuse(const struct job *j, uint32_t name, const char *why)
{
    return hw_fail(j->err, HW_EUNSUPPORTED, 0, "its function %s cannot be hooked: %s",
                   hw_hooked_text(name), why);
}

static struct hw_bytes code_at(const struct hw_plan_in *in, uint64_t at)
{
    uint64_t off = at - in->text_at;
    return off < in->text.n ? (struct hw_bytes){in->text.p + off, in->text.n - off}
                            : (struct hw_bytes){NULL, 0};
}

static bool is_endbr(struct hw_bytes c)
{
    return c.n >= ENDBR_SIZE && memcmp(c.p, ENDBR, ENDBR_SIZE) == 0;
}

/* Where it really leads: a stub of the procedure linkage table jumps through a word. */
static uint64_t through_table(const struct job *j, uint64_t at)
{
    struct hw_x86 x;
    uint64_t to;
    struct hw_bytes c = code_at(j->in, at);
    if (is_endbr(c))
        c = code_at(j->in, at += ENDBR_SIZE);
    if (!hw_x86_decode(c, &x) || x.kind != HW_X86_JUMP_AT || !x.rip_disp_at)
        return at;
    return j->in->word(j->in->arg, at + x.bytes + (uint64_t)(int64_t)x.rip_disp, &to) ? to : at;
}

static uint32_t entry_at(const uint64_t *entries, uint64_t at)
{
    for (uint32_t i = 0; at && i < HW_HOOKED_COUNT; i++)
        if (entries[i] == at)
            return i;
    return HW_HOOKED_COUNT;
}

/* ---- the windows ---- */

static int open_window(struct job *j, uint32_t name)
{
    struct hw_plan_window w = {.lo = j->entry[name], .name = name};
    if (is_endbr(code_at(j->in, w.lo)))
        w.lo += ENDBR_SIZE;
    w.hi = w.lo;
    while (w.hi - w.lo < HW_PLAN_JUMP_BYTES) {
        struct hw_x86 x;
        if (!hw_x86_decode(code_at(j->in, w.hi), &x))
            return refuse(j, name, "an instruction at its beginning is not understood");
        bool jumps = x.kind == HW_X86_JUMP || x.kind == HW_X86_JUMP_AT;
        if (x.kind == HW_X86_CALL || x.kind == HW_X86_CALL_AT || x.kind == HW_X86_LOOP ||
            x.kind == HW_X86_BEGIN)
            return refuse(j, name, "it begins with a call");
        w.old_at[w.n++] = (uint8_t)(w.hi - w.lo);
        w.hi += x.bytes;
        if ((x.kind == HW_X86_END || jumps) && w.hi - w.lo < HW_PLAN_JUMP_BYTES)
            return refuse(j, name, "it is too short");
    }
    struct hw_plan_change c = {.at = w.lo, .n = (uint32_t)(w.hi - w.lo)};
    memcpy(c.before, code_at(j->in, w.lo).p, c.n);
    return hw_vec_push(&j->out->windows, w) < 0 || hw_vec_push(&j->out->changes, c) < 0 ? HW_ENOMEM
                                                                                        : HW_OK;
}

bool hw_plan_covers(const struct hw_plan *p, uint64_t pc)
{
    for (size_t i = 0; i < p->windows.n; i++)
        if (pc > p->windows.v[i].lo && pc < p->windows.v[i].hi)
            return true;
    return false;
}

bool hw_plan_moves(const struct hw_plan *p, uint64_t pc, uint64_t *out)
{
    for (size_t i = 0; i < p->windows.n; i++) {
        const struct hw_plan_window *w = &p->windows.v[i];
        for (uint8_t k = 1; pc > w->lo && pc < w->hi && k < w->n; k++)
            if (pc == w->lo + w->old_at[k]) {
                *out = p->real[w->name] + ENDBR_SIZE + w->new_at[k];
                return true;
            }
    }
    return false;
}

/* ---- following the code ---- */

static int visit(struct job *j, uint64_t at)
{
    uint64_t off = at - j->in->text_at;
    if (off >= j->in->text.n || j->seen[off] == j->walk)
        return HW_OK;
    j->seen[off] = j->walk;
    return hw_vec_push(&j->todo, at) < 0 ? HW_ENOMEM : HW_OK;
}

/* Its target; 0 = it has none, or none that can be known. */
static uint64_t target_of(const struct job *j, uint64_t at, const struct hw_x86 *x)
{
    uint64_t to;
    if (x->rel_bytes)
        return at + x->bytes + (uint64_t)(int64_t)x->rel;
    if ((x->kind == HW_X86_CALL_AT || x->kind == HW_X86_JUMP_AT) && x->rip_disp_at &&
        j->in->word(j->in->arg, at + x->bytes + (uint64_t)(int64_t)x->rip_disp, &to))
        return to;
    return 0;
}

/* Does the function branch to another one of the family? Then it need not be hooked. */
static int passes_on(struct job *j, uint32_t name, bool *out)
{
    uint64_t lo = j->in->entry[name], hi = j->in->end[name];
    j->walk++;
    *out = false;
    int rc = visit(j, lo);
    while (rc == HW_OK && j->todo.n) {
        uint64_t at = j->todo.v[--j->todo.n], to;
        struct hw_x86 x;
        if (!hw_x86_decode(code_at(j->in, at), &x))
            continue;
        to = target_of(j, at, &x);
        uint32_t other = to ? entry_at(j->in->entry, through_table(j, to)) : HW_HOOKED_COUNT;
        if (to && other == HW_HOOKED_COUNT)
            other = entry_at(j->in->entry, to);
        if (other != HW_HOOKED_COUNT && j->in->entry[other] != lo)
            *out = true;
        bool calls = x.kind == HW_X86_CALL || x.kind == HW_X86_CALL_AT;
        if (to >= lo && to < hi && !calls)
            rc = visit(j, to);
        if (rc == HW_OK && x.kind != HW_X86_JUMP && x.kind != HW_X86_JUMP_AT &&
            x.kind != HW_X86_END && at + x.bytes < hi)
            rc = visit(j, at + x.bytes);
    }
    return rc;
}

/* Does it do nothing but jump to another one, as musl's memalign does? */
static bool is_alias(const struct job *j, uint32_t name)
{
    struct hw_x86 x;
    for (uint64_t at = j->in->entry[name]; at < j->in->end[name]; at += x.bytes) {
        if (!hw_x86_decode(code_at(j->in, at), &x))
            return false;
        if (x.kind == HW_X86_PLAIN)
            continue;
        uint64_t to = target_of(j, at, &x);
        return x.kind != HW_X86_IF && to &&
               (entry_at(j->in->entry, to) != HW_HOOKED_COUNT ||
                entry_at(j->in->entry, through_table(j, to)) != HW_HOOKED_COUNT);
    }
    return false;
}

static int add_site(struct job *j, uint64_t at, const struct hw_x86 *x, uint32_t name)
{
    struct hw_plan_change c = {.at = at, .n = x->bytes};
    bool by_word = x->kind == HW_X86_CALL_AT || x->kind == HW_X86_JUMP_AT;
    for (size_t i = 0; i < j->out->windows.n; i++)
        if (at < j->out->windows.v[i].hi && at + x->bytes > j->out->windows.v[i].lo)
            return refuse(j, j->out->windows.v[i].name, "it begins with a branch to another");
    if ((x->rel_bytes != 4 && !by_word) || (by_word && x->bytes != 6))
        return refuse(j, name, "another function of the allocator leads there by a short jump");
    memcpy(c.before, code_at(j->in, at).p, c.n);
    return hw_vec_push(&j->out->changes, c) < 0 || hw_vec_push(&j->out->site_names, name) < 0
               ? HW_ENOMEM
               : HW_OK;
}

static int follow(struct job *j, uint64_t at, const struct hw_x86 *x)
{
    uint64_t to = target_of(j, at, x);
    if (!to)
        return HW_OK;
    uint32_t name = entry_at(j->entry, to);
    if (name == HW_HOOKED_COUNT)
        name = entry_at(j->entry, through_table(j, to));
    if (name != HW_HOOKED_COUNT)
        return add_site(j, at, x, name);
    for (size_t i = 0; i < j->out->windows.n; i++) {
        const struct hw_plan_window *w = &j->out->windows.v[i];
        if (to > w->lo && to < w->hi)
            return refuse(j, w->name, "code of the allocator jumps into its beginning");
        if (to == w->lo && w->lo != j->entry[w->name])
            return refuse(j, w->name, "code of the allocator jumps behind its first instruction");
    }
    return to >= j->hull_lo && to < j->hull_hi ? visit(j, to) : HW_OK;
}

static int walk_all(struct job *j)
{
    int rc = HW_OK;
    j->walk++;
    for (uint32_t i = 0; i < HW_HOOKED_COUNT && rc == HW_OK; i++)
        if (j->entry[i])
            rc = visit(j, j->entry[i]);
    while (rc == HW_OK && j->todo.n) {
        uint64_t at = j->todo.v[--j->todo.n];
        struct hw_x86 x;
        if (!hw_x86_decode(code_at(j->in, at), &x))
            continue;
        rc = follow(j, at, &x);
        if (rc == HW_OK && x.kind != HW_X86_JUMP && x.kind != HW_X86_JUMP_AT &&
            x.kind != HW_X86_END)
            rc = visit(j, at + x.bytes);
    }
    return rc;
}

#define SYNC_BYTES 256u

/* A decoder that starts anywhere falls into step with the real instructions after a few. */
static bool is_instruction(const struct job *j, size_t off)
{
    size_t at = off > SYNC_BYTES ? off - SYNC_BYTES : 0;
    while (at < off) {
        struct hw_x86 x;
        int n = hw_x86_decode(code_at(j->in, j->in->text_at + at), &x);
        at += n ? (size_t)n : 1;
    }
    return at == off;
}

/* Four-byte distances from `off` that lead to a window or between two of them, by the low half
 * of the address: one comparison per byte, as the text may be hundreds of megabytes. */
static size_t next_near(const struct job *j, size_t off, uint64_t lo, uint64_t hi)
{
    const uint8_t *p = j->in->text.p;
    uint32_t span = hi - lo < UINT32_MAX ? (uint32_t)(hi - lo) : UINT32_MAX;
    uint32_t from = (uint32_t)(j->in->text_at + 5 - lo);
    for (; off + 5 <= j->in->text.n; off++) {
        uint32_t rel;
        memcpy(&rel, p + off + 1, sizeof rel);
        if ((uint32_t)(from + (uint32_t)off + rel) < span)
            break;
    }
    return off;
}

/* Bytes that could be a four-byte branch into a window, wherever they are. */
static int scan_all(struct job *j)
{
    const uint8_t *p = j->in->text.p;
    uint64_t lo = UINT64_MAX, hi = 0;
    for (size_t k = 0; k < j->out->windows.n; k++) {
        lo = j->out->windows.v[k].lo < lo ? j->out->windows.v[k].lo : lo;
        hi = j->out->windows.v[k].hi > hi ? j->out->windows.v[k].hi : hi;
    }
    for (size_t i = 0; lo < hi; i++) {
        i = next_near(j, i, lo, hi);
        if (i + 5 > j->in->text.n)
            break;
        bool is_if = (p[i] & 0xf0) == 0x80 && i > 0 && p[i - 1] == 0x0f;
        if (p[i] != 0xe8 && p[i] != 0xe9 && !is_if)
            continue;
        int32_t rel;
        memcpy(&rel, p + i + 1, sizeof rel);
        uint64_t to = j->in->text_at + i + 5 + (uint64_t)(int64_t)rel;
        for (size_t k = 0; k < j->out->windows.n; k++)
            if (to > j->out->windows.v[k].lo && to < j->out->windows.v[k].hi &&
                is_instruction(j, i - is_if))
                return refuse(j, j->out->windows.v[k].name, "code jumps into its beginning");
    }
    return HW_OK;
}

/* ---- which functions ---- */

static bool is_core(uint32_t i)
{
    return names[i].kind == ALWAYS && i != HW_HOOKED_reallocarray;
}

static int choose(struct job *j)
{
    for (uint32_t i = 0; i < HW_HOOKED_COUNT; i++) {
        bool passes = false;
        uint64_t at = j->in->entry[i];
        if (!at || names[i].kind == TABLE_ONLY || (names[i].kind == CALLS && !j->with_calls) ||
            entry_at(j->entry, at) != HW_HOOKED_COUNT)
            continue; /* several names of one function: it is hooked once */
        if (names[i].kind == CALLS) {
            passes = false;
        } else if (!is_core(i)) {
            int rc = passes_on(j, i, &passes);
            if (rc < 0)
                return rc;
        } else {
            passes = is_alias(j, i);
        }
        if (passes)
            continue;
        j->entry[i] = at;
        if (is_core(i)) {
            j->hull_lo = at < j->hull_lo ? at : j->hull_lo;
            j->hull_hi = j->in->end[i] > j->hull_hi ? j->in->end[i] : j->hull_hi;
        }
    }
    static const uint32_t needed[] = {HW_HOOKED_malloc, HW_HOOKED_free, HW_HOOKED_realloc};
    for (size_t i = 0; i < HW_ARRAY_LEN(needed); i++)
        if (!j->entry[needed[i]])
            return hw_fail(j->err, HW_EUNSUPPORTED, 0,
                           "there is no function %s in it, and malloc, free and realloc are hooked "
                           "together or not at all",
                           hw_hooked_text(needed[i]));
    return HW_OK;
}

static int make(const struct hw_plan_in *in, bool with_calls, struct hw_plan *out,
                struct hw_error *err)
{
    struct job j = {
        .in = in, .out = out, .err = err, .with_calls = with_calls, .hull_lo = UINT64_MAX};
    *out = (struct hw_plan){0};
    j.seen = calloc(1, in->text.n + 1);
    int rc = j.seen ? choose(&j) : hw_fail(err, HW_ENOMEM, 0, "code of %zu bytes", in->text.n);
    for (uint32_t i = 0; i < HW_HOOKED_COUNT && rc == HW_OK; i++)
        if (j.entry[i])
            rc = open_window(&j, i);
    if (rc == HW_OK)
        rc = walk_all(&j);
    if (rc == HW_OK)
        rc = scan_all(&j);
    for (size_t i = 0; i < out->windows.n && rc == HW_OK; i++)
        for (size_t k = 0; k < out->windows.n && rc == HW_OK; k++)
            if (i != k && out->windows.v[i].lo < out->windows.v[k].hi &&
                out->windows.v[k].lo < out->windows.v[i].hi)
                rc = refuse(&j, out->windows.v[i].name, "it is too short");
    free(j.seen);
    hw_vec_done(&j.todo);
    if (rc < 0)
        hw_plan_done(out);
    return rc;
}

/* Without these calls the client only notices later that the program enters a sandbox
 * (client/hooks/sandbox.c). */
int hw_plan_make(const struct hw_plan_in *in, struct hw_plan *out, struct hw_error *err)
{
    int rc = make(in, /* with_calls = */ true, out, NULL);
    return rc == HW_OK ? rc : make(in, /* with_calls = */ false, out, err);
}

void hw_plan_done(struct hw_plan *p)
{
    hw_vec_done(&p->windows);
    hw_vec_done(&p->changes);
    hw_vec_done(&p->site_names);
}

/* ---- what the change becomes ---- */

struct writer {
    uint8_t *p;
    uint64_t at; /* of p[0] */
    size_t n;
    bool too_far;
};

static void put(struct writer *w, const void *p, size_t n)
{
    memcpy(w->p + w->n, p, n);
    w->n += n;
}

static void put_distance(struct writer *w, uint64_t to)
{
    int64_t d = (int64_t)(to - (w->at + w->n + 4));
    int32_t rel = (int32_t)d;
    w->too_far |= d != rel;
    put(w, &rel, sizeof rel);
}

static void put_jump(struct writer *w, uint64_t to)
{
    put(w, "\xe9", 1);
    put_distance(w, to);
}

/* Moves one instruction to another address. */
static void put_moved(struct writer *w, const uint8_t *p, const struct hw_x86 *x, uint64_t from)
{
    uint64_t next = from + x->bytes;
    if (x->kind == HW_X86_JUMP && x->rel_bytes) {
        put_jump(w, next + (uint64_t)(int64_t)x->rel);
    } else if (x->kind == HW_X86_IF) {
        uint8_t op[2] = {0x0f, (uint8_t)(0x80 | (x->opcode & 0xf))};
        put(w, op, 2);
        put_distance(w, next + (uint64_t)(int64_t)x->rel);
    } else {
        size_t at = w->n;
        put(w, p, x->bytes);
        if (x->rip_disp_at) {
            int64_t d = (int64_t)(next + (uint64_t)(int64_t)x->rip_disp - (w->at + w->n));
            int32_t rel = (int32_t)d;
            w->too_far |= d != rel;
            memcpy(w->p + at + x->rip_disp_at, &rel, sizeof rel);
        }
    }
}

static bool place_window(const struct hw_plan_in *in, struct hw_plan *p, size_t i, uint64_t hook)
{
    struct hw_plan_window *w = &p->windows.v[i];
    struct hw_plan_change *c = &p->changes.v[i];
    uint64_t slot = p->near_at + i * SLOT_BYTES;
    struct writer s = {.p = p->near + i * SLOT_BYTES, .at = slot};
    struct hw_x86 x = {0};
    put(&s, "\xff\x25\x02\x00\x00\x00\xcc\xcc", 8);
    put(&s, &hook, sizeof hook);
    put(&s, ENDBR, ENDBR_SIZE);
    uint64_t from = w->lo;
    for (uint8_t k = 0; k < w->n; k++) {
        struct hw_bytes code = code_at(in, from);
        (void)hw_x86_decode(code, &x); /* it could be decoded before */
        w->new_at[k] = (uint8_t)(s.n - COPY_AT - ENDBR_SIZE);
        put_moved(&s, code.p, &x, from);
        from += x.bytes;
    }
    if (x.kind != HW_X86_JUMP && x.kind != HW_X86_JUMP_AT && x.kind != HW_X86_END)
        put_jump(&s, w->hi);
    p->real[w->name] = slot + COPY_AT;
    struct writer e = {.p = c->after, .at = c->at};
    put_jump(&e, slot);
    memset(c->after + e.n, 0x90, c->n - e.n);
    return !s.too_far && !e.too_far;
}

static bool place_site(const struct hw_plan *p, struct hw_plan_change *c, uint64_t to)
{
    struct writer e = {.p = c->after, .at = c->at};
    (void)p;
    if (c->before[0] == 0xff && c->before[1] == 0x15) {
        put(&e, "\x67\xe8", 2); /* a call of the same length */
        put_distance(&e, to);
    } else if (c->before[0] == 0xff) {
        put_jump(&e, to);
        put(&e, "\x90", 1);
    } else {
        put(&e, c->before, c->n - 4);
        put_distance(&e, to);
    }
    return !e.too_far;
}

int hw_plan_place(const struct hw_plan_in *in, struct hw_plan *p, uint64_t near_at,
                  const uint64_t hooks[HW_HOOKED_COUNT], struct hw_error *err)
{
    bool ok = true;
    p->near_at = near_at;
    memset(p->near, 0xcc, sizeof p->near);
    for (size_t i = 0; i < p->windows.n; i++)
        ok &=
            hooks[p->windows.v[i].name] != 0 && place_window(in, p, i, hooks[p->windows.v[i].name]);
    for (size_t i = p->windows.n; i < p->changes.n; i++)
        ok &= place_site(p, &p->changes.v[i], p->real[p->site_names.v[i - p->windows.n]]);
    return ok ? HW_OK
              : hw_fail(err, HW_EUNSUPPORTED, 0,
                        "there is no free memory within 2 GiB of its allocator's code, where the "
                        "hooks have to be");
}
