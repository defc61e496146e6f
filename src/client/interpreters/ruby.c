/*
 * ruby.c - the control frames of a thread, cut where each evaluation in C began
 *
 *      native stack (leaf first)            control frames (innermost first)
 *      malloc's caller
 *      vm_exec_core, rb_vm_exec   <-------   inner, block in outer (finish: began with it)
 *      rb_ary_each                           Array#each: a C function's, without instructions
 *      vm_exec_core, rb_vm_exec   <-------   outer, <main> (finish)
 *      main
 *
 * Control frames lie in an array that belongs to the thread's execution context. Which context that
 * is stands in a thread-local variable; its address is found once in each thread, through the
 * loader's table, and every word on the way is checked before it is loaded.
 *
 * What a frame leads to is on Ruby's heap: a sequence of instructions and its strings. The frame
 * holds them, so they are not freed. But compaction moves objects and protects pages meanwhile. So
 * nothing is read while Ruby compacts, nor in a thread that has given up the lock, in which another
 * could begin to at any moment.
 */
#include "client/interpreters/ruby.h"

#include <string.h>

#include "client/client.h"
#include "client/interpreters/chain_reader.h"
#include "client/ring/push.h"

#if defined(__x86_64__) && !defined(HW_BARE)

#include "wire/ruby.def"

#define MAX_STACK_WORDS (1u << 26)
#define MAX_INSNS       (1u << 24)

/* Control frames */
#define PC_AT   0u
#define ISEQ_AT 16u
#define EP_AT   32u /* of the environment: flags */
#define FINISH  0x20u
#define KIND(f) ((f)&0x7fff0001u)
#define DUMMY   0x79990001u /* below all others */

/* Objects: flags, class; then what each kind has. */
#define TYPE(flags)     ((flags)&0x1fu)
#define T_STRING        5u
#define T_ARRAY         7u
#define T_IMEMO         0x1au
#define IMEMO_KIND(f)   ((f) >> 12 & 15u)
#define IMEMO_ISEQ      7u
#define USER_1          0x2000u /* a string is not embedded, an array is */
#define LEN_AT          16u
#define PTR_AT          24u
#define EMBEDDED_AT     16u
#define EMBEDDED_LEN(f) ((f) >> 14 & 0x1fu)
#define BODY_AT         16u
#define ARRAY_PTR_AT    32u

/* Bodies of instruction sequences */
#define N_CODE_AT  4u
#define CODE_AT    8u
#define PATH       0u /* in the location */
#define LABEL      16u
#define FIRST_LINE 24u

struct layout {
    uint32_t version;
    uint16_t cfp, thread, frame, thread_ec, thread_vm, blocking, objspace, location, code_location,
        insns, n_insns, insns_index;
};

static const struct layout layouts[] = {
#define ROW(...) {__VA_ARGS__},
    HW_RUBIES(ROW)
#undef ROW
};

static struct hw_chain_proof proof;

/* ---- names ---- */

static struct text text_of(struct chain_reader *k, uint64_t string)
{
    uint64_t flags = word_at(k, string), at = string + EMBEDDED_AT, n = EMBEDDED_LEN(flags);
    struct text none = {NULL, 0};
    if (TYPE(flags) != T_STRING)
        return none;
    if (flags & USER_1) {
        n = word_at(k, string + LEN_AT);
        at = word_at(k, string + PTR_AT);
    }
    if (n > HW_NAME_MAX_BYTES)
        n = HW_NAME_MAX_BYTES;
    return n && may_read(k, at, n) ? (struct text){(const char *)(uintptr_t)at, n} : none;
}

/* A path, or a path and where it really is. */
static uint64_t path_string(struct chain_reader *k, uint64_t path)
{
    uint64_t flags = word_at(k, path);
    if (TYPE(flags) != T_ARRAY)
        return path;
    return word_at(k, flags & USER_1 ? path + EMBEDDED_AT : word_at(k, path + ARRAY_PTR_AT));
}

/*
 * How many entries of the table of lines begin at or before an instruction. Of the first 54 these
 * numbers are in the index, nine in a word; then come blocks for 512 instructions each: a number up
 * to there, numbers inside of it up to each 64, nine bits each, and a bit for each instruction.
 */
#define DIRECT      54u
#define A_WORD      9u
#define BLOCK       512u
#define BLOCK_BYTES 80u

static uint32_t entries_up_to(struct chain_reader *k, uint64_t index, uint64_t pos)
{
    if (pos < DIRECT)
        return word_at(k, index + pos / A_WORD * 8) >> pos % A_WORD * 7 & 0x7f;
    pos -= DIRECT;
    uint64_t block = index + DIRECT / A_WORD * 8 + pos / BLOCK * BLOCK_BYTES;
    uint64_t part = pos % BLOCK / 64;
    uint64_t before = part ? word_at(k, block + 8) >> (part - 1) * 9 & 0x1ff : 0;
    uint64_t bits = word_at(k, block + 16 + part * 8) << (63 - pos % 64);
    return u32_at(k, block) + (uint32_t)before + (uint32_t)__builtin_popcountll(bits);
}

