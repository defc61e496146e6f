#include "views/flame/annotations.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strings.h"
#include "base/text/text_parts.h"

#include "base/banned.h"

struct state {
    bool managed, keep_next;
};

enum code { CODE_OTHER, CODE_RUNTIME, CODE_JIT, CODE_AOT, CODE_INTERPRETED };

/* The part after the last c; the whole path if there is none. */
static struct hw_bytes after_last(struct hw_bytes path, char c)
{
    const uint8_t *at = path.n ? memrchr(path.p, c, path.n) : NULL;
    return at ? hw_bytes_of(at + 1, path.n - (size_t)(at + 1 - path.p)) : path;
}

/* Extensions are compared by prefix: "base.apk@classes.dex", "x.so (deleted)". */
static enum code code_of(struct hw_bytes path)
{
    enum part { WHOLE, FILE_NAME, EXTENSION };
    static const struct {
        enum part part;
        const char *word;
        enum code code;
    } rules[] = {
        {WHOLE, "/memfd:jit-cache", CODE_JIT},
        {WHOLE, "/memfd:/jit-cache", CODE_JIT},
        {WHOLE, "/memfd:jit-zygote-cache", CODE_JIT},
        {WHOLE, "/memfd:/jit-zygote-cache", CODE_JIT},
        {WHOLE, "/dev/ashmem/dalvik-jit-code-cache", CODE_JIT},
        {WHOLE, "[anon:dalvik-jit", CODE_JIT},
        {WHOLE, "[anon_shmem:dalvik-jit", CODE_JIT},
        {WHOLE, "[anon:dalvik-classes", CODE_INTERPRETED},
        {FILE_NAME, "libart.so", CODE_RUNTIME},
        {FILE_NAME, "libartd.so", CODE_RUNTIME},
        {EXTENSION, "so", CODE_OTHER},
        {EXTENSION, "odex", CODE_AOT},
        {EXTENSION, "oat", CODE_AOT},
        {EXTENSION, "dex", CODE_INTERPRETED},
        {EXTENSION, "vdex", CODE_INTERPRETED},
        {EXTENSION, "apk", CODE_INTERPRETED},
        {EXTENSION, "jar", CODE_INTERPRETED},
    };
    struct hw_bytes parts[] = {path, after_last(path, '/'), after_last(path, '.')};
    if (parts[EXTENSION].n == path.n)
        parts[EXTENSION].n = 0; /* no dot */
    for (size_t i = 0; i < HW_ARRAY_LEN(rules); i++)
        if (hw_bytes_start_with(parts[rules[i].part], rules[i].word))
            return rules[i].code;
    return CODE_OTHER;
}

static bool is_interpreter(const char *name)
{
    static const char *const starts[] = {"ExecuteMterp", "ExecuteNterp",         "ExecuteSwitch",
                                         "Nterp",        "_ZN3art11interpreter", "nterp_",
                                         "mterp_"};
    for (size_t i = 0; i < HW_ARRAY_LEN(starts); i++)
        if (hw_starts_with(name, starts[i]))
            return true;
    return false;
}

static struct hw_bytes path_of(const struct hw_profile *p, hw_mapping_id m)
{
    if (m.v == HW_ID_NONE)
        return hw_bytes_of("", 0);
    return hw_strings_get(hw_callsites_strings(p->callsites),
                          hw_callsites_get_mapping(p->callsites, m)->path);
}

bool hw_has_managed_code(const struct hw_profile *p)
{
    for (uint32_t i = 0; i < hw_callsites_n_mappings(p->callsites); i++) {
        enum code code = code_of(path_of(p, (hw_mapping_id){i}));
        if (code != CODE_OTHER && code != CODE_RUNTIME)
            return true;
    }
    return false;
}

static enum hw_annotation annotate(const struct hw_profile *p, struct state *state,
                                   hw_frame_id frame)
{
    const struct hw_frame *f = hw_callsites_get_frame(p->callsites, frame);
    const char *name = hw_strings_cstr(hw_callsites_strings(p->callsites), f->name);
    if (state->keep_next) {
        state->keep_next = false;
        return HW_ANNOTATION_NONE;
    }
    if (strcmp(name, "art_jni_trampoline") == 0) { /* it calls a native method, of whatever file */
        state->keep_next = state->managed = true;
        return HW_ANNOTATION_COMMON;
    }
    enum code code = code_of(path_of(p, f->mapping));
    switch (code) {
    case CODE_JIT:
    case CODE_AOT:
    case CODE_INTERPRETED:
        state->managed = true;
        return code == CODE_JIT   ? HW_ANNOTATION_JIT
               : code == CODE_AOT ? HW_ANNOTATION_AOT
                                  : HW_ANNOTATION_INTERP;
    case CODE_RUNTIME:
        if (!state->managed)
            return HW_ANNOTATION_NONE;
        return is_interpreter(name) ? HW_ANNOTATION_COMMON_INTERP : HW_ANNOTATION_COMMON;
    case CODE_OTHER:
        break;
    }
    return HW_ANNOTATION_NONE;
}

const char *hw_annotation_name(enum hw_annotation a)
{
    static const char *const names[HW_ANNOTATION_COUNT] = {
        "none", "interp", "jit", "aot", "common-frame", "common-frame-interp"};
    return names[a];
}

int hw_annotate_path(const struct hw_profile *p, hw_callsite_id id, hw_frame_id **frames,
                     uint8_t **annotations, size_t *n)
{
    struct state state = {0};
    *n = hw_callsites_get(p->callsites, id)->depth + 1u;
    *frames = calloc(*n, sizeof **frames);
    *annotations = calloc(*n, 1);
    if (!*frames || !*annotations) {
        free(*frames);
        free(*annotations);
        return HW_ENOMEM;
    }
    (void)hw_callsites_path(p->callsites, id, *frames, *n); /* exactly n */
    for (size_t i = 0; i < *n; i++)
        (*annotations)[i] = (uint8_t)annotate(p, &state, (*frames)[i]);
    return HW_OK;
}
