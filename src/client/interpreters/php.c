/*
 * php.c - the engine's list of frames, cut where each execute_ex began
 *
 *      native stack (leaf first)            frames (innermost first)
 *      malloc's caller
 *      execute_ex                 <-------   inner, {closure} (top: execute_ex began with it)
 *      zend_call_function                    array_map: a C function's
 *      execute_ex                 <-------   outer, {main} (top)
 *      main
 *
 * The list begins in the engine's only copy of its globals, and its one thread is here, inside
 * malloc: nobody changes the list meanwhile. What a frame leads to (its function, the function's
 * instructions, names and class) lives as long as the frame, and is never moved.
 */
#include "client/interpreters/php.h"

#include <string.h>

#include "client/client.h"
#include "client/interpreters/chain_reader.h"

#if UINTPTR_MAX == UINT64_MAX && !defined(HW_BARE)

#include "wire/php.def"

#define MAX_OPCODES (1u << 24)

/* Frames */
#define OPLINE_AT   0u
#define FUNCTION_AT 24u
#define INFO_AT     40u
#define PREVIOUS_AT 48u
#define TOP         0x20000u

/* Functions: kind, flags, name, class */
#define KIND_INTERNAL 1u
#define KIND_USER     2u
#define KIND_EVAL     4u
#define NAME_AT       8u
#define SCOPE_AT      16u
#define CLASS_NAME_AT 8u

/* Strings: references, type, hash, length, text */
#define TYPE_AT  4u
#define T_STRING 6u
#define LEN_AT   16u
#define TEXT_AT  24u

/* Instructions */
#define OP_BYTES 32u
#define LINE_AT  24u

struct layout {
    uint32_t api, globals_bytes;
    uint16_t current, before_exception, n_opcodes, opcodes, filename, lines;
};

static const struct layout layouts[] = {
#define ROW(...) {__VA_ARGS__},
    HW_PHPS(ROW)
#undef ROW
};

static struct hw_chain_proof proof;

/* ---- names ---- */

static struct text text_of(struct chain_reader *k, uint64_t string)
{
    struct text none = {NULL, 0};
    if (string == 0 || (u32_at(k, string + TYPE_AT) & 0xf) != T_STRING)
        return none;
    uint64_t n = word_at(k, string + LEN_AT);
    if (n > HW_NAME_MAX_BYTES)
        n = HW_NAME_MAX_BYTES;
    if (k->bad || n == 0 || !may_read(k, string + TEXT_AT, n))
        return none;
    return (struct text){(const char *)(uintptr_t)(string + TEXT_AT), n};
}

struct names {
    struct text function, scope, file;
};

/* The code of a file has no name; nor has that of eval(), whose file says where it is. */
static struct names names_of(struct chain_reader *k, uint64_t function)
{
    static const char main_code[] = "{main}";
    uint64_t name = word_at(k, function + NAME_AT), scope = word_at(k, function + SCOPE_AT);
    struct names n = {.file = text_of(k, word_at(k, function + k->l->filename))};
    n.function = name ? text_of(k, name) : (struct text){main_code, sizeof main_code - 1};
    if (name && scope)
        n.scope = text_of(k, word_at(k, scope + CLASS_NAME_AT));
    return n;
}

/* "Class::name", in out, which has HW_NAME_MAX_BYTES + 8. */
static struct text whole_name(const struct names *n, char *out)
{
    if (n->scope.n == 0)
        return n->function;
    size_t n_scope = n->scope.n;
    size_t left = n_scope + 2 < HW_NAME_MAX_BYTES ? HW_NAME_MAX_BYTES - n_scope - 2 : 0;
    size_t n_function = n->function.n < left ? n->function.n : left;
    memcpy(out, n->scope.p, n_scope);
    memcpy(out + n_scope, "::", 2);
    memcpy(out + n_scope + 2, n->function.p, n_function);
    size_t all = n_scope + 2 + n_function;
    return (struct text){out, all < HW_NAME_MAX_BYTES ? all : HW_NAME_MAX_BYTES};
}

/* While an exception is on its way the frame's instruction is none of its function's. */
static uint32_t line_of(struct chain_reader *k, uint64_t code, uint64_t n, uint64_t opline,
                        uint64_t globals)
{
    if (opline - code >= n * OP_BYTES)
        opline = word_at(k, globals + k->l->before_exception);
    if (opline - code >= n * OP_BYTES)
        return 0;
    uint32_t line = u32_at(k, opline + LINE_AT);
    return line <= INT32_MAX ? line : 0;
}

