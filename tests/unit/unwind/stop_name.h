/*
 * stop_name.h - why a walk ended, in a word
 */
#ifndef HW_TESTS_UNWIND_STOP_NAME_H
#define HW_TESTS_UNWIND_STOP_NAME_H

#include "unwind/walk.h"

static inline const char *stop_name(uint32_t stop)
{
    switch ((enum hw_walk_stop)stop) {
    case HW_STOP_END:
        return "END";
    case HW_STOP_ZERO:
        return "ZERO";
    case HW_STOP_LIMIT:
        return "LIMIT";
    case HW_STOP_NO_MODULE:
        return "NO_MODULE";
    case HW_STOP_PENDING:
        return "PENDING";
    case HW_STOP_UNSUP:
        return "UNSUP";
    case HW_STOP_BOUNDS:
        return "BOUNDS";
    case HW_STOP_BAD_CFA:
        return "BAD_CFA";
    case HW_STOP_SIGNALS:
        return "SIGNALS";
    case HW_STOP_FP_LOST:
        return "FP_LOST";
    case HW_STOP_COUNT:
        break;
    }
    return "?";
}

#endif
