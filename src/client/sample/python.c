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
 * frames. The two sides are joined only if they have the same number of evaluations: what does not
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
#include "client/kernel/sys.h"
#include "client/ring/push.h"

#if UINTPTR_MAX == UINT64_MAX && !defined(HW_BARE)

#include "wire/python.def"

#define PROOF        64u /* walks in which every address is checked */
#define MAX_FAILURES 64u
#define MAX_LINES    (1u << 22) /* bytes of a table of lines */

/* Objects: reference count, type; then what each kind has. */
#define TYPE_AT   8u
#define SIZE_AT   16u /* of strings: characters; of bytes */
#define HASH_AT   24u
#define STATE_AT  32u
#define BYTES_AT  32u
#define NAME_AT   24u /* of types: the text's address */
#define GENERATOR 1u  /* owners of frames */
#define ON_STACK  3u

#define STATE_COMPACT 0x20u
#define STATE_ASCII   0x40u
#define STATE_KIND(s) ((s) >> 2 & 7u)

struct layout {
    uint32_t minor;
    uint16_t finalizing, tss, cframe, current, code, previous, instr, owner, is_entry, first_line,
        file, name, qualname, lines, first_traceable, bytecode, ascii, compact;
};

static const struct layout layouts[] = {
#define ROW(...) {__VA_ARGS__},
    HW_PYTHONS(ROW)
#undef ROW
};

static struct {
    _Atomic uint64_t eval;      /* the interpreter that the other words describe */
    _Atomic uint64_t type_name; /* where its type of code objects keeps its name */
    _Atomic uint32_t n_good, n_bad;
} proof;

/* ---- loads ---- */

struct chain_reader {
    const struct layout *l;
    uint64_t code_type;
    bool careful, bad;
};

static HW_COLD bool may_load(struct chain_reader *k, uint64_t at)
{
    if (k->bad || at < 4096 || at >> 47 || at % 8 || (k->careful && !hw_sys_readable(at)))
        k->bad = true;
    return !k->bad;
}

/* Once the layout is verified, an address that is not null is valid. */
static inline uint64_t word_at(struct chain_reader *k, uint64_t at)
{
    if ((hw_unlikely(k->careful) || hw_unlikely(at < 4096)) && !may_load(k, at))
        return 0;
    return *(const volatile uint64_t *)(uintptr_t)at;
}

static inline uint32_t u32_at(struct chain_reader *k, uint64_t at)
{
    return (uint32_t)(word_at(k, at & ~7ull) >> (at & 4 ? 32 : 0));
}

static inline uint32_t byte_at(struct chain_reader *k, uint64_t at)
{
    return (uint32_t)(word_at(k, at & ~7ull) >> at % 8 * 8 & 0xff);
}

/* The bytes [at, at + n), n > 0 and small. */
static bool may_read(struct chain_reader *k, uint64_t at, uint64_t n)
{
    for (uint64_t p = at & ~7ull; k->careful && p < at + n && !k->bad; p += 4096 - p % 4096)
        (void)may_load(k, p);
    return may_load(k, (at + n - 1) & ~7ull);
}

/* ---- names ---- */

struct text {
    const char *p;
    size_t n;
};

static char *utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xf0 | (c >> 18 & 7));
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

/* A string object's text; out has HW_NAME_MAX_BYTES + 8 for one that is not ASCII. */
static struct text text_of(struct chain_reader *k, uint64_t string, char *out)
{
    uint64_t n = word_at(k, string + SIZE_AT);
    uint32_t state = u32_at(k, string + STATE_AT), kind = STATE_KIND(state);
    struct text none = {NULL, 0};
    if (k->bad || !(state & STATE_COMPACT) || n == 0 || n >> 32 ||
        (kind != 1 && kind != 2 && kind != 4))
        return none;
    if (n > HW_NAME_MAX_BYTES)
        n = HW_NAME_MAX_BYTES;
    uint64_t at = string + (state & STATE_ASCII ? k->l->ascii : k->l->compact);
    if (!may_read(k, at, n * kind))
        return none;
    if (state & STATE_ASCII)
        return (struct text){(const char *)(uintptr_t)at, n};
    char *end = out;
    for (uint64_t i = 0; i < n && end < out + HW_NAME_MAX_BYTES; i++) {
        const char *p = (const char *)(uintptr_t)(at + i * kind);
        uint32_t c = 0;
        memcpy(&c, p, kind); /* little endian */
        end = utf8(end, c);
    }
    return (struct text){out, (size_t)(end - out)};
}