/* ---- the chain ---- */

static void add_frame(struct hw_client_session *s, struct hw_chain *p, struct chain_reader *k,
                      uint64_t frame, uint64_t function, uint64_t globals)
{
    const struct layout *l = k->l;
    uint64_t opline = word_at(k, frame + OPLINE_AT), code = word_at(k, function + l->opcodes);
    uint64_t n = u32_at(k, function + l->n_opcodes);
    if (k->bad || n > MAX_OPCODES) {
        k->bad = true;
        return;
    }
    uint32_t line = line_of(k, code, n, opline, globals);
    struct names names = names_of(k, function);
    uint64_t print = mix(hw_text_digest(&names.function), hw_text_digest(&names.file));
    print = mix(print ^ line, hw_text_digest(&names.scope) ^ word_at(k, function + l->lines));
    if (k->bad)
        return;
    struct hw_chain_place place = {.code = code, .instr = opline, .print = print};
    uint64_t id = hw_chain_find_place(p, &place);
    if (hw_unlikely(id == 0)) {
        struct text name = whole_name(&names, p->function);
        struct heapwise_managed_text t = {.function = name.p,
                                          .n_function = name.n,
                                          .file = names.file.p,
                                          .n_file = names.file.n,
                                          .line = line};
        id = hw_chain_add_place(s, p, HW_MANAGED_PHP, &place, &t);
    }
    p->ids[p->n_ids++] = id;
}

/* False: deeper than there is room. */
static bool walk(struct hw_client_session *s, struct hw_chain *p, struct chain_reader *k,
                 uint64_t globals)
{
    uint64_t frame = word_at(k, globals + k->l->current);
    for (uint32_t i = 0; frame && !k->bad; i++) {
        if (p->n_ids == HW_MAX_FRAMES || p->n_parts == HW_MAX_FRAMES || i == 4 * HW_MAX_FRAMES)
            return false;
        uint64_t function = word_at(k, frame + FUNCTION_AT);
        uint32_t kind = function ? byte_at(k, function) : KIND_INTERNAL;
        if (kind == KIND_USER || kind == KIND_EVAL) {
            add_frame(s, p, k, frame, function, globals);
            if (u32_at(k, frame + INFO_AT) & TOP)
                end_part(p);
        } else if (kind != KIND_INTERNAL) {
            k->bad = true;
        } else if (function && word_at(k, function + NAME_AT) == 0) {
            break; /* a fiber's: below it is who resumed it, on another stack */
        }
        frame = word_at(k, frame + PREVIOUS_AT);
    }
    return true;
}

/* ---- what it does to a stack ---- */

static const struct layout *layout_of(uint32_t api)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].api == api)
            return &layouts[i];
    return NULL;
}

static struct hw_evals evals_of(const struct hw_php_place *at)
{
    uint64_t lo = atomic_load_explicit(&at->exec_lo, memory_order_relaxed);
    return (struct hw_evals){.lo = lo,
                             .n_bytes =
                                 atomic_load_explicit(&at->exec_hi, memory_order_relaxed) - lo,
                             .there = atomic_load_explicit(&at->globals, memory_order_relaxed)};
}

void hw_php_insert(const struct hw_chain *p, struct hw_mixed_stack *m)
{
    struct hw_evals e = evals_of(&hw_control.php);
    hw_evals_replace(&e, p, m);
}

uint64_t hw_php_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                            struct hw_chain *p)
{
    const struct hw_php_place *at = &hw_control.php;
    struct chain_reader k = {.l = layout_of(atomic_load_explicit(&at->api, memory_order_relaxed))};
    struct hw_evals e = evals_of(at);
    if (!hw_chain_begin(s, p, o, &e, &k, &proof))
        return 0;
    bool all = walk(s, p, &k, atomic_load_explicit(&at->globals, memory_order_relaxed));
    return hw_chain_end(s, p, o, &k, &proof, true, all);
}

#else

uint64_t hw_php_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                            struct hw_chain *p)
{
    (void)s, (void)o, (void)p;
    return 0;
}

void hw_php_insert(const struct hw_chain *p, struct hw_mixed_stack *m)
{
    (void)p, (void)m;
}

#endif
