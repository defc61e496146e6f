#include "export/large_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json_out.h"

#include "base/banned.h"

static void put_by_type(struct hw_json *j, const char *key, const struct hw_detail_stack *s,
                        bool sizes)
{
    hw_json_key(j, key);
    hw_json_begin_object(j);
    for (size_t i = 0; i < s->n_types; i++) {
        int64_t v = hw_detail_growth(sizes ? s->types[i].v.size : s->types[i].v.count);
        if (v == 0)
            continue;
        hw_json_keyn(j, s->types[i].label.p, s->types[i].label.n);
        hw_json_int(j, v);
    }
    hw_json_end_object(j);
}

static bool is_large(const struct hw_large_stacks *l, const struct hw_detail_stack *s)
{
    return hw_detail_growth(s->v.count) > l->min_count && hw_detail_growth(s->v.size) > l->min_size;
}

static char *json_of(const struct hw_detail_stack *s)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_int(&j, "count", hw_detail_growth(s->v.count));
    hw_json_kv_int(&j, "size", hw_detail_growth(s->v.size));
    put_by_type(&j, "count_by_type", s, /* sizes = */ false);
    put_by_type(&j, "size_by_type", s, /* sizes = */ true);
    hw_json_key(&j, "stackframes");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < s->n_frames; i++)
        hw_json_strn(&j, s->frames[i].p, s->frames[i].n);
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    char *text = hw_json_finish(&j) == HW_OK ? hw_strbuf_take(&j.buf) : NULL;
    hw_json_done(&j);
    return text;
}

static char *text_of(const struct hw_detail_stack *s)
{
    struct hw_strbuf b = {0};
    hw_strbuf_addf(&b, "%lld bytes, %lld objects:", (long long)hw_detail_growth(s->v.size),
                   (long long)hw_detail_growth(s->v.count));
    for (size_t i = 0; i < s->n_types; i++) {
        hw_strbuf_adds(&b, i ? ", " : " ");
        hw_strbuf_add_escaped(&b, s->types[i].label.p, s->types[i].label.n);
    }
    for (size_t i = 0; i < s->n_frames; i++) {
        hw_strbuf_adds(&b, "\n    ");
        hw_strbuf_add_escaped(&b, s->frames[i].p, s->frames[i].n);
    }
    return hw_strbuf_take(&b);
}

static int take_stack(void *ctx, const struct hw_detail_stack *s)
{
    struct hw_large_stacks *l = ctx;
    struct hw_large_stack leak = {.size = hw_detail_growth(s->v.size),
                                  .count = hw_detail_growth(s->v.count)};
    if (!is_large(l, s))
        return HW_OK;
    leak.text = l->form == HW_LARGE_JSON ? json_of(s) : text_of(s);
    if (!leak.text || hw_vec_push(&l->v, leak) < 0) {
        free(leak.text);
        return HW_ENOMEM;
    }
    return HW_OK;
}

static int compare_stacks(const void *pa, const void *pb)
{
    const struct hw_large_stack *a = pa, *b = pb;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return strcmp(a->text, b->text);
}

int hw_large_stacks_find(struct hw_large_stacks *l, const struct hw_heap_details *d)
{
    hw_large_stacks_done(l);
    int rc = hw_heap_details_stacks(d, take_stack, l);
    if (rc == HW_OK && l->v.n)
        qsort(l->v.v, l->v.n, sizeof *l->v.v, compare_stacks);
    return rc;
}

int hw_large_stacks_text(const struct hw_large_stacks *l, struct hw_strbuf *out)
{
    bool json = l->form == HW_LARGE_JSON;
    hw_strbuf_adds(out, json ? "[" : "");
    for (size_t i = 0; i < l->v.n; i++) {
        hw_strbuf_adds(out, i == 0 ? "" : json ? ",\n " : "\n\n");
        hw_strbuf_adds(out, l->v.v[i].text);
    }
    hw_strbuf_adds(out, json ? "]\n" : "\n");
    return out->failed ? HW_ENOMEM : HW_OK;
}

void hw_large_stacks_done(struct hw_large_stacks *l)
{
    for (size_t i = 0; i < l->v.n; i++)
        free(l->v.v[i].text);
    hw_vec_done(&l->v);
}