#define INSN_BYTES 12u /* of an entry: the line is first */

static uint32_t line_of(struct chain_reader *k, uint64_t body, uint64_t pos)
{
    const struct layout *l = k->l;
    uint64_t first = word_at(k, body + l->location + FIRST_LINE) >> 1; /* a small integer */
    uint32_t n = u32_at(k, body + l->n_insns), i = 1;
    if (n > 1)
        i = entries_up_to(k, word_at(k, body + l->insns_index), pos);
    if (k->bad || i == 0 || i > n)
        return first <= INT32_MAX ? (uint32_t)first : 0;
    uint32_t line = u32_at(k, word_at(k, body + l->insns) + (uint64_t)(i - 1) * INSN_BYTES);
    return line <= INT32_MAX ? line : 0;
}

/*
 * What the instructions at a place look like. Their memory may be other ones' a moment later, so
 * this is compared each time: where the code is in its file, how long it is, and its texts.
 */
static uint64_t print_of(struct chain_reader *k, uint64_t body, uint64_t pc)
{
    const struct layout *l = k->l;
    struct text label = text_of(k, word_at(k, body + l->location + LABEL));
    struct text path = text_of(k, path_string(k, word_at(k, body + l->location + PATH)));
    uint64_t code = word_at(k, body + l->code_location);
    code = mix(code, word_at(k, body + l->code_location + 8));
    code = mix(code, u32_at(k, body + l->code_location + 16));
    code = mix(code, (uint64_t)u32_at(k, body + l->n_insns) << 32 | u32_at(k, body + N_CODE_AT));
    return mix(hw_text_digest(&label) ^ pc, hw_text_digest(&path) ^ code);
}

static uint64_t new_place(struct hw_client_session *s, struct hw_chain *p, struct chain_reader *k,
                          const struct hw_chain_place *place)
{
    const struct layout *l = k->l;
    uint64_t pos = (place->instr - word_at(k, place->code + CODE_AT)) / 8;
    struct text label = text_of(k, word_at(k, place->code + l->location + LABEL));
    struct text path = text_of(k, path_string(k, word_at(k, place->code + l->location + PATH)));
    /* It is the next instruction's. */
    uint32_t line = line_of(k, place->code, pos ? pos - 1 : 0);
    if (k->bad)
        return 0;
    struct heapwise_managed_text t = {
        .function = label.p, .n_function = label.n, .file = path.p, .n_file = path.n, .line = line};
    return hw_chain_add_place(s, p, HW_MANAGED_RUBY, place, &t);
}

/* ---- the chain ---- */

static void add_frame(struct hw_client_session *s, struct hw_chain *p, struct chain_reader *k,
                      uint64_t pc, uint64_t iseq)
{
    uint64_t flags = word_at(k, iseq);
    if (k->bad || TYPE(flags) != T_IMEMO || IMEMO_KIND(flags) != IMEMO_ISEQ) {
        k->bad = true;
        return;
    }
    uint64_t body = word_at(k, iseq + BODY_AT);
    uint64_t at = pc - word_at(k, body + CODE_AT), n = u32_at(k, body + N_CODE_AT);
    if (k->bad || at % 8 || at / 8 > n || n > MAX_INSNS) {
        k->bad = true;
        return;
    }
    struct hw_chain_place place = {.code = body, .instr = pc, .print = print_of(k, body, pc)};
    uint64_t id = hw_chain_find_place(p, &place);
    p->ids[p->n_ids++] = id ? id : new_place(s, p, k, &place);
}

/* False: deeper than there is room. */
static bool walk(struct hw_client_session *s, struct hw_chain *p, struct chain_reader *k,
                 uint64_t ec)
{
    const struct layout *l = k->l;
    uint64_t lo = word_at(k, ec), words = word_at(k, ec + 8), at = word_at(k, ec + l->cfp);
    uint64_t end = lo + words * 8;
    if (k->bad || words > MAX_STACK_WORDS || at < lo || at > end || (end - at) % l->frame) {
        k->bad = true;
        return true;
    }
    for (uint32_t i = 0; at < end && !k->bad; i++, at += l->frame) {
        if (p->n_ids == HW_MAX_FRAMES || p->n_parts == HW_MAX_FRAMES || i == 4 * HW_MAX_FRAMES)
            return false;
        uint64_t pc = word_at(k, at + PC_AT), iseq = word_at(k, at + ISEQ_AT);
        uint64_t flags = word_at(k, word_at(k, at + EP_AT));
        if (pc == 0 || iseq == 0 || KIND(flags) == DUMMY)
            continue; /* a C function's */
        add_frame(s, p, k, pc, iseq);
        if (flags & FINISH)
            end_part(p);
    }
    return true;
}