static const uint8_t *skip_varint(const uint8_t *p, const uint8_t *end, uint32_t *out)
{
    uint32_t v = 0, shift = 0;
    for (; p < end && !(*p & 0x80); shift += 6) {
        uint8_t b = *p++;
        if (shift < 30)
            v |= (uint32_t)(b & 0x3f) << shift;
        if (!(b & 0x40))
            break;
    }
    *out = v;
    return p;
}

/*
 * The table of locations of 3.11 and later: each entry begins with 1ccccnnn, n + 1 units long; the
 * line moves by a signed varint (c 13, 14), by c - 10 (10 to 12), or not; 15 has no line.
 */
static uint32_t line_of(struct chain_reader *k, uint64_t code, int64_t at)
{
    uint64_t lines = word_at(k, code + k->l->lines), n = word_at(k, lines + SIZE_AT);
    int64_t line = (int32_t)u32_at(k, code + k->l->first_line), unit = 0;
    if (k->bad || at < 0 || n == 0 || n > MAX_LINES || !may_read(k, lines + BYTES_AT, n))
        return line > 0 ? (uint32_t)line : 0;
    const uint8_t *p = (const uint8_t *)(uintptr_t)(lines + BYTES_AT), *end = p + n;
    while (p < end) {
        uint32_t c = *p >> 3 & 15, v = 0;
        unit += (*p++ & 7) + 1;
        if (c == 13 || c == 14) {
            p = skip_varint(p, end, &v);
            line += v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
        } else if (c >= 10 && c <= 12) {
            line += c - 10;
        }
        if (at < unit)
            return c == 15 || line < 0 || line > INT32_MAX ? 0 : (uint32_t)line;
        while (p < end && !(*p & 0x80))
            p++;
    }
    return 0;
}

static inline uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/*
 * What a code object looks like: its address, name and file may be another one's a moment later,
 * but hardly with the same lengths, hashes and size of the line table.
 */
static inline uint64_t print_of(struct chain_reader *k, uint64_t code)
{
    const struct layout *l = k->l;
    uint64_t name = word_at(k, code + l->qualname), file = word_at(k, code + l->file);
    uint64_t lines = word_at(k, code + l->lines), plain = word_at(k, code + l->name);
    uint64_t sizes = word_at(k, name + SIZE_AT) << 40 ^ word_at(k, file + SIZE_AT) << 20 ^
                     word_at(k, lines + SIZE_AT);
    uint64_t hashes = word_at(k, plain + HASH_AT) ^ word_at(k, name + HASH_AT) * 3 ^
                      word_at(k, file + HASH_AT) * 5;
    uint64_t places = name ^ file * 0x9e3779b97f4a7c15u ^ lines * 0xd6e8feb86659fd93u;
    return mix(places ^ sizes, hashes ^ (uint64_t)u32_at(k, code + l->first_line) << 32);
}

static bool send_name(struct hw_client_session *s, struct hw_python *p, struct chain_reader *k,
                      uint64_t code, uint32_t line, uint64_t id)
{
    _Atomic uint64_t *named = &s->named[id % HW_NAMED_SLOTS];
    if (atomic_load_explicit(named, memory_order_relaxed) == id)
        return true;
    struct text f = text_of(k, word_at(k, code + k->l->qualname), p->function);
    struct text file = text_of(k, word_at(k, code + k->l->file), p->file);
    struct heapwise_managed_text t = {
        .function = f.p, .n_function = f.n, .file = file.p, .n_file = file.n, .line = line};
    if (k->bad || !hw_push_name(s, id, &t))
        return false;
    atomic_store_explicit(named, id, memory_order_relaxed);
    return true;
}

static uint64_t id_of(struct hw_client_session *s, struct hw_python *p, struct chain_reader *k,
                      uint64_t code, int64_t at)
{
    uint64_t print = print_of(k, code);
    uint64_t slot = mix(code, (uint64_t)at) >> 8;
    struct hw_python_call *c = &p->calls[slot % HW_PYTHON_CALLS];
    if (hw_likely(c->code == code && c->at == at && c->print == print))
        return c->id;
    uint32_t line = line_of(k, code, at);
    uint64_t id = hw_managed_id(HW_MANAGED_PYTHON, mix(mix(print, code), line));
    if (!k->bad && send_name(s, p, k, code, line, id))
        *c = (struct hw_python_call){code, print, id, at};
    return id;
}

