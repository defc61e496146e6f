/*
 * python.c - the chain of interpreter frames, cut where each evaluation in C began
 *
 *      native stack (leaf first)            frames of the thread (innermost first)
 *      malloc's caller
 *      _PyEval_EvalFrameDefault   <-------   inner, middle (began with this evaluation)
 *      some C function
 *      _PyEval_EvalFrameDefault   <-------   outer, <module>
 *      main
 *
 * Since 3.11 calls from Python to Python stay in one evaluation, so there are fewer of those than
 * frames; before, each frame has its own. The two sides are joined only if they have the same number of evaluations: what does not
 * fit (a subinterpreter's other state on this thread, code that switches stacks) stays as it is.
 *
 * The thread's state is the value of the interpreter's own pthread key. The frames behind it are
 * this thread's: nobody else changes them while it is in here, with or without the interpreter's
 * lock. Two exceptions. When the interpreter ends, it frees the states of threads that still run,
 * so nothing is read once it finalizes. And an interpreter whose fields lie elsewhere, although it
 * says it is of a version that we know (changed by its vendor): so the first walks ask the kernel
 * about each address (rt_sigprocmask, 0.12 us) and compare the type of each code object; a program
 * in which that fails is left alone.
 */
#include "client/sample/python.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "client/client.h"
#include "client/sample/live_set.h"

#if UINTPTR_MAX == UINT64_MAX && !defined(HW_BARE)

#include "client/sample/python_text.h"

#define NAME_AT   24u /* of types: the text's address */
#define GENERATOR 1u  /* owners of frames */
#define ON_STACK  3u

static struct hw_chain_proof proof;
static _Atomic uint64_t
    type_name; /* where that interpreter's type of code objects keeps its name */

/* Of all that decides what is shown of a code object. From 3.12 on, code objects are numbered, too. */
static uint64_t print_of(struct chain_reader *k, uint64_t code, const struct hw_chain_call *c)
{
    const struct layout *l = k->l;
    uint64_t number = l->version == HW_PYTHON_NONE ? 0 : u32_at(k, code + l->version);
    uint64_t h = digest_string(k, c->file) + digest_string(k, c->name) * HASH_2;
    return mix(h, digest_lines(k, c->lines) ^ (number << 32 | u32_at(k, code + l->first_line)));
}

/*
 * Is this still the code object of then? Its memory, and that of its strings, may be another one's a moment later, and
 * nothing that a frame holds proves that it was not left and entered again meanwhile. So all of it is compared, unless
 * nothing was allocated since it was compared for the last sample, and it lies in a block of malloc's.
 */
ALWAYS_INLINE bool is_same(struct hw_chain *p, struct chain_reader *k, const struct layout *l,
                           bool careful, struct hw_chain_call *c, uint64_t code, uint64_t instr)
{
    if (c->instr != instr || c->code != code)
        return false;
    uint64_t trusted = c->walk & HW_PYTHON_TRUSTED;
    if (p->walk - (c->walk - trusted) > trusted * HW_PYTHON_NEXT &&
        (fast_at(k, careful, code + l->file) != c->file ||
         fast_at(k, careful, code + l->qualname) != c->name ||
         fast_at(k, careful, code + l->lines) != c->lines || print_of(k, code, c) != c->print))
        return false;
    c->walk = p->walk | trusted;
    return true;
}

/* A place in code that is not remembered, or is another code object's now. 0 = the frame is not shown. */
static HW_COLD uint64_t new_call(struct hw_client_session *s, struct hw_chain *p,
                                 struct chain_reader *k, uint64_t code, uint64_t instr,
                                 bool suspends, struct hw_chain_call *c)
{
    const struct layout *l = k->l;
    if (!is_address(code) || word_at(k, code + TYPE_AT) != k->code_type) {
        k->bad = true;
        return 0;
    }
    /* Not begun yet: tracebacks do not show such frames either. Older ones do. */
    int64_t at = is_old(l) ? (int64_t)(instr - code) : (int64_t)(instr - code - l->bytecode) / 2;
    bool begun = is_old(l) || at >= (int32_t)u32_at(k, code + l->first_traceable);
    if (!begun && !suspends)
        return 0;
    struct hw_chain_call call = {.code = code,
                                 .instr = instr,
                                 .file = word_at(k, code + l->file),
                                 .name = word_at(k, code + l->qualname),
                                 .lines = word_at(k, code + l->lines),
                                 .walk = p->walk};
    k->bad |= !call.file || !call.name || !call.lines;
    if (k->bad)
        return 0;
    if (hw_live_set_has(HW_HEAP_ID_LIBC, code, s->tag))
        call.walk |= HW_PYTHON_TRUSTED;
    call.print = print_of(k, code, &call);
    uint32_t line = line_of(k, code, at);
    struct text function = text_of(k, call.name, p->function);
    struct text file = text_of(k, call.file, p->file);
    if (k->bad)
        return 0;
    struct heapwise_managed_text t = {.function = function.p,
                                      .n_function = function.n,
                                      .file = file.p,
                                      .n_file = file.n,
                                      .line = line};
    if (hw_chain_name(s, HW_MANAGED_PYTHON, &t, &call.id) && begun) {
        c[1] = c[0];
        c[0] = call;
    }
    return call.id;
}

