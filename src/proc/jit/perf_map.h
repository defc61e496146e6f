/*
 * perf_map.h - the lines of a /tmp/perf-PID.map → generated code
 *
 * Why:     node, .NET, LuaJIT, Python and JVMs can write one; each line says what was compiled:
 *              7f3a0c001000 1c0 LazyCompile:*grow /srv/app.js:17
 *          Start and size are hexadecimal, the name is the rest of the line.
 * Shapes:  the file grows while it is read; a piece of it may end inside a line. A later line hides
 *          earlier ones at its addresses: there are no times in it.
 * Errors:  malformed lines are counted and skipped. HW_ENOMEM, HW_ELIMIT (the map is full).
 */
#ifndef HW_PROC_JIT_PERF_MAP_H
#define HW_PROC_JIT_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "proc/jit/jit_code.h"

#define HW_PERF_MAP_MAX_LINE 8192u /* what is longer has its end dropped */

/* Takes the complete lines. last: so is what follows the last newline. */
int hw_perf_map_read(struct hw_jit_code *c, struct hw_bytes piece, bool last, size_t *used,
                     uint64_t *n_bad);

#endif
