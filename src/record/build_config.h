/*
 * build_config.h - from options to a TraceConfig
 *
 * Why:     an option's row in options.def names the field it sets, and the schema says how the
 *          field is written, so such an option needs no code here. What depends on more than one
 *          option is set by name.
 * Shapes:  a field is named by its path: "duration_ms" of TraceConfig, "heapprofd_config.pid" of a
 *          data source's configuration. If a field is set twice, the later value wins. Fields are
 *          written in the order of Perfetto's heap_profile, then by number, so --print-config
 *          prints the same as heap_profile.
 * Owns:    the list; paths, texts and numbers are borrowed.
 * Errors:  HW_ENOMEM; HW_ENOTFOUND, HW_EINVAL: no such field, or a value of another type.
 */
#ifndef HW_RECORD_BUILD_CONFIG_H
#define HW_RECORD_BUILD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "schema/fields.h"

struct hw_error;
struct hw_opts;
struct hw_pb;
struct hw_schema_field;

struct hw_config_value {
    const char *field;
    uint64_t number;         /* if the others are NULL */
    const char *text;        /* or */
    char *const *texts;      /* n of them, or */
    const uint64_t *numbers; /* n of them */
    size_t n;
};

struct hw_config_values {
    HW_VEC(struct hw_config_value) v;
    bool packages_list;     /* adds the data source of that name too */
    bool python_allocators; /* kept as an attribute of the trace, for the report */
    bool failed;            /* out of memory: hw_build_config says so */
};

#define HW_ATTRIBUTE_PYTHON "heapwise.python_allocators"

/* Paths whose last component the compiler checks. */
#define HW_HEAPPROFD_FIELD(name)  ((void)HW_F_HeapprofdConfig_##name, "heapprofd_config." #name)
#define HW_JAVA_HPROF_FIELD(name) ((void)HW_F_JavaHprofConfig_##name, "java_hprof_config." #name)

/* The field at the end of the path, or NULL. */
const struct hw_schema_field *hw_config_field(const char *path);

void hw_config_set(struct hw_config_values *c, const char *field, uint64_t number);
void hw_config_set_text(struct hw_config_values *c, const char *field, const char *text);
/* None: as hw_config_unset. */
void hw_config_set_texts(struct hw_config_values *c, const char *field, char *const *v, size_t n);
void hw_config_set_numbers(struct hw_config_values *c, const char *field, const uint64_t *v,
                           size_t n);
void hw_config_unset(struct hw_config_values *c, const char *field);
void hw_config_values_done(struct hw_config_values *c);

/*
 * Every option with a field: its value or default. A default of 0 is left out, and so is a switch
 * that was not given.
 */
void hw_config_take_options(struct hw_config_values *c, const struct hw_opts *o);

/* Writes the binary TraceConfig to out, including what applies to every recording. */
int hw_build_config(struct hw_config_values *c, struct hw_strbuf *out, struct hw_error *err);
/* One data source of a TraceConfig: its name and the values below `field`. */
int hw_config_put_source(struct hw_pb *w, const char *name, const char *field,
                         const struct hw_config_values *c, struct hw_error *err);
/* The same as text on standard output; 0 or HW_E…. */
int hw_print_config(const struct hw_strbuf *binary, struct hw_error *err);

#endif
