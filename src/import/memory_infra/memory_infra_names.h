/*
 * memory_infra_names.h - replaces addresses by names in a JSON trace's heap dumps
 *
 * Why:     a dump written in the target names a frame by its address, `pc:55d0c0de1145`. Addresses
 *          are symbolized later, and everything else in the file must stay as it is.
 * Shapes:  read collects the addresses of frames and types, with the mapping of each (from the
 *          process's last mappings); the caller sets names; write copies the file byte by byte,
 *          except for the events with names. Version 2: all maps of a process go into its earliest
 *          event, later ones get empty lists; ids stay the same, new ones come from one counter
 *          for the whole file. The address of a frame that calls others is a return address: look
 *          up the byte before it.
 * Units:   start, first_start, va and pc are bytes. va is the address in the ELF file.
 * Owns:    texts, regions, addresses, until free.
 * Errors:  HW_EFORMAT with the position (not a JSON trace, both versions in one file, an unknown
 *          version, ids that are not numbers), HW_ENOMEM, HW_ELIMIT, HW_ESYS of the sink. Damaged
 *          events are copied.
 * Source:  doc/formats/memory-infra.md, "Names in place"
 */
#ifndef HW_IMPORT_MEMORY_INFRA_MEMORY_INFRA_NAMES_H
#define HW_IMPORT_MEMORY_INFRA_MEMORY_INFRA_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/text/strings.h"
#include "model/ids.h"

struct hw_error;
struct hw_infra_names;
struct hw_source;

struct hw_infra_region {
    uint64_t start, end;
    uint64_t first_va;    /* of start; only with has_va */
    uint64_t first_start; /* of the file's first region in this process */
    bool has_va;
    hw_str_id path, build_id; /* path without " (deleted)"; build id in hexadecimal, or "" */
};

struct hw_infra_address {
    uint64_t pc;
    bool is_return;
    uint32_t region; /* HW_ID_NONE = in none */
};

int hw_infra_names_read(struct hw_source *source, struct hw_infra_names **out,
                        struct hw_error *err);
void hw_infra_names_free(struct hw_infra_names *x); /* NULL is fine */

const char *hw_infra_names_text(const struct hw_infra_names *x, hw_str_id id);
const struct hw_infra_region *hw_infra_names_regions(const struct hw_infra_names *x, size_t *n);
const struct hw_infra_address *hw_infra_names_addresses(const struct hw_infra_names *x, size_t *n);
size_t hw_infra_names_n_heaps(const struct hw_infra_names *x); /* processes with heap dumps */

/* Innermost first; each of several inlined functions becomes a frame. Each address must get at
 * least one name. */
int hw_infra_names_set(struct hw_infra_names *x, size_t address, const char *const *names,
                       size_t n);
/* The type becomes the name of the caller two frames above the allocating one. */
void hw_infra_names_frames_as_types(struct hw_infra_names *x);

typedef int (*hw_infra_sink)(void *ctx, struct hw_bytes bytes, struct hw_error *err);
/* source: the same bytes again. */
int hw_infra_names_write(struct hw_infra_names *x, struct hw_source *source, hw_infra_sink sink,
                         void *ctx, struct hw_error *err);

#endif
