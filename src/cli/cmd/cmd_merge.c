/*
 * heapwise merge OUT IN..., heapwise merge -o OUT IN...
 *
 * Into a trace: the packets of all inputs, so that nothing is lost; their processes appear next to
 * each other. Into a pprof file (by OUT's name): the values of all processes of all inputs added up
 * by stack, whatever their formats.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/plural.h"
#include "base/text/text_parts.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "export/export.h"
#include "import/import.h"
#include "import/perfetto/perfetto_reader.h"
#include "record/output.h"
#include "trace/merge.h"
#include "views/time/profile_sum.h"

#include "base/banned.h"

/* Start times of one process in two recordings may differ: they are stored in rounded units. */
static const double same_start_ns = 1e9;

struct files {
    const char *out;
    char *const *in;
    size_t n;
};

/* OUT is the argument of -o, else the first word. */
static struct files files_of(const struct hw_opts *o)
{
    const char *out = hw_opt_text(o, HW_OPT_OUTPUT);
    size_t skip = !out && o->n_args;
    return (struct files){out || !skip ? out : o->args[0], o->args + skip, o->n_args - skip};
}

/* ---- into a trace ---- */

struct known {
    int64_t pid, start_ns;
    const char *path;
};

typedef HW_VEC(struct known) known_processes;

/* A process recorded twice would count twice; readers tell processes apart by pid and start time.
 */
