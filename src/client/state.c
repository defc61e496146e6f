/*
 * state.c - the words that every part of the client reads
 *
 * They call nothing, so a user of one of them depends on no other part.
 */
#include "client/client.h"

#ifndef HW_BARE
__thread struct hw_tls hw_here __attribute__((tls_model("initial-exec")));
#endif
union hw_process_page_block hw_process_page_block __attribute__((aligned(HW_PAGE_ALIGN)));
union hw_control_block hw_control_block __attribute__((aligned(HW_PAGE_ALIGN)));
/* The name by which a recorder that starts later finds the page from outside. */
extern union hw_control_block heapwise_control_page
    __attribute__((alias("hw_control_block"), visibility("default")));

HW_HIDDEN _Atomic uint32_t hw_sandbox_filters;
HW_HIDDEN _Atomic uint32_t hw_sandbox_stricts;
HW_HIDDEN bool hw_memlock_undo;

/* What the program's modules see; begin and end are filled in before a module gets its address. */
HW_HIDDEN struct heapwise_marks hw_marks_shown = {HEAPWISE_MARKS_VERSION, 0, NULL, NULL};
