#include "cli/classic/leak_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/saturate.h"
#include "export/export.h"
#include "export/markup.h"
#include "open/whole_file.h"

#include "base/banned.h"

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'; frame-src *\">\n<title>Large allocations</title>\n<style>\n"
    "body { font: 14px sans-serif; margin: 1em; height: 96vh; display: flex; "
    "flex-direction: column }\n"
    "table { border-collapse: collapse } td, th { padding: 2px 10px; text-align: left; "
    "border-bottom: 1px solid #ccc }\n"
    "td.n { text-align: right } iframe { flex: 1; border: 1px solid #ccc; margin-top: 1em }\n"
    "</style></head><body>\n<table><thead><tr><th>PID</th><th>Name</th><th>Labels</th>"
    "<th>Heap</th><th>Potential leaks</th><th>Objects leaked</th></tr></thead><tbody>\n";
static const char page_tail[] =
    "</tbody></table>\n<iframe name=\"graph\" title=\"flamegraph\"></iframe>\n</body></html>\n";

/* ---- writing files ---- */

static int make_dir(const char *path, struct hw_error *err)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST ? HW_OK
                                                     : hw_fail_sys(err, "cannot create '%s'", path);
}

static int write_text(const char *path, const char *text, size_t n, struct hw_error *err)
{
    struct hw_whole_file file;
    int rc = hw_whole_file_open(path, 0666, &file, err);
    if (rc < 0)
        return rc;
    if (hw_fd_write_all(file.fd, text, n) < 0)
        rc = hw_fail_sys(err, "cannot write '%s'", path);
    return hw_whole_file_close(&file, rc, err);
}

static int write_export(const char *path, const struct hw_exporter *e,
                        const struct hw_export_input *in, struct hw_error *err)
{
    struct hw_whole_file file;
    int rc = hw_whole_file_open(path, 0666, &file, err);
    if (rc < 0)
        return rc;
    FILE *f = hw_whole_file_stream(&file);
    rc = f ? e->write(in, f, err) : hw_fail_sys(err, "cannot write '%s'", path);
    if (f && fclose(f) != 0 && rc == HW_OK)
        rc = hw_fail_sys(err, "cannot write '%s'", path);
    return hw_whole_file_close(&file, rc, err);
}

/* "process_PID_HEAP", with '_' for characters a file name cannot have. */
static void add_file_name(struct hw_strbuf *path, const struct hw_leak_heap *h)
{
    hw_strbuf_addf(path, "process_%lld_", (long long)h->pid);
    for (const char *c = h->heap; *c; c++)
        hw_strbuf_addc(path, *c == '/' || (unsigned char)*c < 0x20 ? '_' : *c);
}

/* ---- one heap ---- */

static int write_records(const struct hw_leak_heap *h, const struct hw_large_stacks *leaks,
                         struct hw_error *err)
{
    struct hw_strbuf path = {0}, text = {0};
    hw_strbuf_adds(&path, "output/");
    add_file_name(&path, h);
    hw_strbuf_adds(&path, leaks->form == HW_LARGE_JSON ? "-leaks.json" : "-leaks.txt");
    int rc = hw_large_stacks_text(leaks, &text);
    rc = rc < 0 || path.failed ? hw_fail(err, HW_ENOMEM, 0, "output")
                               : write_text(path.p, text.p, text.n, err);
    hw_strbuf_done(&path);
    hw_strbuf_done(&text);
    return rc;
}

static int write_pprof(const struct hw_leak_heap *h, const struct hw_profile *p,
                       const hw_values *values, struct hw_error *err)
{
    struct hw_strbuf path = {0};
    const struct hw_export_input in = {
        .profile = p, .values = values, .interval_bytes = 1, .gzip = true};
    hw_strbuf_adds(&path, "output/");
    add_file_name(&path, h);
    hw_strbuf_adds(&path, "-leaks.pb.gz");
    int rc = path.failed ? hw_fail(err, HW_ENOMEM, 0, "output")
                         : write_export(path.p, &hw_export_pprof, &in, err);
    hw_strbuf_done(&path);
    return rc;
}

