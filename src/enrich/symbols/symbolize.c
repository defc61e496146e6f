#include "enrich/symbols/symbolize.h"

#include <elf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "codec/pb.h"
#include "elf/elf.h"
#include "elf/image.h"
#include "enrich/lines/demangle.h"
#include "enrich/lines/line_reader.h"
#include "enrich/lines/llvm.h"
#include "enrich/load_bias.h"
#include "enrich/symbols/breakpad.h"
#include "enrich/symbols/debuginfod.h"
#include "enrich/symbols/symbolize_job.h"
#include "model/profile.h"
#include "schema/fields.h"

#include "base/banned.h"

#define LLVM_LIMIT_MS 60000u

/* ---- which frames ---- */

static int compare_places(const void *a, const void *b)
{
    const struct hw_symbolize_place *x = a, *y = b;
    if (x->module != y->module)
        return x->module < y->module ? -1 : 1;
    if (x->va != y->va)
        return x->va < y->va ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

struct hw_bytes hw_symbolize_text_of(const struct hw_symbolize_job *j, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(j->p->callsites), id);
}

static bool is_kernel(const struct hw_symbolize_job *j, const struct hw_mapping *m)
{
    struct hw_bytes path = hw_symbolize_text_of(j, m->path);
    return (path.n >= 17 && memcmp(path.p, "[kernel.kallsyms]", 17) == 0) ||
           (m->start == 0 && m->end == 0 && m->build_id.v == 0 &&
            hw_bytes_equal(path, hw_bytes_str("/kernel")));
}

static int collect(struct hw_symbolize_job *j)
{
    const struct hw_callsites *cs = j->p->callsites;
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(cs);
    const struct hw_symbol_line *have;
    for (uint32_t i = 0; i < hw_callsites_n_frames(cs); i++) {
        const struct hw_frame *f = hw_callsites_get_frame(cs, (hw_frame_id){i});
        if (f->mapping.v == HW_ID_NONE || hw_symbol_sets_get(sets, (hw_frame_id){i}, &have))
            continue;
        const struct hw_mapping *m = hw_callsites_get_mapping(cs, f->mapping);
        if (m->build_id.v == 0 && !is_kernel(j, m)) {
            j->result.n_no_build_id += m->path.v != 0;
            continue;
        }
        uint64_t key = (uint64_t)m->path.v << 32 | m->build_id.v, module = f->mapping.v;
        if (!hw_map64_get(&j->module_by_key, key, &module) &&
            hw_map64_put(&j->module_by_key, key, module) < 0)
            return HW_ENOMEM;
        const struct hw_symbolize_place pl = {(uint32_t)module, i, f->rel_pc, f->rel_pc};
        if (hw_vec_push(&j->places, pl) < 0)
            return HW_ENOMEM;
    }
    j->result.n_frames = j->places.n;
    if (j->places.n)
        qsort(j->places.v, j->places.n, sizeof *j->places.v, compare_places);
    return HW_OK;
}

/* ---- which file ---- */

