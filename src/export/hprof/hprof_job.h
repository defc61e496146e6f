/*
 * hprof_job.h - the state of writing a Java heap dump file
 */
#ifndef HW_EXPORT_HPROF_HPROF_JOB_H
#define HW_EXPORT_HPROF_HPROF_JOB_H

#include <stdio.h>

#include "base/memory/map64.h"
#include "base/text/strbuf.h"
#include "export/hprof/hprof_layout.h"
#include "export/hprof/hprof_writer.h"

enum {
    HW_HPROF_ID_BYTES = 8,
    HW_HPROF_FIRST_STACK = 2, /* of the first thread */
    HW_HPROF_TAG_STACK = 0x05
};

struct hw_hprof_out_job {
    struct hw_hprof_layout l;
    const struct hw_heap_graph *g;
    FILE *out;
    struct hw_strbuf segment, name;
    struct hw_strings *names; /* strings written so far */
    bool has_empty;           /* the empty string is written, too */
    struct hw_strbuf bytes;   /* of the current instance */
    uint64_t size_of_class;   /* of java.lang.Class, in memory */
    uint32_t class_class, object_class;
    struct hw_map64 class_named; /* hash of name -> class */
    struct hw_map64 frame_ids;   /* the set of frames written */
    struct hw_map64 stack_of;    /* callsite -> the first thread with this stack */
    struct hw_map64 name_in;     /* array with a thread's name -> thread */
    int rc;
};

void hw_hprof_out_put(struct hw_strbuf *b, uint64_t v, unsigned n_bytes);
void hw_hprof_out_put_head(struct hw_hprof_out_job *j, uint8_t tag, uint64_t length);
struct hw_bytes hw_hprof_out_text(const struct hw_hprof_out_job *j, hw_str_id id);
void hw_hprof_out_write_out(struct hw_hprof_out_job *j, struct hw_strbuf *b);
uint64_t hw_hprof_out_text_id(struct hw_hprof_out_job *j, struct hw_bytes s);
bool hw_hprof_out_is_written(const struct hw_hprof_out_job *j, uint32_t class);
struct hw_bytes hw_hprof_out_class_name(struct hw_hprof_out_job *j, uint32_t class);
bool hw_hprof_out_add_latin1(struct hw_strbuf *out, struct hw_bytes utf8);
void hw_hprof_out_put_threads(struct hw_hprof_out_job *j);

uint64_t hw_hprof_out_object_id(uint32_t o);
void hw_hprof_out_put_zeros(struct hw_strbuf *b, uint64_t n);
void hw_hprof_out_end_if_full(struct hw_hprof_out_job *j);
void hw_hprof_out_put_root(struct hw_hprof_out_job *j, uint32_t o);

#endif