/* ---- the chain ---- */

static void end_part(struct hw_python *p)
{
    p->ends[p->n_parts++] = (uint16_t)p->n_ids;
}

static void add_frame(struct hw_client_session *s, struct hw_python *p, struct chain_reader *k,
                      uint64_t frame, uint32_t owner)
{
    const struct layout *l = k->l;
    uint64_t code = word_at(k, frame + l->code);
    if (code >> 47 || code % 8 || word_at(k, code + TYPE_AT) != k->code_type)
        k->bad = true;
    if (k->bad)
        return;
    int64_t at = (int64_t)(word_at(k, frame + l->instr) - code - l->bytecode) / 2;
    /* Not begun yet: tracebacks do not show such frames either. */
    if (owner != GENERATOR && at < (int32_t)u32_at(k, code + l->first_traceable))
        return;
    p->ids[p->n_ids++] = id_of(s, p, k, code, at);
}

/* False: deeper than there is room. */
static bool walk(struct hw_client_session *s, struct hw_python *p, struct chain_reader *k,
                 uint64_t state)
{
    const struct layout *l = k->l;
    uint64_t in = l->cframe == HW_PYTHON_NONE ? state : word_at(k, state + l->cframe);
    uint64_t frame = word_at(k, in + l->current);
    p->n_ids = p->n_parts = 0;
    for (uint32_t i = 0; frame && !k->bad; i++) {
        if (p->n_ids == HW_MAX_FRAMES || p->n_parts == HW_MAX_FRAMES || i == 2 * HW_MAX_FRAMES)
            return false;
        if (frame >> 47 || frame % 8)
            break;
        uint32_t owner = byte_at(k, frame + l->owner);
        bool marks = l->is_entry == HW_PYTHON_NONE && owner == ON_STACK;
        if (!marks)
            add_frame(s, p, k, frame, owner);
        if (marks || (l->is_entry != HW_PYTHON_NONE && byte_at(k, frame + l->is_entry)))
            end_part(p);
        frame = word_at(k, frame + l->previous);
    }
    k->bad |= frame != 0;
    return true;
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

/* Has it been verified that this interpreter is laid out as we think? */
static bool begin_chain(struct chain_reader *k, uint64_t eval)
{
    if (atomic_load_explicit(&proof.eval, memory_order_relaxed) != eval) {
        atomic_store_explicit(&proof.n_good, 0, memory_order_relaxed);
        atomic_store_explicit(&proof.n_bad, 0, memory_order_relaxed);
        atomic_store_explicit(&proof.type_name, 0, memory_order_relaxed);
        atomic_store_explicit(&proof.eval, eval, memory_order_relaxed);
    }
    uint32_t n_good = atomic_load_explicit(&proof.n_good, memory_order_relaxed);
    k->careful = n_good < PROOF;
    return atomic_load_explicit(&proof.n_bad, memory_order_relaxed) < MAX_FAILURES + n_good &&
           !(k->careful && hw_sandbox());
}

struct evals {
    uint64_t lo, n_bytes, cold_lo, n_cold;
};

static struct evals evals_of(const struct hw_python_place *at)
{
    uint64_t lo = atomic_load_explicit(&at->eval_lo, memory_order_relaxed);
    uint64_t cold_lo = atomic_load_explicit(&at->cold_lo, memory_order_relaxed);
    return (struct evals){lo, atomic_load_explicit(&at->eval_hi, memory_order_relaxed) - lo,
                          cold_lo,
                          atomic_load_explicit(&at->cold_hi, memory_order_relaxed) - cold_lo};
}

static inline bool is_eval(const struct evals *e, uint64_t pc)
{
    return pc - 1 - e->lo < e->n_bytes || pc - 1 - e->cold_lo < e->n_cold;
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
    return atomic_compare_exchange_strong(&proof.type_name, &none, name) || none == name;
}

/* The number of evaluations in a native stack; its id identifies its shape. An evaluation that a
 * signal's handler interrupted may be halfway between two frames: such a stack has none. */
static uint32_t count_evals(struct hw_python *p, const struct evals *e, const struct hw_walk_out *o)
{
    struct hw_python_native *known = &p->natives[o->stack_id % HW_PYTHON_NATIVES];
    if (hw_likely(known->stack_id == o->stack_id))
        return known->n_evals;
    uint32_t n = 0;
    bool interrupted = false;
    for (uint32_t i = 0; i < o->n_frames; i++) {
        bool eval = is_eval(e, o->pcs[i]);
        interrupted |= eval && (o->exact[i / 64] >> i % 64 & 1);
        n += eval;
    }
    if (interrupted)
        n = 0;
    if (n && !is_still_there(&hw_control.python))
        return 0;
    *known = (struct hw_python_native){o->stack_id, n, 0};
    return n;
}

/* From the root on, so that what is yet to be done keeps its place. */
void hw_python_insert(const struct hw_python *p, struct hw_mixed_stack *m)
{
    struct evals e = evals_of(&hw_control.python);
    uint32_t left = p->n_evals;
    for (uint32_t i = m->n_frames; i > 0 && left > 0; i--) {
        if (m->entry[i - 1] != HW_ENTRY_RETURN || !is_eval(&e, m->at[i - 1]))
            continue;
        left--;
        uint32_t first = left ? p->ends[left - 1] : 0;
        if (left < p->n_parts && p->ends[left] > first)
            hw_mixed_splice(m, i - 1, 1, p->ids + first, p->ends[left] - first);
    }
}

/* Of what replaces the evaluations. */
static uint64_t hash_of(const struct hw_python *p)
{
    uint64_t h = p->n_parts;
    for (uint32_t i = 0; i < p->n_ids; i++)
        h = mix(h, p->ids[i]);
    for (uint32_t i = 0; i < p->n_parts; i++)
        h = h * 31 + p->ends[i];
    return h;
}

bool hw_python_knows(const struct hw_client_session *s, const struct hw_python *p,
                     uint64_t stack_id)
{
    return p->generation == s->generation &&
           p->natives[stack_id % HW_PYTHON_NATIVES].stack_id == stack_id;
}

uint64_t hw_python_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                               struct hw_python *p)
{
    const struct hw_python_place *at = &hw_control.python;
    struct chain_reader k = {.l = layout_of(atomic_load_explicit(&at->minor, memory_order_relaxed)),
                             .code_type =
                                 atomic_load_explicit(&at->code_type, memory_order_relaxed)};
    struct evals e = evals_of(at);
    if (p->generation != s->generation) {
        memset(p->calls, 0, sizeof p->calls);
        memset(p->natives, 0, sizeof p->natives);
        p->generation = s->generation;
    }
    if (!k.l || !begin_chain(&k, e.lo))
        return 0;
    p->n_evals = count_evals(p, &e, o);
    if (p->n_evals == 0)
        return 0;
    uint64_t state = state_of(&k, atomic_load_explicit(&at->runtime, memory_order_relaxed));
    if (state == 0)
        return 0;
    bool all = walk(s, p, &k, state);
    if (!all && p->n_parts < p->n_evals)
        end_part(p); /* the part that was cut */
    bool whole = hw_stop_is_complete(o->stop) && all;
    bool fits = whole ? p->n_evals == p->n_parts : !all || p->n_evals <= p->n_parts;
    if (k.bad || !fits) {
        hw_count(s, python_unclear, 1);
        if (k.bad)
            atomic_fetch_add_explicit(&proof.n_bad, 1, memory_order_relaxed);
        return 0;
    }
    if (k.careful)
        atomic_fetch_add_explicit(&proof.n_good, 1, memory_order_relaxed);
    return p->n_ids ? hash_of(p) | 1 : 0;
}

#else

bool hw_python_knows(const struct hw_client_session *s, const struct hw_python *p,
                     uint64_t stack_id)
{
    (void)s, (void)p, (void)stack_id;
    return false;
}

uint64_t hw_python_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                               struct hw_python *p)
{
    (void)s, (void)o, (void)p;
    return 0;
}

void hw_python_insert(const struct hw_python *p, struct hw_mixed_stack *m)
{
    (void)p, (void)m;
}

#endif
