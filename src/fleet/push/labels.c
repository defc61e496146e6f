#include "fleet/push/labels.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/program_name.h"
#include "base/text/text_parts.h"

#include "base/banned.h"

void hw_fleet_labels_init(struct hw_fleet_labels *l)
{
    *l = (struct hw_fleet_labels){0};
    if (gethostname(l->own_host, sizeof l->own_host - 1) < 0)
        l->own_host[0] = '\0'; /* an empty name cannot be mistaken for another host */
}

void hw_fleet_labels_done(struct hw_fleet_labels *l)
{
    for (size_t i = 0; i < l->more.n; i++) {
        free(l->more.v[i].name);
        free(l->more.v[i].value);
    }
    hw_vec_done(&l->more);
}

static char *clean_name(struct hw_bytes text)
{
    struct hw_strbuf b = {0};
    if (text.n && isdigit(text.p[0]))
        hw_strbuf_addc(&b, '_');
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = text.p[i];
        hw_strbuf_addc(&b, (c < 0x80 && isalnum(c)) || c == '_' ? (char)c : '_');
    }
    return hw_strbuf_take(&b);
}

static bool set_known(struct hw_fleet_labels *l, const char *name, const char *value)
{
    const char **slot = strcmp(name, "service") == 0   ? &l->service
                        : strcmp(name, "host") == 0    ? &l->host
                        : strcmp(name, "version") == 0 ? &l->version
                                                       : NULL;
    if (slot)
        *slot = value;
    return slot != NULL;
}

int hw_fleet_labels_add(struct hw_fleet_labels *l, const char *pair, struct hw_error *err)
{
    const char *equal = strchr(pair, '=');
    if (!equal || equal == pair)
        return hw_fail(err, HW_EINVAL, 0, "label '%.64s' is not NAME=VALUE", pair);
    if (strlen(pair) > HW_LABEL_MAX_BYTES)
        return hw_fail(err, HW_ELIMIT, 0, "label '%.64s…' is longer than %u bytes", pair,
                       HW_LABEL_MAX_BYTES);
    struct hw_label made = {clean_name(hw_bytes_of(pair, (size_t)(equal - pair))),
                            strdup(equal + 1)};
    if (!made.name || !made.value)
        goto nomem;
    if (set_known(l, made.name, equal + 1)) {
        free(made.name);
        free(made.value);
        return HW_OK;
    }
    for (size_t i = 0; i < l->more.n; i++) {
        if (strcmp(l->more.v[i].name, made.name) != 0)
            continue;
        free(made.name);
        free(l->more.v[i].value);
        l->more.v[i].value = made.value;
        return HW_OK;
    }
    if (l->more.n == HW_LABELS_MAX) {
        free(made.name);
        free(made.value);
        return hw_fail(err, HW_ELIMIT, 0, "more than %u labels", HW_LABELS_MAX);
    }
    if (hw_vec_push(&l->more, made) == 0)
        return HW_OK;
nomem:
    free(made.name);
    free(made.value);
    return hw_fail(err, HW_ENOMEM, 0, "label");
}

/* The mapping of the program itself: the file with the process's name, or else the one with main.
 * Only frames of this process's callstacks are searched. */
static hw_mapping_id find_program(const struct hw_profile *p, hw_upid upid, struct hw_bytes name)
{
    const struct hw_callsites *cs = p->callsites;
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    hw_mapping_id of_main = {HW_ID_NONE};
    uint8_t *seen = calloc(hw_callsites_count(cs) + 1, 1);
    const struct hw_process_rows dumps = hw_by_process_of(&p->dumps_of, upid);
    for (size_t d = 0; seen && d < dumps.n; d++) {
        size_t first, n;
        hw_profile_dump_rows(p, dumps.v[d], &first, &n);
        for (size_t i = first; i < first + n; i++) {
            hw_callsite_id c = {p->allocs.callsite[i]};
            while (c.v != HW_ID_NONE && !seen[c.v]) {
                const struct hw_callsite *s = hw_callsites_get(cs, c);
                const struct hw_frame *f = hw_callsites_get_frame(cs, s->frame);
                seen[c.v] = 1;
                c = s->parent;
                if (f->mapping.v == HW_ID_NONE)
                    continue;
                const struct hw_mapping *m = hw_callsites_get_mapping(cs, f->mapping);
                if (name.n &&
                    hw_bytes_equal(hw_bytes_base_name(hw_strings_get(strings, m->path)), name)) {
                    free(seen);
                    return f->mapping;
                }
                if (hw_bytes_equal(hw_strings_get(strings, f->name), hw_bytes_str("main")))
                    of_main = f->mapping;
            }
        }
    }
    free(seen);
    return of_main;
}

static struct hw_bytes metadata(const struct hw_profile *p, const char *name)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    for (size_t i = 0; i < p->metadata.n; i++)
        if (hw_bytes_equal(hw_strings_get(strings, p->metadata.v[i].name), hw_bytes_str(name)))
            return hw_strings_get(strings, p->metadata.v[i].text);
    return (struct hw_bytes){NULL, 0};
}

static void add_from_file(struct hw_fleet_process *f, const char *name, struct hw_bytes value,
                          const struct hw_fleet_labels *l)
{
    for (size_t i = 0; i < l->more.n; i++)
        if (strcmp(l->more.v[i].name, name) == 0)
            return;
    if (value.n)
        f->more[f->n_more++] = (struct hw_file_label){name, value};
}

/* "checkout.service" -> "checkout" */
static struct hw_bytes unit_name(struct hw_bytes unit)
{
    static const char end[] = ".service";
    size_t n = sizeof end - 1;
    bool ends = unit.n > n && memcmp(unit.p + unit.n - n, end, n) == 0;
    return hw_bytes_of(unit.p, ends ? unit.n - n : unit.n);
}

int hw_fleet_process_init(struct hw_fleet_process *f, const struct hw_profile *p, hw_upid upid,
                          const struct hw_fleet_labels *l)
{
    *f = (struct hw_fleet_process){0};
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    struct hw_bytes title = hw_strings_get(strings, p->processes.v[upid.v].name);
    struct hw_bytes name = hw_program_name(title, hw_bytes_of(NULL, 0));
    struct hw_bytes unit = metadata(p, "heapwise.unit"), host = metadata(p, "heapwise.host");
    f->service = l->service ? hw_bytes_str(l->service) : unit.n ? unit_name(unit) : name;
    f->host = l->host ? hw_bytes_str(l->host) : host.n ? host : hw_bytes_str(l->own_host);
    f->unknown_since = metadata(p, "heapwise.unknown_since");
    add_from_file(f, "unit", unit, l);
    add_from_file(f, "container", metadata(p, "heapwise.container"), l);
    hw_mapping_id program = find_program(p, upid, name);
    if (program.v != HW_ID_NONE) {
        const struct hw_mapping *m = hw_callsites_get_mapping(p->callsites, program);
        hw_build_id_add(&f->build_id, hw_strings_get(strings, m->build_id));
    }
    return f->build_id.failed ? HW_ENOMEM : HW_OK;
}

void hw_fleet_process_done(struct hw_fleet_process *f)
{
    hw_strbuf_done(&f->build_id);
}
