/*
 * firefox.h - the Firefox profiler's file format: allocations and releases by callstack, over time
 *
 * Why:     profiler.firefox.com draws call trees, flame graphs and memory tracks of such files for
 *          any selected time range.
 * Shapes:  the "processed" format, version 48. A heap of a process is a thread with
 *          `nativeAllocations`: one row per row of a dump, at the dump's time; weight = bytes,
 *          negative for frees. Live bytes are a counter of category Memory. Inlined functions are
 *          stack nodes of their own. A heap dumped only at its peak has its last such dump.
 * Units:   times in ms since the start of the trace; addresses in the ELF file's own space.
 * Errors:  HW_ENOMEM, HW_ESYS.
 * Source:  firefox-devtools/profiler, docs-developer/processed-profile-format.md and
 *          CHANGELOG-formats.md
 */
#ifndef HW_EXPORT_FIREFOX_H
#define HW_EXPORT_FIREFOX_H

struct hw_error;
struct hw_namer;
struct hw_profile;

/* Frozen profiles only. namer: NULL = raw names. */
int hw_export_firefox(const struct hw_profile *p, const struct hw_namer *namer, int fd,
                      struct hw_error *err);

#endif
