/*
 * heap_profile.h - tell the profiler of an allocator of your own
 *
 * Why:     the profiler sees malloc and its family by itself. A pool, an arena, a region allocator
 *          or memory of a device shows up as a heap of its own when it reports through here.
 * Shapes:  the functions live in libheapprofd_glibc_preload.so; a program that shall run without it
 *          too declares them weak or looks them up with dlsym.
 * Units:   sizes in bytes; an alloc_id is any 64-bit value that no other live allocation of the
 *          same heap has, usually its address.
 * Owns:    names are copied. An AHeapInfo lives as long as the process.
 * Threads: every function may be called from any thread; report functions from signal handlers too.
 *          Callbacks run inside one of these functions, never inside malloc.
 */
#ifndef HEAPWISE_HEAP_PROFILE_H
#define HEAPWISE_HEAP_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "marks.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct AHeapInfo AHeapInfo;
typedef struct AHeapProfileEnableCallbackInfo AHeapProfileEnableCallbackInfo;
typedef struct AHeapProfileDisableCallbackInfo AHeapProfileDisableCallbackInfo;

/* NULL when the name has 64 bytes or more, or when all 254 heaps are taken. */
AHeapInfo *AHeapInfo_create(const char *heap_name);

/* Called when a session begins, or ends, to profile this heap. They return the heap; NULL when it
 * was NULL or registered already. */
AHeapInfo *AHeapInfo_setEnabledCallback(AHeapInfo *heap,
                                        void (*callback)(void *data,
                                                         const AHeapProfileEnableCallbackInfo *),
                                        void *data);
AHeapInfo *AHeapInfo_setDisabledCallback(AHeapInfo *heap,
                                         void (*callback)(void *data,
                                                          const AHeapProfileDisableCallbackInfo *),
                                         void *data);
uint64_t AHeapProfileEnableCallbackInfo_getSamplingInterval(
    const AHeapProfileEnableCallbackInfo *session_info);

/* Makes the heap known; gives its id, 0 for NULL. A running session that selects it starts at once.
 */
uint32_t AHeapProfile_registerHeap(AHeapInfo *heap);

/* Runs the sampler; true when this allocation was recorded. */
bool AHeapProfile_reportAllocation(uint32_t heap_id, uint64_t alloc_id, uint64_t size);
/* Records always: the program samples by itself, size stands for what it speaks for. */
bool AHeapProfile_reportSample(uint32_t heap_id, uint64_t alloc_id, uint64_t size);
/* Before the memory is given back. Ids that were not recorded are ignored. */
void AHeapProfile_reportFree(uint32_t heap_id, uint64_t alloc_id);

/* Asks the recorder for a session now, within a second; true when one runs, this one or an earlier
 * one. The functions are for programs written for the original, which takes a session's memory from
 * them: they must be given and are not called, ours comes from the kernel. */
bool AHeapProfile_initSession(void *(*malloc_fn)(size_t), void (*free_fn)(void *));

#ifdef __cplusplus
}
#endif

#endif
