/*
 * options.h - one parser for the options of every command
 *
 * Why:     flags, defaults, units and ranges have one home (config/command/options.def); the
 *          parser, help, completions and configuration files read it as a table.
 * Shapes:  getopt_long's rules: `-i 4`, `-i4`, `--interval 4`, `--interval=4`, clusters of
 *          switches, unambiguous prefixes of long names, `--` ends the options. Later values
 *          override earlier ones, lists are appended to. Words that are not options are `args`.
 * Units:   SIZE in bytes, TIME in ms.
 * Owns:    lists and args; texts are borrowed from argv or from the configuration.
 * Errors:  HW_EINVAL with a text for the user.
 */
#ifndef HW_CONFIG_COMMAND_OPTIONS_H
#define HW_CONFIG_COMMAND_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "config/numbers.h"

struct hw_error;
struct hw_command;

enum hw_command_id {
#define X(ID, name, fn, flags, args, summary, examples) HW_CMD_##ID,
#include "config/command/commands.def"
#undef X
    HW_CMD_COUNT
};

enum hw_option_id {
#define X(ID, ...) HW_OPT_##ID,
#include "config/command/options.def"
#undef X
    HW_OPT_COUNT
};

enum hw_option_kind {
    HW_OK_FLAG,
    HW_OK_UINT,
    HW_OK_SIZE,
    HW_OK_TIME,
    HW_OK_TEXT,
    HW_OK_LIST,
    HW_OK_REPEAT,
    HW_OK_COUNT
};

enum hw_option_flags {
    HW_OF_COMMON = 1,
    HW_OF_HIDDEN = 2,
    HW_OF_ANDROID = 4,
    HW_OF_OPTIONAL = 8, /* takes a value only after "="; without one, the default */
    HW_OF_UNSETS = 16,  /* a switch that removes its field */
    HW_OF_WRITES = 32   /* names a file to write, or lets one be overwritten */
};

enum hw_option_group {
    HW_OG_TARGET,
    HW_OG_SAMPLING,
    HW_OG_DUMPS,
    HW_OG_BUFFER,
    HW_OG_OUTPUT,
    HW_OG_REPORT,
    HW_OG_SERVICE,
    HW_OG_PARTS,
    HW_OG_ANDROID_GROUP,
    HW_OG_GENERAL,
    HW_OG_COUNT
};

struct hw_option {
    const char *name;
    char short_name; /* 0 = none */
    const char *arg; /* NULL = a switch */
    enum hw_option_kind kind;
    const char *default_text; /* NULL = none */
    uint64_t min, max;        /* both 0 = no limit */
    const char *field;        /* its path in TraceConfig; NULL */
    enum hw_option_group group;
    uint32_t flags;    /* enum hw_option_flags */
    uint64_t commands; /* bit per enum hw_command_id */
    const char *help;
};

extern const struct hw_option hw_options[HW_OPT_COUNT];
const char *hw_option_group_title(enum hw_option_group g);

struct hw_optval {
    bool set;            /* set explicitly, not the default */
    unsigned count;      /* how often given: -vv */
    const char *origin;  /* "command line", a file or variable name; NULL = default */
    uint64_t num;        /* UINT, SIZE, TIME; FLAG: 0 or 1 */
    const char *text;    /* borrowed; the last one given, or the default */
    HW_VEC(char *) list; /* owned: LIST, REPEAT */
};

struct hw_opts {
    struct hw_optval v[HW_OPT_COUNT];
    char **args; /* owned array, borrowed words */
    size_t n_args;
    size_t n_before_dashes; /* args that stood before `--`; = n_args without it */
    bool had_dashes;
    HW_VEC(char *) kept; /* owned: settings text that values point into */
};

int hw_opts_init(struct hw_opts *o, const struct hw_command *cmd, struct hw_error *err);
void hw_opts_done(struct hw_opts *o);
/* argv[0] is ignored. */
int hw_opts_parse(struct hw_opts *o, const struct hw_command *cmd, int argc, char **argv,
                  struct hw_error *err);
/* Sets one value, as from a file or variable. */
int hw_opts_set(struct hw_opts *o, enum hw_option_id id, const char *text, const char *origin,
                struct hw_error *err);
/*
 * The option of cmd with this long name (with prefix: or an unambiguous prefix of it): an enum
 * hw_option_id, HW_ENOTFOUND, or HW_ELIMIT if several match. cmd NULL = any command.
 */
int hw_option_find(const struct hw_command *cmd, const char *name, size_t len, bool prefix);

static inline bool hw_opt_flag(const struct hw_opts *o, enum hw_option_id id)
{
    return o->v[id].num != 0;
}

static inline uint64_t hw_opt_num(const struct hw_opts *o, enum hw_option_id id)
{
    return o->v[id].num;
}

static inline const char *hw_opt_text(const struct hw_opts *o, enum hw_option_id id)
{
    return o->v[id].text;
}

/* --fail-above: a size, a count, or a percentage of the old value ("5%"). */
struct hw_limit {
    double value;
    bool is_share; /* value is a percentage */
};

int hw_parse_limit(const char *text, bool bytes, struct hw_limit *out, struct hw_error *err);

#endif