static void add_to_index(struct hw_leak_files *f, const struct hw_leak_heap *h,
                         const struct hw_large_stacks *leaks, const char *file)
{
    int64_t objects = 0;
    for (size_t i = 0; i < leaks->v.n; i++)
        objects = hw_sat_add(objects, leaks->v.v[i].count);
    hw_json_begin_object(&f->index);
    hw_json_kv_int(&f->index, "pid", h->pid);
    hw_json_kv_str(&f->index, "heap", h->heap);
    hw_json_key(&f->index, "name");
    hw_json_strn(&f->index, h->name.p, h->name.n);
    hw_json_key(&f->index, "labels");
    hw_json_strn(&f->index, h->labels.p, h->labels.n);
    struct hw_strbuf objects_file = {0};
    hw_strbuf_adds(&objects_file, file);
    hw_strbuf_adds(&objects_file, "-objects.json");
    hw_json_kv_str(&f->index, "objects", objects_file.p ? objects_file.p : "");
    hw_strbuf_done(&objects_file);
    hw_json_kv_uint(&f->index, "potential leaks", leaks->v.n);
    hw_json_kv_int(&f->index, "objects leaked", objects);
    hw_json_end_object(&f->index);
    hw_strbuf_addf(&f->table, "<tr><td class=\"n\">%lld</td><td>", (long long)h->pid);
    hw_markup_add(&f->table, h->name);
    hw_strbuf_adds(&f->table, "</td><td>");
    hw_markup_add(&f->table, h->labels);
    hw_strbuf_adds(&f->table, "</td><td><a target=\"graph\" href=\"");
    for (const char *c = file; *c; c++) /* as a relative URL: all but the plainest characters
                                           escaped */
        if ((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
            *c == '_' || *c == '-' || *c == '.')
            hw_strbuf_addc(&f->table, *c);
        else
            hw_strbuf_addf(&f->table, "%%%02X", (unsigned char)*c);
    hw_strbuf_adds(&f->table, ".html\">");
    hw_markup_add(&f->table, hw_bytes_str(h->heap));
    hw_strbuf_addf(&f->table, "</a></td><td class=\"n\">%zu</td><td class=\"n\">%lld</td></tr>\n",
                   leaks->v.n, (long long)objects);
}

static int write_graph(struct hw_leak_files *f, const struct hw_leak_heap *h,
                       const struct hw_large_stacks *leaks, const struct hw_profile *p,
                       const hw_values *values, struct hw_error *err)
{
    struct hw_strbuf file = {0}, path = {0}, tree = {0};
    const struct hw_export_input in = {.profile = p, .values = values, .interval_bytes = 1};
    add_file_name(&file, h);
    hw_strbuf_addf(&path, "output/graph/%s-objects.json", file.p ? file.p : "");
    int rc = hw_large_stacks_tree(p, values, &tree);
    rc = rc < 0 || file.failed || path.failed ? hw_fail(err, HW_ENOMEM, 0, "output")
                                              : write_text(path.p, tree.p, tree.n, err);
    if (rc == HW_OK) {
        hw_strbuf_clear(&path);
        hw_strbuf_addf(&path, "output/graph/%s.html", file.p);
        rc = path.failed ? hw_fail(err, HW_ENOMEM, 0, "output")
                         : write_export(path.p, &hw_export_html, &in, err);
    }
    if (rc == HW_OK)
        add_to_index(f, h, leaks, file.p);
    hw_strbuf_done(&file);
    hw_strbuf_done(&path);
    hw_strbuf_done(&tree);
    return rc;
}

int hw_leak_files_add(struct hw_leak_files *f, const struct hw_leak_heap *h,
                      const struct hw_large_stacks *leaks, const struct hw_heap_details *d,
                      struct hw_error *err)
{
    struct hw_profile *p = NULL;
    hw_values values = {0};
    int rc = HW_OK;
    if (f->format != HW_LEAKS_PPROF)
        rc = write_records(h, leaks, err);
    if (rc < 0 || (f->format != HW_LEAKS_PPROF && !f->graph))
        return rc;
    rc = hw_large_stacks_profile(leaks, d, h->pid, h->heap, &p, &values);
    if (rc < 0)
        return hw_fail(err, rc, 0, "heap '%s':", h->heap);
    if (f->format == HW_LEAKS_PPROF)
        rc = write_pprof(h, p, &values, err);
    if (rc == HW_OK && f->graph)
        rc = write_graph(f, h, leaks, p, &values, err);
    hw_vec_done(&values);
    hw_profile_free(p);
    return rc;
}

/* ---- public functions ---- */

int hw_leak_files_begin(struct hw_leak_files *f, struct hw_error *err)
{
    hw_json_init(&f->index, NULL, NULL, /* pretty = */ false);
    hw_json_begin_array(&f->index);
    hw_strbuf_adds(&f->table, page_head);
    int rc = make_dir("output", err);
    return rc == HW_OK && f->graph ? make_dir("output/graph", err) : rc;
}

int hw_leak_files_end(struct hw_leak_files *f, struct hw_error *err)
{
    if (!f->graph)
        return HW_OK;
    hw_json_end_array(&f->index);
    hw_strbuf_adds(&f->table, page_tail);
    if (hw_json_finish(&f->index) < 0 || f->table.failed)
        return hw_fail(err, HW_ENOMEM, 0, "output");
    int rc = write_text("output/graph/index.json", f->index.buf.p, f->index.buf.n, err);
    return rc < 0 ? rc : write_text("output/graph/index.html", f->table.p, f->table.n, err);
}

void hw_leak_files_done(struct hw_leak_files *f)
{
    hw_json_done(&f->index);
    hw_strbuf_done(&f->table);
}