ALWAYS_INLINE uint64_t id_of(struct hw_client_session *s, struct hw_chain *p,
                             struct chain_reader *k, const struct layout *l, bool careful,
                             uint64_t frame, bool suspends)
{
    uint64_t code = fast_at(k, careful, frame + l->code);
    uint64_t instr = fast_at(k, careful, frame + l->instr);
    if (is_old(l))
        instr = code + (uint64_t)(int64_t)(int32_t)instr;
    if (hw_unlikely(code < HW_CHAIN_NULL_BYTES)) {
        k->bad = true;
        return 0;
    }
    struct hw_chain_call *c = hw_chain_pair(p, instr);
    if (hw_likely(is_same(p, k, l, careful, &c[0], code, instr)))
        return c[0].id;
    if (hw_likely(is_same(p, k, l, careful, &c[1], code, instr)))
        return c[1].id;
    return new_call(s, p, k, code, instr, suspends, c);
}

/* ---- the chain ---- */

/* False: deeper than there is room. */
ALWAYS_INLINE bool walk_as(struct hw_client_session *s, struct hw_chain *p, struct chain_reader *k,
                           const struct layout *l, bool careful, uint64_t state)
{
    uint64_t in = l->cframe == HW_PYTHON_NONE ? state : fast_at(k, careful, state + l->cframe);
    uint64_t frame = in ? fast_at(k, careful, in + l->current) : 0;
    p->n_ids = p->n_parts = 0;
    for (uint32_t i = 0; frame && hw_likely(!k->bad); i++) {
        if (hw_unlikely(p->n_ids == HW_MAX_FRAMES || p->n_parts == HW_MAX_FRAMES ||
                        i == 2 * HW_MAX_FRAMES))
            return false;
        if (hw_unlikely(!is_address(frame)))
            break;
        uint64_t bytes = is_old(l) ? 0 : fast_at(k, careful, frame + (l->owner & ~7u));
        uint32_t owner = bytes >> l->owner % 8 * 8 & 0xff; /* is_entry is in the same word */
        bool marks = l->is_entry == HW_PYTHON_NONE && owner == ON_STACK;
        uint64_t id = marks ? 0 : id_of(s, p, k, l, careful, frame, owner == GENERATOR);
        if (hw_likely(id != 0))
            p->ids[p->n_ids++] = id;
        if (marks || is_old(l) ||
            (l->is_entry != HW_PYTHON_NONE && (bytes >> l->is_entry % 8 * 8 & 0xff)))
            end_part(p);
        frame = fast_at(k, careful, frame + l->previous);
    }
    k->bad |= frame != 0;
    return true;
}

static HW_COLD bool walk_carefully(struct hw_client_session *s, struct hw_chain *p,
                                   struct chain_reader *k, uint64_t state)
{
    return walk_as(s, p, k, k->l, /* careful = */ true, state);
}

static bool walk_old(struct hw_client_session *s, struct hw_chain *p, struct chain_reader *k,
                     uint64_t state)
{
    return walk_as(s, p, k, k->l, /* careful = */ false, state);
}

/* Of each version in use once more, for which the compiler knows where everything lies. */
#define WALK(version, i)                                                                           \
    static bool walk_##version(struct hw_client_session *s, struct hw_chain *p,                    \
                               struct chain_reader *k, uint64_t state)                             \
    {                                                                                              \
        return walk_as(s, p, k, &layouts[i], /* careful = */ false, state);                        \
    }
WALK(11, N_OLD)
WALK(12, N_OLD + 1)
WALK(13, N_OLD + 2)
_Static_assert(sizeof layouts / sizeof *layouts == N_OLD + 3, "each has its own");

static bool walk(struct hw_client_session *s, struct hw_chain *p, struct chain_reader *k,
                 uint64_t state)
{
    if (hw_unlikely(k->careful))
        return walk_carefully(s, p, k, state);
    if (is_old(k->l))
        return walk_old(s, p, k, state);
    if (k->l->minor == 11)
        return walk_11(s, p, k, state);
    return k->l->minor == 12 ? walk_12(s, p, k, state) : walk_13(s, p, k, state);
}

