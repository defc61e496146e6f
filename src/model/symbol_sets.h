/*
 * symbol_sets.h - what an address means in the source: functions, files, lines
 *
 * Why:     one address may be in several functions, inlined into each other; a reader of a trace
 *          wants all of them, with the line in each.
 * Shapes:  a set is 1..HW_MAX_SYMBOL_LINES lines, innermost inlined function first, the function
 *          that contains them last. Frames point to sets; a later set of a frame replaces the
 *          earlier one. Line numbers without a file are dropped.
 * Owns:    its tables; strings belong to the profile.
 * Errors:  HW_ENOMEM, HW_ELIMIT, HW_EINVAL (an empty set). On error the tables are as they were.
 * Source:  doc/formats/trace.md, "Symbols and name maps"
 */
#ifndef HW_MODEL_SYMBOL_SETS_H
#define HW_MODEL_SYMBOL_SETS_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "model/ids.h"

#define HW_MAX_SYMBOL_LINES 1024u
/* After a function's name if other functions share its code: it may be the wrong one. */
#define HW_FOLDED_MARK " [folded]"

struct hw_symbol_line {
    hw_str_id function; /* as shown: demangled; 0 = unknown */
    hw_str_id file;     /* 0 = unknown */
    uint32_t line;      /* 0 = unknown */
};

struct hw_symbol_set {
    uint32_t first, n; /* of lines */
};

typedef HW_VEC(hw_str_id) hw_frame_words;

struct hw_symbol_sets {
    HW_VEC(struct hw_symbol_line) lines;
    HW_VEC(struct hw_symbol_set) sets;
    HW_VEC(uint32_t) of_frame;   /* set + 1; 0 and frames beyond the end: none */
    hw_frame_words deobfuscated; /* by frame; 0 and frames beyond the end: none */
    hw_frame_words kinds;        /* the same: "jit", "kernel", … */
};

void hw_symbol_sets_done(struct hw_symbol_sets *s);
int hw_symbol_sets_put(struct hw_symbol_sets *s, hw_frame_id frame,
                       const struct hw_symbol_line *innermost_first, size_t n);
/* The same, but keeps lines without a file, which managed code has. */
int hw_symbol_sets_put_managed(struct hw_symbol_sets *s, hw_frame_id frame,
                               const struct hw_symbol_line *innermost_first, size_t n);
/* The number of lines; 0 = the frame has no set. Borrowed until the next put. */
size_t hw_symbol_sets_get(const struct hw_symbol_sets *s, hw_frame_id frame,
                          const struct hw_symbol_line **out);

/* What kind of code a frame is, in the trace's words; 0 = unknown. */
int hw_symbol_sets_put_kind(struct hw_symbol_sets *s, hw_frame_id frame, hw_str_id kind);
hw_str_id hw_symbol_sets_get_kind(const struct hw_symbol_sets *s, hw_frame_id frame);

/* The name a frame had before it was obfuscated. */
int hw_symbol_sets_put_deobfuscated(struct hw_symbol_sets *s, hw_frame_id frame, hw_str_id name);
hw_str_id hw_symbol_sets_get_deobfuscated(const struct hw_symbol_sets *s, hw_frame_id frame);

#endif
