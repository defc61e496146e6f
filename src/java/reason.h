/*
 * reason.h - why a heap graph was not taken, or only in another way
 *
 * Source:  reasons.def
 */
#ifndef HW_JAVA_REASON_H
#define HW_JAVA_REASON_H

enum hw_java_reason {
    HW_JAVA_OK = 0,
#define X(ID, code, text, remedy) HW_JAVA_##ID,
#include "java/reasons.def"
#undef X
    HW_JAVA_REASON_COUNT
};

const char *hw_java_reason_code(int reason);   /* "jvm_gone"; "?" for numbers that are none */
const char *hw_java_reason_text(int reason);   /* one sentence */
const char *hw_java_reason_remedy(int reason); /* "" = none */
/* "child_crashed:11": the code with its number, where that says more. Gives out. */
#define HW_JAVA_CODE_MAX 64
const char *hw_java_reason_with(int reason, int detail, char out[HW_JAVA_CODE_MAX]);
const char *hw_java_mode_text(unsigned mode); /* "fork, objects by address" */

#endif