/* ---- is the last sample the last allocation? ---- */

static _Atomic(const struct hw_chain *) last_sampled;

void hw_python_sampled(struct hw_chain *p)
{
    bool other = atomic_load_explicit(&last_sampled, memory_order_relaxed) != p;
    if (other)
        atomic_store_explicit(&last_sampled, p, memory_order_relaxed);
    if (!p)
        return;
    p->is_next = !other && hw_here.interval == 1;
    p->n_samples++;
}

/* Was nothing allocated between the walk before and the allocation that is sampled now? */
static bool is_next(struct hw_chain *p)
{
    bool next = p->is_next && p->n_samples == p->walked + 1;
    p->walked = p->n_samples;
    return next;
}

/* ---- the thread's state ---- */

static const struct layout *layout_of(uint32_t minor)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].minor == minor)
            return &layouts[i];
    return NULL;
}

static uint64_t state_of(struct chain_reader *k, uint64_t runtime)
{
    uint64_t key = word_at(k, runtime + k->l->tss); /* initialized, then the key */
    if (word_at(k, runtime + k->l->finalizing) || (uint32_t)key == 0 || k->bad)
        return 0;
    return (uint64_t)(uintptr_t)pthread_getspecific((pthread_key_t)(key >> 32));
}

static bool begin_chain(struct chain_reader *k, uint64_t eval)
{
    if (atomic_load_explicit(&proof.eval, memory_order_relaxed) != eval)
        atomic_store_explicit(&type_name, 0, memory_order_relaxed);
    return hw_chain_begin_proof(&proof, k, eval);
}

static struct hw_evals evals_of(const struct hw_python_place *at)
{
    uint64_t lo = atomic_load_explicit(&at->eval_lo, memory_order_relaxed);
    uint64_t cold_lo = atomic_load_explicit(&at->cold_lo, memory_order_relaxed);
    return (struct hw_evals){
        .lo = lo,
        .n_bytes = atomic_load_explicit(&at->eval_hi, memory_order_relaxed) - lo,
        .cold_lo = cold_lo,
        .n_cold = atomic_load_explicit(&at->cold_hi, memory_order_relaxed) - cold_lo};
}

/*
 * A host may have unloaded it, and something else may lie where its code was: then what the
 * recorder said about it is invalid. Checked for new stacks.
 */
static HW_COLD bool is_still_there(const struct hw_python_place *at)
{
    uint64_t type = atomic_load_explicit(&at->code_type, memory_order_relaxed), none = 0;
    if (hw_sandbox())
        return true; /* the kernel cannot be asked */
    if (!hw_sys_readable(atomic_load_explicit(&at->runtime, memory_order_relaxed)) ||
        !hw_sys_readable(type + NAME_AT))
        return false;
    uint64_t name = *(const volatile uint64_t *)(uintptr_t)(type + NAME_AT);
    return atomic_compare_exchange_strong(&type_name, &none, name) || none == name;
}

static bool is_greenlets(uint64_t pc)
{
    uint64_t hi = atomic_load_explicit(&hw_control.greenlet.hi, memory_order_acquire);
    uint64_t lo = atomic_load_explicit(&hw_control.greenlet.lo, memory_order_relaxed);
    return pc - 1 - lo < hi - lo;
}

/*
 * A native stack's evaluations; its id identifies its shape. An evaluation that a signal's handler interrupted may be halfway
 * between two frames: such a stack has none. A greenlet begins in its module's code: what is below is the stack of whoever
 * started it, or what has become of it meanwhile.
 */
static struct hw_chain_native count(const struct hw_evals *e, const struct hw_walk_out *o)
{
    struct hw_chain_native n = {.stack_id = o->stack_id};
    for (uint32_t i = 0; i < o->n_frames; i++) {
        if (!hw_evals_have(e, o->pcs[i])) {
            if (n.n_own == 0 && n.n_evals != 0 && is_greenlets(o->pcs[i])) {
                n.n_own = n.n_evals;
                n.n_frames = (uint16_t)(i + 1);
            }
            continue;
        }
        if (o->exact[i / 64] >> i % 64 & 1)
            return (struct hw_chain_native){.stack_id = o->stack_id};
        n.n_evals++;
    }
    return n;
}

