/*
 * read.h - what the files that read a binary configuration share; private to config/
 */
#ifndef HW_CONFIG_READ_H
#define HW_CONFIG_READ_H

#include <stddef.h>

#include "base/bytes.h"
#include "config/config.h"

struct hw_error;
struct hw_pb_field;

/* Adds one line to c->warnings. */
void hw_config_warn(struct hw_trace_config *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A copy of a string field; text with a NUL inside is refused. Replaces what *out holds. */
int hw_config_take_string(struct hw_bytes text, char **out, struct hw_error *err);
/* A number truncated as a 32-bit field would hold it. */
static inline uint32_t hw_config_u32(uint64_t v)
{
    return (uint32_t)v;
}

/* Plain numeric fields are read by a table, one row per field. */
enum hw_number_kind { HW_NUMBER_BOOL, HW_NUMBER_32, HW_NUMBER_64 };

struct hw_config_number {
    uint32_t field;
    enum hw_number_kind kind;
    size_t at; /* of the member in its struct */
};

/* The member's type decides how the value is stored. */
#define HW_CONFIG_NUMBER(field, type, member)                                                      \
    {                                                                                              \
        (field),                                                                                   \
            _Generic(((type *)NULL)->member, bool                                                  \
                     : HW_NUMBER_BOOL, uint32_t                                                    \
                     : HW_NUMBER_32, int32_t                                                       \
                     : HW_NUMBER_32, uint64_t                                                      \
                     : HW_NUMBER_64, int64_t                                                       \
                     : HW_NUMBER_64),                                                              \
            offsetof(type, member)                                                                 \
    }

/* Other fields are ignored. */
void hw_config_take_number(const struct hw_config_number *table, size_t n,
                           const struct hw_pb_field *f, void *out);
/* The same for a whole message: 0, or HW_EFORMAT, HW_ETRUNCATED. */
int hw_config_read_numbers(struct hw_bytes message, const struct hw_config_number *table, size_t n,
                           void *out);

/* Adding to a list: HW_OK or the failure. */
#define HW_CONFIG_PUSH_STRING(vec, bytes, err)                                                     \
    ({                                                                                             \
        char *copy_ = NULL;                                                                        \
        int rc_ = hw_config_take_string((bytes), &copy_, (err));                                   \
        if (rc_ == 0 && hw_vec_push((vec), copy_) < 0) {                                           \
            free(copy_);                                                                           \
            rc_ = hw_fail((err), HW_ENOMEM, 0, "configuration");                                   \
        }                                                                                          \
        rc_;                                                                                       \
    })

#define HW_CONFIG_PUSH_NUMBER(vec, value, err)                                                     \
    (hw_vec_push((vec), (value)) < 0 ? hw_fail((err), HW_ENOMEM, 0, "configuration") : HW_OK)

/* Repeated numbers may be packed or not. */
#define HW_CONFIG_PUSH_NUMBERS(vec, field, err)                                                    \
    ({                                                                                             \
        int rc_ = HW_OK;                                                                           \
        struct hw_bytes rest_ = (field)->bytes;                                                    \
        uint64_t one_;                                                                             \
        if ((field)->wire == HW_PB_VARINT)                                                         \
            rc_ = HW_CONFIG_PUSH_NUMBER((vec), (field)->value, (err));                             \
        else if ((field)->wire == HW_PB_BYTES)                                                     \
            while (rc_ == HW_OK && (rc_ = hw_pb_next_packed(&rest_, &one_)) > 0)                   \
                rc_ = HW_CONFIG_PUSH_NUMBER((vec), one_, (err));                                   \
        rc_;                                                                                       \
    })

/* JavaHprofConfig. */
int hw_java_config_read(struct hw_bytes message, struct hw_java_config *out,
                        struct hw_trace_config *c, struct hw_error *err);
void hw_java_config_done(struct hw_java_config *c);

/* HeapprofdConfig: its fields, then (once all are read) defaults, derivation, refusals. The struct
 * is the caller's to free with hw_heapprofd_config_done. */
struct hw_heapprofd_raw {
    struct hw_heapprofd_config c;
    HW_VEC(char *) heaps, exclude_heaps;
    HW_VEC(uint64_t) heap_intervals;
    bool installed_by;
};
int hw_heapprofd_read(struct hw_bytes message, struct hw_heapprofd_raw *raw, struct hw_error *err);
int hw_heapprofd_derive(struct hw_heapprofd_raw *raw, struct hw_trace_config *c,
                        struct hw_error *err);
void hw_heapprofd_raw_done(struct hw_heapprofd_raw *raw);
void hw_heapprofd_config_done(struct hw_heapprofd_config *c);

#endif
