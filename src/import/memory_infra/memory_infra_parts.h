/*
 * memory_infra_parts.h - shared by the files of the memory-infra importer
 *
 * Shapes:  memory_infra_reader.c dispatches events; memory_infra_slices.c adds what threads did and
 *          memory_infra_nodes.c adds allocator trees, totals and mappings to the model at once;
 *          memory_infra_heaps.c keeps heap dumps until the file has been read, because names may
 *          follow what they name. Heap dumps are nearly all of a large file and are read in place;
 *          the rest of an event is small and is parsed by jansson.
 * Errors:  HW_ENOMEM, HW_ELIMIT. What breaks the format's rules is skipped and counted by
 *          hw_infra_bad with the position of its event; the rest is read.
 * Source:  doc/formats/memory-infra.md
 */
#ifndef HW_IMPORT_MEMORY_INFRA_MEMORY_INFRA_PARTS_H
#define HW_IMPORT_MEMORY_INFRA_MEMORY_INFRA_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "codec/json_text.h"
#include "model/profile.h"

/* One global dump: the events with one id. */
struct hw_infra_dump {
    uint32_t snapshot;   /* of the model */
    int64_t earliest_ns; /* of its events */
    int64_t ts_ns;       /* that, or the first time after it that no other dump has */
};

struct hw_infra_heaps;

struct hw_infra {
    struct hw_profile *p;
    uint64_t offset;        /* of the event being read */
    bool has_time;          /* the profile has its bounds */
    unsigned n_with_offset; /* damage counted with its position so far */
    HW_VEC(struct hw_infra_dump) dumps;
    struct hw_map64 dump_of_id;    /* string of the id → index */
    struct hw_map64 parts_seen;    /* dump << 32 | upid → bits of enum hw_infra_part */
    struct hw_map64 free_time;     /* of a dump, in ns → the time to try after it */
    struct hw_map64 owner_of_guid; /* hash of snapshot and guid → hash of the node */
    struct hw_infra_heaps *heaps;
    struct hw_json_text text;  /* of the event being read */
    struct hw_strbuf rest;     /* the same without heap dumps and their names */
    struct hw_strbuf repaired; /* the same without numbers that are too large */
};

/* Indexed are the event, args, dumps, heaps_v2, maps or allocators, one heap with its lists. */
enum { HW_INFRA_NOTED_DEPTH = 6 };
enum hw_infra_part { HW_INFRA_TOTALS = 1, HW_INFRA_MMAPS = 2, HW_INFRA_HEAPS = 4 };

/* Counts damage in the table `stats`; the row's idx is the event's offset. */
int hw_infra_bad(struct hw_infra *in, const char *stat);
int hw_infra_str(struct hw_infra *in, const json_t *text, hw_str_id *out);
/* A number written in hexadecimal; false if it is none. */
bool hw_infra_hex(const json_t *text, uint64_t *out);
bool hw_infra_hex_digits(struct hw_bytes text, uint64_t *out);
/* A JSON number as a count of bytes or objects; false if it is none, below 0 or above 2^62. */
bool hw_infra_number(const struct hw_json_value *v, int64_t *out);

void hw_infra_time(struct hw_infra *in, int64_t ts_ns); /* extends the profile's bounds */

/* ---- memory_infra_slices.c ---- */
int hw_infra_slice(struct hw_infra *in, const json_t *event, hw_upid upid, char ph);

/* ---- memory_infra_nodes.c ---- */
/* process: of the model's memory dumps. */
int hw_infra_allocators(struct hw_infra *in, uint32_t process, const json_t *allocators);
int hw_infra_graph(struct hw_infra *in, uint32_t snapshot, const json_t *edges);
int hw_infra_totals(struct hw_infra *in, int64_t ts_ns, hw_upid upid, const json_t *totals);
int hw_infra_mmaps(struct hw_infra *in, int64_t ts_ns, hw_upid upid, const json_t *mmaps);

/* ---- memory_infra_heaps.c ---- */
int hw_infra_heaps_new(struct hw_infra *in);
void hw_infra_heaps_free(struct hw_infra_heaps *h);
/* Each with the index of its value in in->text. */
int hw_infra_heaps_v2(struct hw_infra *in, uint32_t dump, hw_upid upid, uint32_t heaps);
int hw_infra_heaps_v1(struct hw_infra *in, uint32_t dump, hw_upid upid, uint32_t heaps);
int hw_infra_stack_frames(struct hw_infra *in, hw_upid upid, uint32_t frames);
int hw_infra_type_names(struct hw_infra *in, hw_upid upid, uint32_t types);
/* After the last event: makes the model's rows. */
int hw_infra_heaps_finish(struct hw_infra *in);

#endif