/* Without any: there is nothing to read. */
static struct hw_chain_native find_evals(struct hw_chain *p, const struct hw_evals *e,
                                         const struct hw_walk_out *o)
{
    const struct hw_chain_native *known = hw_chain_find_native(p, o->stack_id);
    if (hw_likely(known != NULL))
        return *known;
    struct hw_chain_native n = count(e, o);
    if (n.n_evals && !is_still_there(&hw_control.python))
        return (struct hw_chain_native){0};
    struct hw_chain_native *pair = p->natives[o->stack_id % HW_CHAIN_NATIVES];
    pair[1] = pair[0];
    pair[0] = n;
    return n;
}

void hw_python_insert(const struct hw_chain *p, struct hw_mixed_stack *m)
{
    struct hw_evals e = evals_of(&hw_control.python);
    hw_evals_replace(&e, p, m);
}

static void begin_session(struct hw_client_session *s, struct hw_chain *p)
{
    if (p->generation == s->generation)
        return;
    memset(p->calls, 0, sizeof p->calls);
    memset(p->natives, 0, sizeof p->natives);
    p->generation = s->generation;
}

static struct chain_reader reader_of(const struct hw_python_place *at)
{
    return (struct chain_reader){
        .l = layout_of(atomic_load_explicit(&at->minor, memory_order_relaxed)),
        .code_type = atomic_load_explicit(&at->code_type, memory_order_relaxed)};
}

uint64_t hw_python_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                               struct hw_chain *p)
{
    const struct hw_python_place *at = &hw_control.python;
    struct chain_reader k = reader_of(at);
    struct hw_evals e = evals_of(at);
    begin_session(s, p);
    if (!k.l || !begin_chain(&k, e.lo))
        return 0;
    struct hw_chain_native n = find_evals(p, &e, o);
    p->n_evals = n.n_evals;
    p->n_frames = 0;
    if (p->n_evals == 0)
        return 0;
    uint64_t state = state_of(&k, atomic_load_explicit(&at->runtime, memory_order_relaxed));
    if (state == 0)
        return 0;
    p->walk += is_next(p) ? HW_PYTHON_NEXT : 2 * HW_PYTHON_NEXT;
    bool all = walk(s, p, &k, state);
    if (hw_unlikely(n.n_own != 0) && all &&
        p->n_parts == n.n_own) { /* the chain ends where the greenlet does */
        p->n_evals = n.n_own;
        p->n_frames = n.n_frames;
    }
    return hw_chain_end(s, p, o, &k, &proof, true, all);
}

/* Is this thread inside an evaluation? Then its state is its own, and lives. */
static bool has_eval(const struct hw_evals *e, uint64_t sp, uint64_t hi)
{
    for (uint64_t at = sp; at + 8 <= hi; at += 8)
        if (hw_evals_have(e, *(const volatile uint64_t *)(uintptr_t)at))
            return true;
    return false;
}

HW_COLD bool hw_python_read_chain(struct hw_client_session *s, struct hw_chain *p, uint64_t sp,
                                  uint64_t hi, struct hw_copy_chain *out)
{
    const struct hw_python_place *at = &hw_control.python;
    struct chain_reader k = reader_of(at);
    struct hw_evals e = evals_of(at);
    begin_session(s, p);
    if (!k.l || !has_eval(&e, sp, hi) || !begin_chain(&k, e.lo) || !is_still_there(at))
        return false;
    uint64_t state = state_of(&k, atomic_load_explicit(&at->runtime, memory_order_relaxed));
    if (state == 0)
        return false;
    p->walk += 2 * HW_PYTHON_NEXT;
    bool all = walk(s, p, &k, state);
    if (!all && p->n_parts < HW_MAX_FRAMES)
        end_part(p); /* the part that was cut */
    atomic_fetch_add_explicit(k.bad ? &proof.n_bad : &proof.n_good, k.bad || k.careful,
                              memory_order_relaxed);
    *out = (struct hw_copy_chain){.eval_lo = e.lo,
                                  .eval_bytes = e.n_bytes,
                                  .cold_lo = e.cold_lo,
                                  .cold_bytes = e.n_cold,
                                  .n_ids = p->n_ids,
                                  .n_parts = p->n_parts,
                                  .is_cut = !all};
    return !k.bad && p->n_ids != 0;
}

#else

void hw_python_sampled(struct hw_chain *p)
{
    (void)p;
}

uint64_t hw_python_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                               struct hw_chain *p)
{
    (void)s, (void)o, (void)p;
    return 0;
}

bool hw_python_read_chain(struct hw_client_session *s, struct hw_chain *p, uint64_t sp, uint64_t hi,
                          struct hw_copy_chain *out)
{
    (void)s, (void)p, (void)sp, (void)hi, (void)out;
    return false;
}

void hw_python_insert(const struct hw_chain *p, struct hw_mixed_stack *m)
{
    (void)p, (void)m;
}

#endif
