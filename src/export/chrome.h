/*
 * chrome.h - the trace event format of chrome://tracing: processes and counters
 *
 * Why:     viewers of that format draw counters over time. A heap profile has some: live bytes and
 *          objects of each heap at its dumps, and the processes' RSS and swap. The same dumps, and
 *          those of memory-infra that the trace has, are memory dumps (phase v), an allocator each.
 *          Callstacks do not fit in; use pprof, speedscope and the others.
 * Units:   ts in microseconds, with three digits behind the point.
 * Errors:  HW_ENOMEM, HW_ESYS.
 * Source:  the format's public description ("Trace Event Format"): phases M, C and v
 */
#ifndef HW_EXPORT_CHROME_H
#define HW_EXPORT_CHROME_H

struct hw_error;
struct hw_profile;

/* Frozen profiles only. */
int hw_export_chrome(const struct hw_profile *p, int fd, struct hw_error *err);

#endif
