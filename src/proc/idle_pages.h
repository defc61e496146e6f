/*
 * idle_pages.h - which pages of a process were not used since the last measurement
 *
 * Why:     bytes that are live and unused are what a program could free. Only the kernel knows
 *          them: by its bitmap (one bit per page of memory, set by us, cleared by its use; needs
 *          CONFIG_IDLE_PAGE_TRACKING and CAP_SYS_ADMIN), or else by the Referenced: lines of smaps,
 *          one number per mapping, cleared through clear_refs: there a page is idle only if nothing
 *          in its whole mapping was used, so less is found.
 * Shapes:  pages are numbers: address / page_bytes.
 *          Both ways clear the bit that the processor sets when it loads a translation, and leave
 *          what it has loaded: memory used without a reload between two measurements shows as idle.
 *          Measurements within milliseconds of each other say little.
 * Errors:  HW_EGONE when the process has ended, HW_EPERM without the rights, HW_ESYS.
 * Threads: one owner at a time.
 * Source:  the kernel's admin-guide/mm: idle_page_tracking, pagemap
 */
#ifndef HW_PROC_IDLE_PAGES_H
#define HW_PROC_IDLE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define HW_IDLE_BITMAP "/sys/kernel/mm/page_idle/bitmap"
#define HW_IDLE_FLAGS  "/proc/kpageflags"

enum hw_idle_way { HW_IDLE_NONE = 0, HW_IDLE_REFERENCED, HW_IDLE_BY_BITMAP };

struct hw_idle {
    enum hw_idle_way way;
    int dir;        /* borrowed: /proc/PID */
    int pagemap_fd; /* owned; -1 = not open, as below */
    int bitmap_fd;
    int flags_fd; /* kpageflags: finds the first page of a huge one; -1 = those count as used */
    uint64_t page_bytes;
    bool marked; /* there was a measurement before */
};

/* What this machine offers. */
enum hw_idle_way hw_idle_available(void);
/* bitmap, flags: paths of the files; NULL = there is none. */
int hw_idle_open(int proc_dir, const char *bitmap, const char *flags, struct hw_idle *out,
                 struct hw_error *err);
void hw_idle_done(struct hw_idle *x);
/* pages: ascending, each once. idle[i] = not used since the last look, false at the first one. All
 * of them are marked for the next. */
int hw_idle_scan(struct hw_idle *x, const uint64_t *pages, size_t n, bool *idle,
                 struct hw_error *err);

#endif
