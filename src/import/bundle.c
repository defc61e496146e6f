/*
 * A bundle: a tar archive with `trace.perfetto` and packets that give names to its frames
 * (`symbols.pb`, `deobfuscation.pb`). Names of members are only compared, never opened. The trace
 * is the member of that name, else the first of a known format; from all others only packets with
 * names are read, in the archive's order. Members may be packed by gzip or zstd. Ignored members
 * are counted.
 */
#include "import/bundle.h"

#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "codec/tar.h"
#include "codec/unpack.h"
#include "import/import.h"
#include "import/perfetto/perfetto_reader.h"
#include "model/profile.h"

#include "base/banned.h"

#define TRACE_NAME "trace.perfetto"

enum { MAX_MEMBERS = 4096, HEAD = 4096 };

static int probe(struct hw_bytes head)
{
    return hw_tar_is(head) ? 100 : 0;
}

static const struct hw_importer *reader_of(struct hw_bytes content)
{
    const struct hw_importer *im =
        hw_importer_find(hw_bytes_of(content.p, content.n < HEAD ? content.n : HEAD));
    return im == &hw_import_bundle ? NULL : im; /* no nested archives */
}

/* The member's content: its bytes, or what they inflate to (in *inflated). */
static int unpack(struct hw_bytes bytes, struct hw_strbuf *inflated, struct hw_bytes *out,
                  struct hw_error *err)
{
    *out = bytes;
    if (!hw_is_packed(bytes))
        return HW_OK;
    hw_strbuf_clear(inflated);
    int rc = hw_unpack(bytes, inflated, err);
    *out = hw_bytes_of(inflated->p, inflated->n);
    return (rc == HW_EFORMAT || rc == HW_ETRUNCATED) && out->n ? HW_OK : rc;
}

static bool is_readable(struct hw_bytes bytes)
{
    struct hw_strbuf head = {0};
    if (!hw_is_packed(bytes))
        return reader_of(bytes);
    hw_unpack_head(bytes, HEAD, &head);
    bool known = reader_of(hw_bytes_of(head.p, head.n));
    hw_strbuf_done(&head);
    return known;
}

/* The index of the trace: by its name, else the first of a known format; SIZE_MAX = none. */
static size_t find_trace(struct hw_bytes file)
{
    struct hw_tar t = {.file = file};
    struct hw_tar_member m;
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < MAX_MEMBERS && hw_tar_next(&t, &m, NULL) == 1; i++) {
        const char *name = hw_base_name(m.name);
        if (strcmp(name, TRACE_NAME) == 0 || strcmp(name, TRACE_NAME ".gz") == 0)
            return i;
        bool names = strcmp(name, "symbols.pb") == 0 || strcmp(name, "deobfuscation.pb") == 0;
        if (found == SIZE_MAX && !names && is_readable(m.bytes))
            found = i;
    }
    return found;
}

static int read_members(struct hw_bytes file, size_t trace, bool names, struct hw_profile *into,
                        struct hw_error *err)
{
    struct hw_tar t = {.file = file};
    struct hw_tar_member m;
    struct hw_strbuf inflated = {0};
    struct hw_bytes content;
    size_t n_ignored = 0, i = 0;
    int rc = HW_OK, next = 0;
    for (; rc == HW_OK && i < MAX_MEMBERS && (next = hw_tar_next(&t, &m, NULL)) == 1; i++) {
        if ((i == trace) == names)
            continue;
        rc = unpack(m.bytes, &inflated, &content, err);
        const struct hw_importer *im = rc == HW_OK ? reader_of(content) : NULL;
        if (rc == HW_OK && !im && !names)
            rc = hw_fail(err, HW_EFORMAT, 0, "no known format");
        else if (rc == HW_OK && !names)
            rc = im->read(content, into, err);
        else if (rc == HW_OK && im == &hw_import_perfetto)
            rc = hw_import_perfetto_names(content, into, err);
        else
            n_ignored++;
        if (names && rc == HW_EFORMAT) { /* a damaged symbol file costs its names only */
            n_ignored++;
            rc = HW_OK;
        }
        if (rc < 0)
            hw_error_prefix(err, "member %zu of the archive", i + 1);
        if (rc == HW_OK && m.truncated)
            rc = hw_profile_stat_add(into, "trace_truncated", -1, HW_STAT_DATA_LOSS, 1);
    }
    hw_strbuf_done(&inflated);
    if (rc == HW_OK && names && next < 0)
        rc = hw_profile_stat_add(into, "bundle_damaged", -1, HW_STAT_DATA_LOSS, 1);
    if (rc == HW_OK && n_ignored)
        rc = hw_profile_stat_add(into, "bundle_members_ignored", -1, HW_STAT_INFO,
                                 (int64_t)n_ignored);
    return rc;
}

static int read_bundle(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    size_t trace = find_trace(file);
    if (trace == SIZE_MAX)
        return hw_fail(err, HW_EFORMAT, 0, "the archive contains no trace");
    int rc = read_members(file, trace, /* names = */ false, into, err);
    if (rc == HW_OK)
        rc = read_members(file, trace, /* names = */ true, into, err);
    return rc;
}

const struct hw_importer hw_import_bundle = {
    .name = "bundle",
    .summary = "tar archive with a trace, its symbols and name maps",
    .probe = probe,
    .read = read_bundle,
};
