/*
 * callsites.h - mappings, frames and the prefix tree of callstacks
 *
 * Why:     sampled callstacks share most of their frames. The daemon's counters and the readers'
 *          tables both need "same callstack, same number", so both use this one set of tables.
 * Shapes:  frames come root first, 1..HW_MAX_CALLSITE_DEPTH of them (our own recorder cuts at
 *          HW_MAX_FRAMES; other files may be deeper). Ids are dense from 0 and never move. A
 *          leaf's callsite id names a whole callstack.
 * Units:   rel_pc = pc - start + offset + load_bias (the ELF's own space); depth: root = 0.
 * Owns:    every row, and the strings (hw_strings made here, borrowed by callers).
 * Errors:  HW_ENOMEM, HW_ELIMIT (no ids left), HW_EINVAL (empty or too deep). On error the tables
 *          are as they were.
 * Threads: one owner at a time; any number of readers once frozen.
 * Source:  tables stack_profile_mapping, _frame, _callsite: doc/design/sql.md
 */
#ifndef HW_MODEL_CALLSITES_H
#define HW_MODEL_CALLSITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"
#include "base/text/strings.h"
#include "model/ids.h"
#include "model/symbol_sets.h"

#define HW_MAX_CALLSITE_DEPTH 4096u

struct hw_mapping {
    hw_str_id build_id; /* raw bytes */
    hw_str_id path;
    uint64_t start, end;
    uint64_t exact_offset; /* file offset of this mapping */
    uint64_t start_offset; /* file offset of the ELF image's first mapping */
    uint64_t load_bias;
};

struct hw_frame {
    hw_mapping_id mapping; /* HW_ID_NONE: frame without a mapping (pseudo, error) */
    hw_str_id name;        /* as recorded (mangled); 0 = "" = unknown */
    uint64_t rel_pc;
    hw_str_id file; /* as recorded, for managed code only; 0 = unknown */
    uint32_t line;  /* the same; 0 = unknown */
};

struct hw_callsite {
    hw_callsite_id parent; /* HW_ID_NONE at a root */
    hw_frame_id frame;
    uint32_t depth;
};

/* The mapping of frames that are the allocated type, not a function: recorded as the leaf, and
 * removed from the stack by readers that store types separately. */
#define HW_TYPES_MAPPING "[types]"

struct hw_callsites;

int hw_callsites_new(struct hw_callsites **out);
void hw_callsites_free(struct hw_callsites *cs); /* NULL is fine */
struct hw_strings *hw_callsites_strings(struct hw_callsites *cs);

int hw_callsites_mapping(struct hw_callsites *cs, const struct hw_mapping *m, hw_mapping_id *out);
int hw_callsites_frame(struct hw_callsites *cs, const struct hw_frame *f, hw_frame_id *out);
/* Adds a row with the same content as another one, though the frames differ (their symbols do).
 * Interning does not find it. */
int hw_callsites_frame_apart(struct hw_callsites *cs, const struct hw_frame *f, hw_frame_id *out);
/* Finds or adds the path and gives its leaf. */
int hw_callsites_intern(struct hw_callsites *cs, const hw_frame_id *root_first, size_t n,
                        hw_callsite_id *out);
/* Finds or adds one child below parent (HW_ID_NONE: a root). */
int hw_callsites_child(struct hw_callsites *cs, hw_callsite_id parent, hw_frame_id frame,
                       hw_callsite_id *out);
/* Gives a frame a name later (symbols resolved after interning); its identity does not change. */
void hw_callsites_set_frame_name(struct hw_callsites *cs, hw_frame_id f, hw_str_id name);
/* The same for all shown members. */
void hw_callsites_set_frame(struct hw_callsites *cs, hw_frame_id f, const struct hw_frame *shown);

/* What is known about the frames' source; empty until a trace or an enricher adds it. */
struct hw_symbol_sets *hw_callsites_symbol_sets(struct hw_callsites *cs);
const struct hw_symbol_sets *hw_callsites_get_symbol_sets(const struct hw_callsites *cs);

size_t hw_callsites_n_mappings(const struct hw_callsites *cs);
size_t hw_callsites_n_frames(const struct hw_callsites *cs);
size_t hw_callsites_count(const struct hw_callsites *cs);
size_t hw_callsites_bytes(const struct hw_callsites *cs);   /* memory, without symbols */
bool hw_callsites_has_types(const struct hw_callsites *cs); /* has a HW_TYPES_MAPPING */
bool hw_callsites_is_type(const struct hw_callsites *cs, const struct hw_frame *f);
/* Borrowed until the next interning call. Ids must be in range: callers got them from here. */
const struct hw_mapping *hw_callsites_get_mapping(const struct hw_callsites *cs, hw_mapping_id id);
const struct hw_frame *hw_callsites_get_frame(const struct hw_callsites *cs, hw_frame_id id);
const struct hw_callsite *hw_callsites_get(const struct hw_callsites *cs, hw_callsite_id id);
/* Appends a build id as shown: lower-case hex. Chrome's module ids, 33 hex digits, are already text
 * and unchanged. */
void hw_build_id_add(struct hw_strbuf *out, struct hw_bytes raw);
bool hw_build_id_is_text(struct hw_bytes raw);
/* Appends the id that Chromium's symbol server uses for a build id in hex: 33 characters made from
 * its first 16 bytes. False: not one of Chromium's libraries, or fewer than 20 bytes. */
bool hw_breakpad_module_add(struct hw_strbuf *out, struct hw_bytes path, struct hw_bytes hex);
/* Writes the path to id, root first, at most max frames; returns its full length. */
size_t hw_callsites_path(const struct hw_callsites *cs, hw_callsite_id id, hw_frame_id *out,
                         size_t max);

#endif