void hw_symbolize_warn(struct hw_symbolize_job *j, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

void hw_symbolize_warn(struct hw_symbolize_job *j, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* cut when it is long */
    va_end(args);
    if (j->o->warn)
        j->o->warn(j->o->ctx, text);
}

bool hw_symbolize_is_late(const struct hw_symbolize_job *j)
{
    if (j->o->stopped && j->o->stopped(j->o->ctx))
        return true;
    return j->deadline_ns && hw_now_monotonic_ns() > j->deadline_ns;
}

static void close_file(struct hw_symbolize_job *j)
{
    hw_elf_close(j->symbols);
    j->symbols = NULL;
    if (j->fd >= 0)
        (void)close(j->fd);
    j->fd = -1;
    free(j->file);
    j->file = NULL;
}

static void read_segments(struct hw_symbolize_job *j, int fd)
{
    struct hw_image img;
    j->code = (struct hw_code_place){0};
    if (hw_image_open(&img, fd, NULL, 0, /* with_sections = */ false, NULL) < 0)
        return;
    j->code = hw_code_place_of(&img);
    hw_image_close(&img);
}

static bool has_symtab(struct hw_elf *e)
{
    struct hw_elf_info info;
    return hw_elf_get_info(e, &info, NULL) == HW_OK && info.has_symtab;
}

/* An error in a file's debug info is reported; its symbols are read here. */
static bool has_debug_info(struct hw_symbolize_job *j, int fd, const char *path, bool *unreadable)
{
    struct hw_error err = {0};
    bool has = false;
    *unreadable =
        hw_line_reader_check_file(j->reader, ++j->n_files, fd, j->deadline_ns, &has, &err) < 0;
    if (*unreadable && !hw_symbolize_is_late(j))
        hw_symbolize_warn(j, "'%s': %s; only its symbols are used", path, err.text);
    return has;
}

/* Kept if better than what was offered before; the search ends with a file with lines. */
static int consider(void *ctx, int fd, const char *path)
{
    struct hw_symbolize_job *j = ctx;
    struct hw_elf *symbols;
    struct stat st;
    bool unreadable;
    if (j->o->max_file_bytes && (fstat(fd, &st) < 0 || (uint64_t)st.st_size > j->o->max_file_bytes))
        return 0;
    int kept = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (kept < 0 || hw_elf_open(kept, &symbols, NULL) < 0) {
        if (kept >= 0)
            (void)close(kept);
        return 0;
    }
    bool debug = has_debug_info(j, kept, path, &unreadable);
    if (j->symbols && !debug && !(has_symtab(symbols) && !has_symtab(j->symbols))) {
        hw_elf_close(symbols);
        (void)close(kept);
        return 0;
    }
    close_file(j);
    j->symbols = symbols;
    j->fd = kept;
    j->file = strdup(path); /* without memory: no llvm-symbolizer for this file */
    j->number = j->n_files;
    j->is_unreadable = unreadable;
    read_segments(j, kept);
    return debug;
}

/* ---- answers ---- */

static int mark_folded(struct hw_symbolize_job *j, hw_str_id *name)
{
    struct hw_bytes plain = hw_symbolize_text_of(j, *name);
    if (plain.n == 0)
        return HW_OK;
    hw_strbuf_clear(&j->text);
    hw_strbuf_add(&j->text, plain.p, plain.n);
    hw_strbuf_adds(&j->text, HW_FOLDED_MARK);
    return j->text.failed ? HW_ENOMEM
                          : hw_profile_str(j->p, hw_bytes_of(j->text.p, j->text.n), name);
}

static int intern_chain(struct hw_symbolize_job *j, const struct hw_line *chain, size_t n)
{
    j->chain.n = 0;
    for (size_t i = 0; i < n; i++) {
        struct hw_symbol_line line = {.line = chain[i].line};
        hw_str_id raw;
        int rc =
            hw_profile_str(j->p, hw_bytes_str(chain[i].function ? chain[i].function : ""), &raw);
        if (rc == HW_OK)
            rc = hw_profile_str(j->p, hw_bytes_str(hw_demangle(j->names, raw)), &line.function);
        if (rc == HW_OK)
            rc = hw_profile_str(j->p, hw_bytes_str(chain[i].file ? chain[i].file : ""), &line.file);
        if (rc < 0)
            return rc;
        if (hw_vec_push(&j->chain, line) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* A name alone adds nothing to a frame that has one. */
static bool is_news(const struct hw_symbolize_job *j, const struct hw_symbolize_place *pl,
                    bool folded)
{
    const struct hw_frame *f = hw_callsites_get_frame(j->p->callsites, (hw_frame_id){pl->frame});
    return !j->o->unnamed_only || f->name.v == 0 || j->chain.n > 1 || j->chain.v[0].file.v ||
           folded;
}

/* The answer of va[index] is that of all frames there. */
static int on_chain(void *ctx, size_t index, const struct hw_line *chain, size_t n, bool folded)
{
    struct hw_symbolize_job *j = ctx;
    index += j->first_va;
    uint64_t va = j->va.v[index];
    if ((index & 255) == 255 && hw_symbolize_is_late(j)) {
        j->result.n_left += j->n_at - j->next;
        return 1; /* stops; what was answered stays */
    }
    bool known = n && (n > 1 || chain[0].function || chain[0].file);
    int rc = known ? intern_chain(j, chain, n) : HW_OK;
    folded = folded && known;
    if (rc == HW_OK && folded)
        rc = mark_folded(j, &j->chain.v[n - 1].function);
    uint64_t written = UINT64_MAX;
    for (; rc == HW_OK && j->next < j->n_at && j->at[j->next].va == va; j->next++) {
        const struct hw_symbolize_place *pl = &j->at[j->next];
        if (!known || !is_news(j, pl, folded))
            continue;
        rc = hw_symbol_sets_put(hw_callsites_symbol_sets(j->p->callsites), (hw_frame_id){pl->frame},
                                j->chain.v, j->chain.n);
        if (written != pl->rel_pc)
            hw_symbolize_put_address(j, pl->rel_pc);
        written = pl->rel_pc;
        j->result.n_symbolized++;
    }
    j->n_answered = index + 1;
    if (j->o->progress && (index & 1023) == 0)
        j->o->progress(j->o->ctx, (size_t)(j->at - j->places.v) + j->next, j->places.n);
    return rc;
}

/* ---- one module ---- */

static int list_addresses(struct hw_symbolize_job *j)
{
    hw_vec_clear(&j->va);
    for (size_t i = 0; i < j->n_at; i++)
        if ((i == 0 || j->at[i].va != j->at[i - 1].va) && hw_vec_push(&j->va, j->at[i].va) < 0)
            return HW_ENOMEM;
    return HW_OK;
}

static void tell_missing(struct hw_symbolize_job *j, const char *path, struct hw_bytes build_id,
                         const struct hw_strbuf *other)
{
    struct hw_strbuf hex = {0};
    j->result.n_missing++;
    hw_build_id_add(&hex, build_id);
    if (build_id.n == 0)
        hw_strbuf_adds(&hex, "none");
    if (j->o->missing && hex.p)
        j->o->missing(j->o->ctx, path, hex.p, other->n ? other->p : NULL);
    hw_strbuf_done(&hex);
}

/* Where a frame is in the file: kernel frames count from the start of its code. */
static uint64_t address_of(const struct hw_symbolize_job *j, const struct hw_symbolize_place *pl,
                           bool kernel)
{
    const struct hw_frame *f = hw_callsites_get_frame(j->p->callsites, (hw_frame_id){pl->frame});
    const struct hw_mapping *m = hw_callsites_get_mapping(j->p->callsites, f->mapping);
    return pl->rel_pc + (kernel ? j->code.va : hw_load_bias_missing(&j->code, m));
}

/* llvm-symbolizer does not say. */
static int on_llvm_chain(void *ctx, size_t index, const struct hw_line *chain, size_t n)
{
    struct hw_symbolize_job *j = ctx;
    return on_chain(j, index, chain, n, n && hw_elf_is_folded(j->symbols, j->va.v[index]));
}

/* What the other program does not answer, we do. */
static int ask_llvm(struct hw_symbolize_job *j)
{
    struct hw_error err = {0};
    int rc = hw_llvm_resolve(j->llvm, j->file, j->va.v, j->va.n, on_llvm_chain, j, &err);
    if (err.code)
        hw_symbolize_warn(j, "%s: '%s': %s; going on without it", j->o->llvm_symbolizer, j->file,
                          err.text);
    else if (rc)
        return rc;
    if (hw_llvm_is_broken(j->llvm)) {
        hw_llvm_stop(j->llvm);
        j->llvm = NULL;
    }
    return HW_OK;
}

/* What the reader could not answer has a name by the symbols at best. */
static int ask_reader(struct hw_symbolize_job *j)
{
    struct hw_error err = {0};
    j->first_va = j->n_answered;
    int rc = hw_line_reader_resolve(j->reader, j->number, j->fd, j->va.v + j->first_va,
                                    j->va.n - j->first_va, j->deadline_ns, on_chain, j, &err);
    j->first_va = 0;
    if (!err.code)
        return rc;
    j->is_unreadable = true;
    const size_t n_left = j->va.n - j->n_answered;
    if (!hw_symbolize_is_late(j) && n_left)
        hw_symbolize_warn(j, "'%s': %s; %zu of %zu addresses have no lines",
                          j->file ? j->file : "?", err.text, n_left, j->va.n);
    return HW_OK;
}

static int ask_symbols(struct hw_symbolize_job *j)
{
    int rc = HW_OK;
    for (size_t i = j->n_answered; rc == HW_OK && i < j->va.n; i++) {
        const struct hw_line line = {.function = hw_elf_function_at(j->symbols, j->va.v[i], NULL)};
        rc = on_chain(j, i, &line, line.function != NULL,
                      line.function && hw_elf_is_folded(j->symbols, j->va.v[i]));
    }
    return rc;
}

/* ---- types ---- */

static int from_elf(struct hw_symbolize_job *j, bool kernel)
{
    for (size_t i = 0; i < j->n_at; i++)
        j->at[i].va = address_of(j, &j->at[i], kernel);
    qsort(j->at, j->n_at, sizeof *j->at, compare_places);
    int rc = list_addresses(j);
    j->n_answered = 0;
    if (rc == HW_OK && j->llvm && j->file)
        rc = ask_llvm(j);
    if (rc == HW_OK && j->n_answered < j->va.n && !j->is_unreadable)
        rc = ask_reader(j);
    if (rc == HW_OK && j->n_answered < j->va.n)
        rc = ask_symbols(j);
    if (rc == HW_OK && !j->is_unreadable && j->new_callers.n)
        rc = hw_symbolize_request_types(j);
    return rc;
}

static int from_breakpad(struct hw_symbolize_job *j, struct hw_breakpad *b)
{
    int rc = list_addresses(j);
    for (size_t i = 0; rc == HW_OK && i < j->va.n; i++) {
        struct hw_line line;
        bool found = hw_breakpad_at(b, j->va.v[i], &line);
        rc = on_chain(j, i, &line, found, /* folded = */ false);
    }
    return rc;
}

static int open_breakpad(struct hw_symbolize_job *j, struct hw_bytes build_id,
                         struct hw_breakpad **out)
{
    for (size_t i = 0; i < j->o->n_breakpad_dirs && !*out; i++) {
        struct hw_error err = {0};
        int rc = hw_breakpad_open(j->o->breakpad_dirs[i], build_id, out, &err);
        if (rc == HW_ENOMEM)
            return rc;
        if (rc < 0 && rc != HW_ENOTFOUND)
            hw_symbolize_warn(j, "%s", err.text);
    }
    return HW_OK;
}

static const char *kernel_release(const struct hw_symbolize_job *j, struct utsname *here)
{
    const struct hw_strings *strings = hw_callsites_strings(j->p->callsites);
    for (size_t i = 0; i < j->p->metadata.n; i++)
        if (strcmp(hw_strings_cstr(strings, j->p->metadata.v[i].name), "system_release") == 0)
            return hw_strings_cstr(strings, j->p->metadata.v[i].text);
    return uname(here) < 0 ? "" : here->release;
}

static bool on_fetching(void *ctx, uint64_t done, uint64_t total)
{
    struct hw_symbolize_job *j = ctx;
    if (j->o->fetching)
        j->o->fetching(j->o->ctx, done, total);
    return hw_symbolize_is_late(j);
}

static int from_server(struct hw_symbolize_job *j, struct hw_bytes build_id)
{
    struct hw_error err = {0};
    int fd, found = HW_ENOTFOUND;
    if (j->debuginfod && !hw_symbolize_is_late(j))
        found = hw_debuginfod_find(j->debuginfod, build_id, &fd, &err);
    if (found < 0 && err.code && !hw_symbolize_is_late(j))
        hw_symbolize_warn(j, "debuginfod: %s; going on without its servers", err.text);
    if (found < 0)
        return HW_OK;
    struct hw_strbuf name = {0};
    hw_strbuf_addf(&name, "/proc/%d/fd/%d", (int)getpid(), fd);
    int rc = name.failed ? HW_ENOMEM : consider(j, fd, name.p);
    if (rc >= 0 && j->fd >= 0) { /* kept under another number, which is what the name must say */
        hw_strbuf_clear(&name);
        hw_strbuf_addf(&name, "/proc/%d/fd/%d", (int)getpid(), j->fd);
        free(j->file);
        j->file = hw_strbuf_take(&name);
    }
    hw_strbuf_done(&name);
    (void)close(fd);
    return rc < 0 ? rc : HW_OK;
}

static int find_file(struct hw_symbolize_job *j, const char *path, struct hw_bytes build_id,
                     bool kernel, struct hw_strbuf *other)
{
    struct utsname here;
    int rc = kernel ? hw_binaries_offer_kernel(j->binaries, kernel_release(j, &here), build_id,
                                               consider, j, other)
                    : hw_binaries_offer(j->binaries, path, build_id, consider, j, other);
    return rc == 0 ? from_server(j, build_id) : rc;
}

static int do_module(struct hw_symbolize_job *j)
{
    const struct hw_mapping *m = hw_symbolize_module(j);
    const char *path = hw_strings_cstr(hw_callsites_strings(j->p->callsites), m->path);
    struct hw_bytes build_id = hw_symbolize_text_of(j, m->build_id);
    bool kernel = is_kernel(j, m);
    struct hw_strbuf other = {0};
    struct hw_breakpad *breakpad = NULL;
    j->next = 0;
    j->fd = -1;
    if (hw_symbolize_is_late(j)) {
        j->result.n_left += j->n_at;
        return HW_OK;
    }
    j->result.n_modules++;
    int rc = open_breakpad(j, build_id, &breakpad);
    if (rc == HW_OK && !breakpad)
        rc = find_file(j, path, build_id, kernel, &other);
    if (rc >= 0 && breakpad)
        rc = from_breakpad(j, breakpad);
    else if (rc >= 0 && j->symbols && j->code.known)
        rc = from_elf(j, kernel);
    else if (rc >= 0)
        tell_missing(j, path, build_id, &other);
    if (rc >= 0 && j->new_callers.n)
        rc = hw_symbolize_name_types(j);
    hw_symbolize_close_packet(j);
    hw_breakpad_free(breakpad);
    close_file(j);
    hw_strbuf_done(&other);
    return rc;
}

/* What cannot be had is reported, and done without. */
static void start_others(struct hw_symbolize_job *j)
{
    struct hw_error err = {0};
    unsigned limit_ms = j->o->llvm_limit_ms ? j->o->llvm_limit_ms : LLVM_LIMIT_MS;
    if (j->o->llvm_symbolizer &&
        hw_llvm_start(j->o->llvm_symbolizer, limit_ms, &j->llvm, &err) < 0) {
        j->llvm = NULL;
        hw_symbolize_warn(j, "%s; going on without it", err.text);
    }
    if (j->o->debuginfod && hw_debuginfod_new(on_fetching, j, &j->debuginfod) == HW_EUNSUPPORTED)
        hw_symbolize_warn(
            j, "DEBUGINFOD_URLS is set, but libdebuginfod is not installed; no server is asked");
}

static int run(struct hw_symbolize_job *j)
{
    if (j->o->budget_ns)
        j->deadline_ns = hw_now_monotonic_ns() + j->o->budget_ns;
    int rc = hw_binaries_new(&j->o->where, &j->binaries);
    if (rc == HW_OK)
        rc = hw_line_reader_new(j->o->reader_limit_ms, &j->reader);
    if (rc == HW_OK)
        hw_line_reader_stop_when(j->reader, j->o->stopped, j->o->ctx);
    if (rc == HW_OK)
        rc = hw_demangler_new(hw_callsites_strings(j->p->callsites), &j->names);
    if (rc == HW_OK)
        rc = collect(j);
    if (rc == HW_OK)
        rc = hw_symbolize_list_new_callers(j);
    if (rc == HW_OK && j->places.n)
        start_others(j);
    for (size_t i = 0; rc >= 0 && i < j->places.n; i += j->n_at) {
        j->at = &j->places.v[i];
        for (j->n_at = 1;
             i + j->n_at < j->places.n && j->places.v[i + j->n_at].module == j->at[0].module;)
            j->n_at++;
        rc = do_module(j);
    }
    if (rc >= 0 && j->packets && hw_pb_failed(j->packets))
        rc = HW_ENOMEM;
    return rc;
}

int hw_symbolize(struct hw_profile *p, const struct hw_symbolize_options *o, struct hw_pb *packets,
                 struct hw_symbolize_result *out, struct hw_error *err)
{
    struct hw_symbolize_job j = {.p = p, .o = o, .packets = packets, .fd = -1};
    int rc = run(&j);
    if (o->progress)
        o->progress(o->ctx, j.places.n, j.places.n);
    hw_binaries_free(j.binaries);
    hw_demangler_free(j.names);
    hw_line_reader_free(j.reader);
    hw_llvm_stop(j.llvm);
    hw_debuginfod_free(j.debuginfod);
    hw_strbuf_done(&j.text);
    hw_vec_done(&j.places);
    hw_map64_done(&j.module_by_key);
    hw_map64_done(&j.new_callers);
    hw_vec_done(&j.va);
    hw_vec_done(&j.chain);
    *out = j.result;
    return rc < 0 ? hw_fail(err, rc, 0, "symbolization:") : HW_OK;
}
