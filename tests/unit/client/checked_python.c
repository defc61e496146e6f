/*
 * checked_python.c - Python's functions in every sample's stack, compared with what the interpreter holds at that moment
 *
 * Beside checked.c, with --wrap=hw_python_find_frames. After the client has found a thread's functions, all of them are read
 * again, without anything that is remembered: the chain of frames, the text of each function's and file's name, and its line
 * from the interpreter itself (PyCode_Addr2Line). An id and what it means must belong together for the whole process: the same
 * function, file and line have one id, and no id ever means another. If not, the program says so and traps. At its end it says
 *
 *     checked: STACKS stacks of FRAMES Python frames, SKIPPED not compared
 *
 * One thread compares at a time, and others go on without, as in checked.c.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "client/sample/python.h"
#include "wire/python.def"

uint64_t __real_hw_python_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                                      struct hw_chain *p);
uint64_t __wrap_hw_python_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                                      struct hw_chain *p);

struct row {
    uint32_t minor;
    uint16_t finalizing, tss, cframe, current, code, previous, instr, owner, is_entry, first_line,
        file, name, qualname, lines, first_traceable, bytecode, ascii, compact, version;
};
static const struct row rows[] = {
#define ROW(...) {__VA_ARGS__},
    HW_PYTHONS(ROW)
#undef ROW
};

#define PAIRS (1u << 17)
static struct pair {
    uint64_t from, to;
} meaning[PAIRS], id_of[PAIRS];

static _Atomic int busy;
static _Atomic unsigned long n_stacks, n_frames, n_skipped;
static int (*line_of)(void *code, int at);

static uint64_t u64(uint64_t at)
{
    return *(const uint64_t *)(uintptr_t)at;
}

static uint32_t u32(uint64_t at)
{
    return *(const uint32_t *)(uintptr_t)at;
}

static uint8_t u8(uint64_t at)
{
    return *(const uint8_t *)(uintptr_t)at;
}

static uint64_t hash(uint64_t h, const void *data, uint64_t n)
{
    const uint8_t *p = data;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return (h ^ n) * 0x9e3779b97f4a7c15u;
}

static uint64_t hash_string(const struct row *r, uint64_t h, uint64_t string)
{
    uint32_t state = u32(string + 32), kind = state >> 2 & 7;
    return hash(h, (const void *)(uintptr_t)(string + (state & 0x40 ? r->ascii : r->compact)),
                u64(string + 16) * kind);
}

static void fail(const char *what, uint64_t id, uint64_t at)
{
    static char text[200];
    int n = snprintf(text, sizeof text, "DIFFERS: Python: %s: id %llx, frame %llx\n", what,
                     (unsigned long long)id, (unsigned long long)at);
    if (write(STDERR_FILENO, text, (size_t)n) == n)
        __builtin_trap();
    __builtin_trap();
}

/* Once seen, a pair is for ever. False: there is no room. */
static bool is_pair(struct pair *table, uint64_t from, uint64_t to, uint64_t frame)
{
    for (uint64_t i = from * 0x9e3779b97f4a7c15u >> 40, n = 0; n < 64; i++, n++) {
        struct pair *e = &table[i % PAIRS];
        if (e->from == from && e->to != to)
            fail(table == meaning ? "an id that means something else now"
                                  : "a function that has another id now",
                 table == meaning ? from : to, frame);
        if (e->from == 0)
            *e = (struct pair){from, to};
        if (e->from == from)
            return true;
    }
    return false;
}

/* Up to 3.10 every frame has an evaluation, and there are no others. */
static bool is_old(const struct row *r)
{
    return r->minor <= 10;
}

static void compare_frame(const struct row *r, uint64_t frame, uint64_t id)
{
    uint64_t code = u64(frame + r->code);
    int64_t at = (int64_t)(u64(frame + r->instr) - code - r->bytecode);
    if (is_old(r))
        at = (int32_t)u32(frame + r->instr) * (r->minor == 10 ? 2 : 1);
    int line = line_of((void *)(uintptr_t)code, (int)at); /* -1: none */
    uint32_t shown = line < 0 ? 0 : (uint32_t)line;
    uint64_t h = hash_string(r, hash(1, &shown, sizeof shown), u64(code + r->qualname));
    h = hash_string(r, h, u64(code + r->file)) | 1;
    if (is_pair(meaning, id, h, frame) && is_pair(id_of, h, id, frame))
        n_frames++;
    else
        n_skipped++;
}

static void compare(const struct row *r, const struct hw_chain *p)
{
    uint64_t runtime = atomic_load(&hw_control.python.runtime);
    uint64_t state = (uintptr_t)pthread_getspecific(u32(runtime + r->tss + 4));
    uint64_t in = r->cframe == HW_PYTHON_NONE ? state : u64(state + r->cframe);
    uint32_t n_ids = 0, n_parts = 0, n = 0;
    for (uint64_t f = u64(in + r->current); f; f = u64(f + r->previous)) {
        if (n_ids == HW_MAX_FRAMES || n_parts == HW_MAX_FRAMES || n++ == 2 * HW_MAX_FRAMES)
            break;
        bool below = !is_old(r) && r->is_entry == HW_PYTHON_NONE && u8(f + r->owner) == 3;
        uint64_t code = u64(f + r->code);
        if (!below && (is_old(r) || u8(f + r->owner) == 1 ||
                       (int64_t)(u64(f + r->instr) - code - r->bytecode) / 2 >=
                           (int32_t)u32(code + r->first_traceable))) {
            if (n_ids == p->n_ids)
                fail("a frame is missing", 0, f);
            compare_frame(r, f, p->ids[n_ids++]);
        }
        if (below || is_old(r) || (r->is_entry != HW_PYTHON_NONE && u8(f + r->is_entry))) {
            if (n_parts == p->n_parts || p->ends[n_parts] != n_ids)
                fail("an evaluation ends elsewhere", n_parts, f);
            n_parts++;
        }
    }
    if (n_ids != p->n_ids)
        fail("too many frames", p->n_ids, n_ids);
}

uint64_t __wrap_hw_python_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                                      struct hw_chain *p)
{
    uint64_t found = __real_hw_python_find_frames(s, o, p);
    uint32_t minor = atomic_load(&hw_control.python.minor);
    int none = 0;
    if (found == 0)
        return found;
    if (!atomic_compare_exchange_strong(&busy, &none, 1)) {
        n_skipped++;
        return found;
    }
    if (!line_of)
        *(void **)&line_of = dlsym(RTLD_DEFAULT, "PyCode_Addr2Line");
    for (size_t i = 0; line_of && i < sizeof rows / sizeof *rows; i++)
        if (rows[i].minor == minor) {
            compare(&rows[i], p);
            n_stacks++;
        }
    atomic_store(&busy, 0);
    return found;
}

__attribute__((destructor)) static void report(void)
{
    char text[120];
    int n =
        snprintf(text, sizeof text, "checked: %lu stacks of %lu Python frames, %lu not compared\n",
                 (unsigned long)n_stacks, (unsigned long)n_frames, (unsigned long)n_skipped);
    if (n_stacks && write(STDERR_FILENO, text, (size_t)n) < 0)
        return; /* nobody reads it */
}
