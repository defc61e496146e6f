/*
 * symbol_packets.h - packets that give names to frames of the same trace
 *
 * Why:     symbolizers and deobfuscators append their results to a trace; the frames may be
 *          anywhere in the file, so these packets are read when all frames are known.
 * Shapes:  ModuleSymbols: by the exact pair (path, build id) and address = rel_pc.
 *          The later packet wins. (DeobfuscationMapping: deobfuscate.h.)
 * Owns:    an index of the frames that exist at init; names go into the profile.
 * Errors:  HW_ENOMEM, HW_ELIMIT; damage is counted in the profile's statistics.
 * Source:  doc/formats/trace.md, "Symbols and name maps"
 */
#ifndef HW_IMPORT_PERFETTO_SYMBOL_PACKETS_H
#define HW_IMPORT_PERFETTO_SYMBOL_PACKETS_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "model/profile.h"

struct hw_indexed_frame {
    uint64_t rel_pc;
    uint32_t module; /* the first mapping of that (path, build id) */
    uint32_t frame;
};

struct hw_frame_index {
    struct hw_profile *profile;             /* borrowed */
    HW_VEC(struct hw_indexed_frame) frames; /* sorted by (module, rel_pc, frame) */
    struct hw_map64 module_by_key;          /* path << 32 | build id -> module */
};

int hw_frame_index_init(struct hw_frame_index *ix, struct hw_profile *profile);
void hw_frame_index_done(struct hw_frame_index *ix);
int hw_import_module_symbols(struct hw_frame_index *ix, struct hw_bytes message);
/* Counts binaries that were pushed to a device by hand without a build id: they can be rebuilt with
 * one. */
int hw_import_check_mappings(struct hw_profile *p);

#endif
