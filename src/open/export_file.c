#include "open/export_file.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/text_parts.h"
#include "codec/gzip.h"
#include "enrich/lines/demangle.h"
#include "import/import.h"
#include "open/whole_file.h"

#include "base/banned.h"

const struct hw_exporter *hw_exporter_of_file(const char *out)
{
    if (hw_ends_with(out, ".pb.gz"))
        return &hw_export_pprof;
    /* The longer ending wins: .speedscope.json is no .json. */
    const struct hw_exporter *best = NULL;
    for (const struct hw_exporter *const *e = hw_exporters; *e; e++)
        if (hw_ends_with(out, (*e)->extension) &&
            (!best || strlen((*e)->extension) > strlen(best->extension)))
            best = *e;
    return best;
}

/* A stream whose bytes go through gzip, for names that end in .gz: of any format. */
struct packed {
    struct hw_gzip_writer *gzip;
    struct hw_error *err;
};

static ssize_t packed_write(void *cookie, const char *p, size_t n)
{
    struct packed *z = cookie;
    return hw_gzip_write(z->gzip, hw_bytes_of(p, n), z->err) == HW_OK ? (ssize_t)n : 0;
}

static int write_packed(const struct hw_exporter *e, const struct hw_export_input *in, FILE *file,
                        struct hw_error *err)
{
    struct packed z = {.err = err};
    int rc = hw_gzip_writer_new(fileno(file), &z.gzip, err);
    if (rc < 0)
        return rc;
    FILE *out = fopencookie(&z, "w", (cookie_io_functions_t){.write = packed_write});
    rc = out ? e->write(in, out, err) : hw_fail(err, HW_ENOMEM, 0, "gzip");
    if (out && fclose(out) != 0 && rc == HW_OK)
        rc = HW_ESYS; /* packed_write has filled err */
    if (rc == HW_OK)
        rc = hw_gzip_writer_end(z.gzip, err);
    hw_gzip_writer_free(z.gzip);
    return rc;
}

int hw_export_to(const struct hw_exporter *e, const struct hw_export_input *in,
                 const char *out_path, struct hw_error *err)
{
    bool to_stdout = strcmp(out_path, "-") == 0;
    struct hw_whole_file file;
    int rc = to_stdout ? HW_OK : hw_whole_file_open(out_path, 0666, &file, err);
    if (rc < 0)
        return rc;
    FILE *out = to_stdout ? stdout : hw_whole_file_stream(&file);
    if (!out)
        rc = hw_fail_sys(err, "cannot write '%s'", out_path);
    else
        rc = hw_ends_with(out_path, ".gz") ? write_packed(e, in, out, err) : e->write(in, out, err);
    if (to_stdout)
        return rc;
    if (out && fclose(out) != 0 && rc == 0)
        rc = hw_fail_sys(err, "cannot write '%s'", out_path);
    else if (rc == HW_ESYS)
        hw_error_prefix(err, "'%s'", out_path);
    return hw_whole_file_close(&file, rc, err);
}

int hw_export_file(const struct hw_exporter *e, const char *in_path, const char *out_path,
                   struct hw_error *err)
{
    struct hw_export_input in = {.notes = stderr};
    struct hw_profile *p = NULL;
    struct hw_demangler *demangler = NULL;
    int rc = hw_import_file(in_path, &p, err);
    if (rc == HW_OK && (rc = hw_demangler_new(hw_callsites_strings(p->callsites), &demangler)) < 0)
        (void)hw_fail(err, rc, 0, "names:");
    if (rc == HW_OK) {
        struct hw_namer namer = {hw_demangle_shown, demangler};
        in.profile = p;
        in.namer = &namer;
        rc = hw_export_to(e, &in, out_path, err);
    }
    hw_demangler_free(demangler);
    hw_profile_free(p);
    return rc;
}
