/*
 * source_lines.h - lines of source and what was allocated through them
 *
 * Why:     knowing the function, one still wants the line. With debug info, each frame has one:
 *          where it calls the next function, or allocates itself.
 * Shapes:  a row is (file, line). self: stacks that end there (at the site with HW_FLAME_SITES);
 *          total: stacks that pass through it, each counted once even if it recurs. Inlined
 *          functions count as frames. Rows are sorted by file id and line; frames without a line
 *          have none. By function, a row is (file, function) with its smallest line.
 * Owns:    its rows; file names are the profile's strings.
 * Errors:  HW_ENOMEM.
 * Cost:    O(frames + sum of depths).
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/pages.md
 */
#ifndef HW_VIEWS_FLAME_SOURCE_LINES_H
#define HW_VIEWS_FLAME_SOURCE_LINES_H

#include "base/memory/vec.h"
#include "views/flame/flame.h"

struct hw_line_row {
    hw_str_id file;
    uint32_t line;
    uint32_t function; /* by function only */
    struct hw_value self, total;
};

typedef HW_VEC(struct hw_line_row) hw_line_rows;

enum hw_lines_by { HW_LINES_BY_LINE, HW_LINES_BY_FUNCTION };

/* q: cs, fns, values, flags; its filters are ignored. */
int hw_lines_find(const struct hw_flame_input *q, enum hw_lines_by by, hw_line_rows *out);

#endif
