/*
 * chrome.h - the trace event format of chrome://tracing: processes and counters
 *
 * Why:     viewers of that format draw counters over time. A heap profile has some: live bytes and
 *          objects of each heap at its dumps, and the processes' RSS and swap. The heap dumps, and
 *          any memory-infra dumps in the trace, are also written as memory dumps (phase v).
 *          The format has no room for callstacks; use pprof, speedscope or another exporter.
 * Units:   ts in microseconds, with three decimals.
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
