/*
 * append_profile.h - adds the callstacks of one profile to another
 *
 * Why:     merging profiles of several files: the same stack in two files is one stack.
 * Shapes:  mappings, frames, names and symbol sets are interned again. Mappings are the same if
 *          build id, path and offsets are, wherever they were loaded, so that functions of one
 *          binary match. Without a build id the addresses must be the same, too.
 * Owns:    nothing; `into` copies what it needs. `into` must not be frozen, `from` is only read.
 * Errors:  HW_ENOMEM, HW_ELIMIT. On error `into` holds part of it.
 * Cost:    O(frames + callsites) of `from`, and its mappings times those of `into`.
 */
#ifndef HW_MODEL_APPEND_PROFILE_H
#define HW_MODEL_APPEND_PROFILE_H

#include "model/profile.h"

/* out: by callsite of `from`, its callsite in `into`; hw_callsites_count(from) of them. */
int hw_callsites_append(struct hw_callsites *into, const struct hw_callsites *from,
                        hw_callsite_id *out);

#endif
