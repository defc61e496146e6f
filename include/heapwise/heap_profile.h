/*
 * heap_profile.h - report a custom allocator to the profiler
 *
 * Why:     the profiler sees malloc and its family itself. A pool, an arena, a region allocator or
 *          device memory shows up as a separate heap if it reports through these functions.
 * Shapes:  the functions are in libheapprofd_glibc_preload.so; a program that must also run without
 *          it declares them weak or looks them up with dlsym.
 * Units:   sizes in bytes; an alloc_id is any 64-bit value that no other live allocation of the
 *          same heap has, usually its address.
 * Owns:    names are copied. An AHeapInfo lives as long as the process.
 * Threads: any thread may call every function; signal handlers may call the report functions.
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

/* NULL when the name has 64 bytes or more, or when all 251 heaps are taken. */
AHeapInfo *AHeapInfo_create(const char *heap_name);

/* Called when a session begins or ends profiling this heap. They return the heap; NULL if it was
 * NULL or already registered. */
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

/* Registers the heap and returns its id, 0 for NULL. A running session that selects it starts at
 * once. */
uint32_t AHeapProfile_registerHeap(AHeapInfo *heap);

/* Runs the sampler; true if this allocation was recorded. */
bool AHeapProfile_reportAllocation(uint32_t heap_id, uint64_t alloc_id, uint64_t size);
/* Always records: the program does the sampling, and size is what the sample stands for. */
bool AHeapProfile_reportSample(uint32_t heap_id, uint64_t alloc_id, uint64_t size);
/* To be called before the memory is freed. Ids that were not recorded are ignored. */
void AHeapProfile_reportFree(uint32_t heap_id, uint64_t alloc_id);

/* Asks the recorder for a session now and waits up to a second; true if a session runs, this one or
 * an earlier one. The functions are for compatibility with Perfetto, which takes a session's memory
 * from them: they must not be NULL and are not called. */
bool AHeapProfile_initSession(void *(*malloc_fn)(size_t), void (*free_fn)(void *));

#ifdef __cplusplus
}
#endif

#endif
