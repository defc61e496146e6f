/*
 * disassemble.h - the instructions of one function, by objdump or llvm-objdump
 *
 * Why:     the hot call of a function is at an address; without source, or where one line holds
 *          many calls, only its instructions tell which.
 * Shapes:  the file is the one of the mapping's build id: its symbols, the code and the lines may
 *          come from different copies (stripped, debug info apart). Instructions ascend; a function
 *          longer than HW_DISASSEMBLE_MAX_BYTES is cut there.
 * Owns:    its texts until hw_code_done.
 * Errors:  HW_ENOTFOUND with what is missing and the remedy: no build id, no such file, no symbol
 *          there, no tool. HW_ETIMEOUT, HW_ELIMIT, HW_EUNSUPPORTED (no tool knows the processor).
 *          Trust: the tool gets a descriptor of the checked file, no name of a trace and no shell,
 *          and is ended after its time, memory or output is used up. Files are anybody's, so is its
 *          output.
 * Threads: safe in a program with other threads.
 * Source:  doc/design/pages.md, "Access"
 */
#ifndef HW_ENRICH_LINES_DISASSEMBLE_H
#define HW_ENRICH_LINES_DISASSEMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "base/text/strings.h"
#include "enrich/binaries.h"

#define HW_DISASSEMBLE_MAX_BYTES (256u << 10)

struct hw_error;
struct hw_mapping;

struct hw_instruction {
    uint64_t va;
    uint32_t text; /* offset in hw_code.texts */
    uint32_t file; /* the same, of the innermost line's file; HW_ID_NONE = unknown */
    uint32_t line; /* 0 = unknown */
};

struct hw_code {
    HW_VEC(struct hw_instruction) list;
    struct hw_strbuf texts;
    struct hw_strbuf function, path; /* as in the symbol table; of the file with the code */
    const char *tool;                /* a constant */
    uint64_t start, end;             /* of what was disassembled */
    uint64_t shift;                  /* from rel_pc to the file's addresses */
    bool cut;
};

/* The function of the mapping's file (path, build_id) that rel_pc lies in. where: asked in order
 * until everything is found. */
int hw_disassemble(const struct hw_binaries_where *where, size_t n_where,
                   const struct hw_mapping *m, const char *path, struct hw_bytes build_id,
                   uint64_t rel_pc, struct hw_code *out, struct hw_error *err);
void hw_code_done(struct hw_code *c);
/* The instruction that the address lies in, or NULL. */
const struct hw_instruction *hw_code_at(const struct hw_code *c, uint64_t va);

/* The reader of a tool's output alone: lines "  ADDRESS:\tTEXT" within [start, end). */
int hw_disassemble_parse(struct hw_bytes output, struct hw_code *out);

#endif
