/*
 * line_reader.h - functions, files and lines of foreign files, read by a separate process
 *
 * Why:     a crash, a loop or a flood of memory over a damaged file costs the rest of that file's
 *          answers and nothing else (line_worker.h is the other side).
 * Shapes:  the caller gives each file a number. Answers are as those of elf/lines.h.
 *          The process is started by the first request, and again by the next one after it failed.
 * Errors:  HW_EGONE (it crashed), HW_ETIMEOUT, HW_EFORMAT (it answered nonsense), HW_ESYS (not
 *          started), or what it reports itself. It is ended then; answers that came stay good. The
 *          text of err says what it did, for a sentence that began with "reading 'FILE': ".
 * Threads: one owner at a time; several owners in one program do not disturb each other (started
 *          by posix_spawn, never forked).
 */
#ifndef HW_ENRICH_LINES_LINE_READER_H
#define HW_ENRICH_LINES_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "elf/lines.h"

struct hw_error;
struct hw_line_reader;

/* folded: hw_lines_is_folded. Everything pointed to lives until the callback returns. */
typedef int (*hw_line_answer_fn)(void *ctx, size_t index, const struct hw_line *chain, size_t n,
                                 bool folded);

/* base_ms: the longest wait for a small file, large ones get more; 0 = HW_LINE_READER_MS. */
#define HW_LINE_READER_MS 30000u

int hw_line_reader_new(unsigned base_ms, struct hw_line_reader **out);
/* Asked when a signal interrupts the wait: true = HW_ETIMEOUT. */
void hw_line_reader_stop_when(struct hw_line_reader *r, bool (*stopped)(void *ctx), void *ctx);
void hw_line_reader_free(struct hw_line_reader *r); /* NULL is fine */

int hw_line_reader_check_file(struct hw_line_reader *r, uint32_t file, int fd, uint64_t deadline_ns,
                              bool *has_debug_info, struct hw_error *err);

/* deadline_ns: of hw_now_monotonic_ns, 0 = none but the reader's own. What answer returns, if not
 * 0, ends the questions and is returned. */
int hw_line_reader_resolve(struct hw_line_reader *r, uint32_t file, int fd,
                           const uint64_t *ascending, size_t n, uint64_t deadline_ns,
                           hw_line_answer_fn answer, void *ctx, struct hw_error *err);

/* The same question as that of elf/new_types.h. */
int hw_line_reader_new_types(struct hw_line_reader *r, uint32_t file, int fd,
                             const uint64_t *ascending, size_t n, uint64_t deadline_ns,
                             hw_line_answer_fn answer, void *ctx, struct hw_error *err);

/* The reader of answers alone: bytes as a worker would have sent them to a question for n
 * addresses. HW_ETRUNCATED: they end before the answer does. */
int hw_line_reader_parse(struct hw_bytes answers, size_t n, hw_line_answer_fn answer, void *ctx,
                         struct hw_error *err);

#endif