/* ---- the thread's context ---- */

static uint64_t thread_pointer(void)
{
    uint64_t tp;
    __asm__("mov %%fs:0, %0" : "=r"(tp));
    return tp;
}

/* glibc's table of a thread: its length lies before it, entries have 16 bytes. */
static uint64_t variable_of(struct chain_reader *k, const struct hw_ruby_place *at, uint64_t tp)
{
    uint64_t module = atomic_load_explicit(&at->tls_module, memory_order_relaxed);
    uint64_t offset = atomic_load_explicit(&at->tls_offset, memory_order_relaxed);
    uint64_t words = atomic_load_explicit(&at->tls_at, memory_order_relaxed);
    if (words) {
        module = word_at(k, words);
        offset = word_at(k, words + 8);
    }
    uint64_t table = word_at(k, tp + 8);
    if (k->bad || module == 0 || module > word_at(k, table - 16))
        return 0;
    uint64_t block = word_at(k, table + module * 16);
    return block == UINT64_MAX ? 0 : block + offset;
}

/* Of a thread that was not asked before: is what is there a context of this thread's? */
static HW_COLD bool find_variable(struct hw_chain *p, const struct layout *l,
                                  const struct hw_ruby_place *at, uint64_t tp)
{
    struct chain_reader k = {.l = l, .checked_to = UINT64_MAX, .careful = true};
    if (hw_sandbox())
        return false; /* the kernel cannot be asked */
    uint64_t variable = variable_of(&k, at, tp);
    uint64_t ec = word_at(&k, variable), thread = word_at(&k, ec + l->thread);
    uint64_t vm = word_at(&k, thread + l->thread_vm);
    if (word_at(&k, thread + l->thread_ec) != ec ||
        word_at(&k, atomic_load_explicit(&at->vm, memory_order_relaxed)) != vm || k.bad)
        return false;
    p->thread = tp;
    p->variable = variable;
    return true;
}

/* The context whose frames may be read now; 0: none. */
static uint64_t context_of(struct chain_reader *k, struct hw_chain *p,
                           const struct hw_ruby_place *at)
{
    const struct layout *l = k->l;
    uint64_t tp = thread_pointer();
    if (hw_unlikely(p->thread != tp) && !find_variable(p, l, at, tp)) {
        k->bad = !hw_sandbox(); /* a thread that runs Ruby has one */
        return 0;
    }
    uint64_t ec = word_at(k, p->variable), thread = word_at(k, ec + l->thread);
    uint64_t objspace = word_at(k, word_at(k, thread + l->thread_vm) + l->objspace);
    if (word_at(k, thread + l->thread_ec) != ec || word_at(k, thread + l->blocking) != 0 ||
        byte_at(k, objspace + HW_RUBY_GC_FLAGS) & HW_RUBY_GC_IS_COMPACTING || k->bad)
        return 0;
    return ec;
}

/* ---- what it does to a stack ---- */

static const struct layout *layout_of(uint32_t version)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].version == version)
            return &layouts[i];
    return NULL;
}

static struct hw_evals evals_of(const struct hw_ruby_place *at)
{
    uint64_t lo = atomic_load_explicit(&at->exec_lo, memory_order_relaxed);
    uint64_t core = atomic_load_explicit(&at->core_lo, memory_order_relaxed);
    return (struct hw_evals){
        .lo = lo,
        .n_bytes = atomic_load_explicit(&at->exec_hi, memory_order_relaxed) - lo,
        .inner_lo = core,
        .n_inner = atomic_load_explicit(&at->core_hi, memory_order_relaxed) - core,
        .there = atomic_load_explicit(&at->vm, memory_order_relaxed)};
}

void hw_ruby_insert(const struct hw_chain *p, struct hw_mixed_stack *m)
{
    struct hw_evals e = evals_of(&hw_control.ruby);
    hw_evals_replace(&e, p, m);
}

uint64_t hw_ruby_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                             struct hw_chain *p)
{
    const struct hw_ruby_place *at = &hw_control.ruby;
    struct chain_reader k = {
        .l = layout_of(atomic_load_explicit(&at->version, memory_order_relaxed))};
    struct hw_evals e = evals_of(at);
    if (!hw_chain_begin(s, p, o, &e, &k, &proof))
        return 0;
    uint64_t ec = context_of(&k, p, at);
    bool all = ec && walk(s, p, &k, ec);
    return hw_chain_end(s, p, o, &k, &proof, ec != 0, all);
}

#else

uint64_t hw_ruby_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                             struct hw_chain *p)
{
    (void)s, (void)o, (void)p;
    return 0;
}

void hw_ruby_insert(const struct hw_chain *p, struct hw_mixed_stack *m)
{
    (void)p, (void)m;
}

#endif
