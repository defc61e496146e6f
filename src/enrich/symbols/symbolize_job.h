/*
 * symbolize_job.h - one symbolization while it runs
 */
#ifndef HW_ENRICH_SYMBOLS_SYMBOLIZE_JOB_H
#define HW_ENRICH_SYMBOLS_SYMBOLIZE_JOB_H

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "enrich/load_bias.h"
#include "enrich/symbols/symbolize.h"

struct hw_symbolize_place {
    uint32_t module; /* the first mapping of that (path, build id) */
    uint32_t frame;
    uint64_t rel_pc; /* as in the trace */
    uint64_t va;     /* in the file */
};

struct hw_symbolize_job {
    struct hw_profile *p;
    const struct hw_symbolize_options *o;
    struct hw_pb *packets;
    struct hw_symbolize_result result;
    struct hw_binaries *binaries;
    struct hw_demangler *names;
    struct hw_line_reader *reader;
    struct hw_map64 new_callers;      /* frames that call operator new */
    struct hw_llvm *llvm;             /* NULL = not asked for, or it failed */
    struct hw_debuginfod *debuginfod; /* NULL = not asked for, or not there */
    struct hw_strbuf text;
    HW_VEC(struct hw_symbolize_place) places; /* by module, then va */
    struct hw_map64 module_by_key;

    /* the current module */
    struct hw_symbolize_place *at;
    size_t n_at;
    HW_VEC(uint64_t) va;    /* of at, without repetition */
    struct hw_elf *symbols; /* of the best file so far; NULL = none found */
    int fd;                 /* its */
    char *file;             /* its name */
    uint32_t number;        /* its, for the reader */
    bool is_unreadable;     /* its debug info */
    uint32_t n_files;       /* inspected, of all modules */
    struct hw_code_place code;
    uint64_t deadline_ns; /* 0 = none */
    size_t first_va;      /* of va: what index 0 of an answer means */
    size_t n_answered;    /* of va */
    size_t next;          /* of at: the first not yet answered */
    bool packet_open;
    size_t packet_start;
    HW_VEC(struct hw_symbol_line) chain;
};

struct hw_bytes hw_symbolize_text_of(const struct hw_symbolize_job *j, hw_str_id id);
void hw_symbolize_warn(struct hw_symbolize_job *j, const char *fmt, ...);
bool hw_symbolize_is_late(const struct hw_symbolize_job *j);
/* The mapping that stands for the current module. */
const struct hw_mapping *hw_symbolize_module(const struct hw_symbolize_job *j);
/* j->chain as the lines of this address. Nothing is written without j->packets. */
void hw_symbolize_put_address(struct hw_symbolize_job *j, uint64_t rel_pc);
void hw_symbolize_close_packet(struct hw_symbolize_job *j);
void hw_symbolize_put_type(struct hw_symbolize_job *j, uint64_t rel_pc, const char *type);
int hw_symbolize_request_types(struct hw_symbolize_job *j);
int hw_symbolize_list_new_callers(struct hw_symbolize_job *j);
int hw_symbolize_name_types(struct hw_symbolize_job *j);

#endif