static int check_processes(const char *path, const struct hw_profile *p, known_processes *known,
                           struct hw_error *err)
{
    size_t n_before = known->n;
    for (uint32_t i = 0; i < p->processes.n; i++) {
        bool has_dumps = hw_by_process_of(&p->dumps_of, (hw_upid){i}).n > 0;
        struct known k = {p->processes.v[i].pid, p->processes.v[i].start_ns, path};
        for (size_t j = 0; has_dumps && j < n_before; j++) {
            const struct known *x = &known->v[j];
            if (x->pid != k.pid || (x->start_ns >= 0 && k.start_ns >= 0 &&
                                    fabs((double)x->start_ns - (double)k.start_ns) > same_start_ns))
                continue;
            return hw_fail(
                err, HW_EINVAL, 0,
                "'%s' and '%s' both hold pid %lld and nothing tells it apart; merge into "
                "OUT.pb.gz to add them up",
                x->path, path, (long long)k.pid);
        }
        if (has_dumps && hw_vec_push(known, k) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static int check_input(const char *path, known_processes *known, struct hw_error *err)
{
    uint8_t head[4096];
    struct hw_profile *p;
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hw_fail_sys(err, "cannot open '%s'", path);
    int rc = hw_import_refuse_directory(fd, path, err);
    if (rc < 0)
        return rc;
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n < 0)
        return hw_fail_sys(err, "cannot read '%s'", path);
    if (hw_importer_find(hw_bytes_of(head, (size_t)n)) != &hw_import_perfetto)
        return hw_fail(err, HW_EINVAL, 0,
                       "'%s' is not a trace; profiles of any format can be merged into OUT.pb.gz",
                       path);
    rc = hw_import_file(path, &p, err);
    if (rc < 0)
        return rc;
    rc = check_processes(path, p, known, err);
    hw_profile_free(p);
    return rc;
}

static void tell_damage(const struct hw_cli *cli, const struct hw_trace_merge_input *in)
{
    const struct hw_reader_stats *s = &in->stats;
    uint64_t n_packets = s->damaged_packets + s->damaged_compressed + s->unpacked_cut;
    if (s->damaged_packets || s->skipped_bytes || s->damaged_compressed || s->unpacked_cut ||
        s->truncated)
        hw_cli_error(cli, NULL,
                     "'%s' is damaged: %llu packet%s and %llu byte%s between packets left out",
                     in->path, (unsigned long long)n_packets, hw_plural(n_packets),
                     (unsigned long long)s->skipped_bytes, hw_plural(s->skipped_bytes));
    if (s->unknown_fields)
        hw_cli_error(cli, NULL, "'%s': %llu field%s beside the packets left out", in->path,
                     (unsigned long long)s->unknown_fields, hw_plural(s->unknown_fields));
}

static int merge_traces(const struct hw_cli *cli, const struct files *files, struct hw_error *err)
{
    struct hw_output out = HW_OUTPUT_NONE;
    known_processes known = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == 0 && i < files->n; i++)
        rc = check_input(files->in[i], &known, err);
    hw_vec_done(&known);
    if (rc < 0)
        return rc;
    rc = hw_output_open(files->out, "merged", (int)getpid(), hw_opt_flag(&cli->opts, HW_OPT_FORCE),
                        &out, err);
    if (rc < 0)
        return rc;
    struct hw_trace_merge m = {.out_fd = out.fd};
    hw_autofree struct hw_trace_merge_input *in = calloc(files->n, sizeof *in);
    for (size_t i = 0; in && i < files->n; i++)
        in[i].path = files->in[i];
    rc = in ? hw_trace_merge(&m, in, files->n, err) : HW_ENOMEM;
    for (size_t i = 0; rc == 0 && i < files->n; i++)
        tell_damage(cli, &in[i]);
    if (rc == 0)
        rc = hw_output_finish(&out, "merged", (int)getpid(), err);
    else
        hw_output_discard(&out);
    hw_output_done(&out);
    return rc;
}

/* ---- into a pprof file ---- */

static int add_file(struct hw_profile_sum *b, const char *path, struct hw_error *err)
{
    struct hw_profile *p;
    int rc = hw_import_file(path, &p, err);
    if (rc < 0)
        return rc;
    struct hw_profile_sum_part part = {.p = p, .upid = {HW_ID_NONE}, .role = HW_PROFILE_SUM_ADD};
    rc = hw_profile_sum_add(b, &part);
    hw_profile_free(p);
    return rc;
}

static int write_sum(const struct hw_cli *cli, const char *path, struct hw_profile_sum *b,
                     struct hw_error *err)
{
    hw_values values = {0};
    struct hw_output out = HW_OUTPUT_NONE;
    struct hw_demangler *demangler = NULL;
    int rc = hw_profile_sum_values(b, &values, NULL);
    if (rc == 0)
        rc = hw_demangler_new(hw_callsites_strings(b->p->callsites), &demangler);
    if (rc == 0)
        rc = hw_output_open(path, "merged", (int)getpid(), hw_opt_flag(&cli->opts, HW_OPT_FORCE),
                            &out, err);
    FILE *f = rc == 0 ? fdopen(dup(out.fd), "w") : NULL;
    if (rc == 0 && !f)
        rc = hw_fail_sys(err, "cannot write '%s'", path);
    struct hw_namer namer = {hw_demangle_shown, demangler};
    struct hw_export_input in = {.profile = b->p,
                                 .values = &values,
                                 .upid = {HW_ID_NONE},
                                 .interval_bytes = b->interval_bytes,
                                 .namer = &namer,
                                 .gzip = hw_ends_with(path, ".gz")};
    if (rc == 0)
        rc = hw_export_pprof.write(&in, f, err);
    if (f && fclose(f) != 0 && rc == 0)
        rc = hw_fail_sys(err, "cannot write '%s'", path);
    if (rc == 0)
        rc = hw_output_finish(&out, "merged", (int)getpid(), err);
    else if (out.fd >= 0)
        hw_output_discard(&out);
    hw_output_done(&out);
    hw_demangler_free(demangler);
    hw_vec_done(&values);
    return rc;
}

static int merge_values(const struct hw_cli *cli, const struct files *files, struct hw_error *err)
{
    struct hw_profile_sum b;
    int rc = hw_profile_sum_init(&b);
    for (size_t i = 0; rc == 0 && i < files->n; i++)
        rc = add_file(&b, files->in[i], err);
    if (rc == 0)
        rc = write_sum(cli, files->out, &b, err);
    hw_profile_sum_done(&b);
    return rc;
}

int hw_cmd_merge(struct hw_cli *cli)
{
    struct hw_error err = {0};
    struct files files = files_of(&cli->opts);
    if (files.n == 0) {
        hw_cli_error(cli, NULL, files.out ? "which files?" : "into which file?");
        hw_cli_hint("heapwise merge OUT IN...");
        return hw_cli_usage_exit(cli);
    }
    bool pprof = hw_ends_with(files.out, ".pb") || hw_ends_with(files.out, ".pb.gz") ||
                 hw_ends_with(files.out, ".pprof");
    int rc = pprof ? merge_values(cli, &files, &err) : merge_traces(cli, &files, &err);
    if (rc == HW_ENOMEM && !err.code)
        (void)hw_fail(&err, rc, 0, "cannot merge"); /* printed below */
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}
