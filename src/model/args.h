/*
 * args.h - named values that belong to a row of another table: table `args`
 *
 * Shapes:  a set is a number; its rows are adjacent. flat_key leaves out array indexes.
 * Owns:    its rows; strings belong to the profile.
 */
#ifndef HW_MODEL_ARGS_H
#define HW_MODEL_ARGS_H

#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strings.h"

enum hw_arg_type { HW_ARG_INT, HW_ARG_UINT, HW_ARG_STRING, HW_ARG_REAL, HW_ARG_BOOL };

struct hw_arg_row {
    uint32_t set;
    enum hw_arg_type type;
    hw_str_id flat_key, key;
    hw_str_id text; /* STRING */
    int64_t number; /* INT, UINT (the same bits), BOOL */
    double real;    /* REAL */
};

struct hw_args {
    HW_VEC(struct hw_arg_row) rows; /* in order of set */
    uint32_t n_sets;
};

#endif
