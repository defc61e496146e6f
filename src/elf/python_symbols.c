/*
 * python_symbols.c - the part of _PyEval_EvalFrameDefault that the compiler put elsewhere
 *
 * A stripped file does not name it (_PyEval_EvalFrameDefault.cold). The unwind information has an entry for it, whose
 * function it does not say. Jumps do: functions are entered at their beginning, and only the parts of one jump into each
 * other's middle. Of Debian's 3.11 the interpreter jumps 377 times into its cold part, and that 395 times back; of all
 * other functions, bytes that only look like a jump lead into the middle of one once.
 */
#include "elf/python_symbols.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "elf/elf.h"
#include "elf/function_table.h"
#include "elf/image.h"

#include "base/banned.h"

#define MAX_EVAL_BYTES (1u << 20)
#define MAX_COLD_BYTES (1u << 18)
#define MANY_JUMPS     8u
#define MAX_OTHERS     16u

/*
 * X(minor, function)
 *
 * Before 3.11 an interpreter has no Py_Version. The newest that has this function of the C API is its version; and its
 * _PyRuntime is small, as later ones contain an interpreter's state.
 */
#define OLD_RUNTIME_BYTES 4096u
#define OLD_VERSIONS(X)                                                                            \
    X(10, "Py_NewRef")                                                                             \
    X(9, "PyFrame_GetCode")                                                                        \
    X(8, "PyCode_NewWithPosOnlyArgs")

/* Exported by interpreters without a global lock only. */
#define FREE_THREADED "_Py_MergeZeroLocalRefcount"

struct code {
    uint64_t va, n_bytes;
    uint8_t *bytes; /* owned */
};

static bool code_read(struct hw_elf *e, uint64_t va, uint64_t n_bytes, uint64_t most,
                      struct code *out)
{
    *out = (struct code){va, n_bytes, n_bytes && n_bytes <= most ? malloc(n_bytes) : NULL};
    return out->bytes && hw_elf_read_at(e, va, out->bytes, n_bytes, NULL) == HW_OK;
}

/* If a jump of x86-64 with 32 bits, also one with a condition, may begin there: where it leads to. */
static bool jump_at(const struct code *c, size_t at, uint64_t *to)
{
    const uint8_t *p = c->bytes + at;
    size_t n = p[0] == 0xe9 ? 1 : p[0] == 0x0f && (p[1] & 0xf0) == 0x80 ? 2 : 0;
    int32_t by;
    memcpy(&by, p + n, sizeof by);
    *to = c->va + at + n + sizeof by + (uint64_t)(int64_t)by;
    return n != 0;
}

static uint32_t count_jumps(const struct code *from, uint64_t va, uint64_t n_bytes)
{
    uint32_t n = 0;
    uint64_t to;
    for (size_t i = 0; i + 6 <= from->n_bytes; i++)
        n += jump_at(from, i, &to) && to - va < n_bytes && to != va;
    return n;
}

/* Do both jump into the other's middle? */
static bool is_other_part(struct hw_elf *e, const struct code *eval, uint64_t va, uint64_t n_bytes)
{
    struct code other;
    if (count_jumps(eval, va, n_bytes) < MANY_JUMPS)
        return false;
    bool is = code_read(e, va, n_bytes, MAX_COLD_BYTES, &other) &&
              count_jumps(&other, eval->va, eval->n_bytes) >= MANY_JUMPS;
    free(other.bytes);
    return is;
}

static void find_cold(struct hw_elf *e, const struct hw_function_table *t,
                      struct hw_python_symbols *out)
{
    struct code eval;
    uint64_t seen[MAX_OTHERS], to, start, n_bytes;
    size_t n_seen = 0;
    if (code_read(e, out->eval, out->eval_bytes, MAX_EVAL_BYTES, &eval))
        for (size_t i = 0; i + 6 <= eval.n_bytes && n_seen < MAX_OTHERS && !out->cold; i++) {
            if (!jump_at(&eval, i, &to) || to - eval.va < eval.n_bytes ||
                !hw_function_of(t, to, &start, &n_bytes) || to == start)
                continue;
            size_t k = 0;
            while (k < n_seen && seen[k] != start)
                k++;
            if (k < n_seen)
                continue;
            seen[n_seen++] = start;
            if (is_other_part(e, &eval, start, n_bytes)) {
                out->cold = start;
                out->cold_bytes = n_bytes;
            }
        }
    free(eval.bytes);
}

static void find_unnamed_cold(struct hw_elf *e, int elf_fd, struct hw_python_symbols *out)
{
    struct hw_function_table t = {0};
    struct hw_image img;
    if (hw_image_open(&img, elf_fd, NULL, 0, true, NULL) < 0)
        return;
    if (img.machine == EM_X86_64 && hw_function_table_read(&t, &img))
        find_cold(e, &t, out);
    hw_function_table_done(&t);
    hw_image_close(&img);
}

/* Of a Python before 3.11, by what it has. */
static uint64_t version_without_word(struct hw_elf *e, uint64_t runtime_bytes)
{
    uint64_t va, size;
    if (runtime_bytes > OLD_RUNTIME_BYTES)
        return 0;
#define ROW(minor, function)                                                                       \
    if (hw_elf_find_sized(e, function, &va, &size))                                                \
        return 3u << 24 | (minor) << 16 | HW_PYTHON_RELEASED;
    OLD_VERSIONS(ROW)
#undef ROW
    return 0;
}

void hw_python_symbols_find(struct hw_elf *e, int elf_fd, struct hw_python_symbols *out)
{
    uint64_t va, size, runtime_bytes;
    *out = (struct hw_python_symbols){0};
    if (!hw_elf_find_sized(e, "_PyRuntime", &out->runtime, &runtime_bytes) ||
        !hw_elf_find_sized(e, "PyCode_Type", &out->code_type, &size) ||
        !hw_elf_find_sized(e, "_PyEval_EvalFrameDefault", &out->eval, &out->eval_bytes)) {
        *out = (struct hw_python_symbols){0};
        return;
    }
    if (!hw_elf_find_sized(e, "_PyEval_EvalFrameDefault.cold", &out->cold, &out->cold_bytes)) {
        out->cold = out->cold_bytes = 0;
        find_unnamed_cold(e, elf_fd, out);
    }
    if (!hw_elf_find_sized(e, "Py_Version", &va, &size))
        out->version = version_without_word(e, runtime_bytes);
    else if (hw_elf_read_at(e, va, &out->version, sizeof out->version, NULL) < 0)
        out->version = 0;
    out->is_free_threaded = hw_elf_find_sized(e, FREE_THREADED, &va, &size);
    if (!hw_elf_find_sized(e, "PyMem_GetAllocator", &out->get_allocator, &size))
        out->get_allocator = 0;
    if (!hw_elf_find_data(e, out->runtime, &out->data, &out->data_bytes))
        out->data = out->data_bytes = 0;
}
