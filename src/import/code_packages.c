#include "import/code_packages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "model/profile.h"

#include "base/banned.h"

static const char installed[] = "/data/app/";

/* ---- paths ---- */

/* "/data/app/[~~x/]PACKAGE-y/…"; n = 0: another form. */
static struct hw_bytes installed_package(struct hw_bytes path)
{
    const struct hw_bytes none = {NULL, 0};
    path = hw_bytes_skip(path, sizeof installed - 1);
    const uint8_t *end = path.n ? memchr(path.p, '/', path.n) : NULL;
    if (end && path.p[0] == '~') {
        path = hw_bytes_skip(path, (size_t)(end + 1 - path.p));
        end = path.n ? memchr(path.p, '/', path.n) : NULL;
    }
    const uint8_t *dash = end ? memchr(path.p, '-', (size_t)(end - path.p)) : NULL;
    return dash ? hw_bytes_of(path.p, (size_t)(dash - path.p)) : none;
}

/* The part of a path that names an installed app: all of it, or the file from which the runtime
 * says it extracted code. */
static struct hw_bytes installed_part(struct hw_bytes path)
{
    static const char extracted[] = "dex extracted in memory from ";
    const uint8_t *at = path.n ? memmem(path.p, path.n, extracted, sizeof extracted - 1) : NULL;
    if (hw_bytes_start_with(path, installed))
        return path;
    if (at)
        path = hw_bytes_skip(path, (size_t)(at - path.p) + sizeof extracted - 1);
    return at && hw_bytes_start_with(path, installed) ? path : hw_bytes_of(NULL, 0);
}

struct hw_bytes hw_package_of_path(struct hw_bytes path)
{
    /* Apps of the system image, whose paths do not contain the package. */
    static const struct {
        const char *path, *package;
        bool anywhere;
    } known[] = {
        {"/system_ext/priv-app/SystemUIGoogle/SystemUIGoogle.apk", "com.android.systemui", false},
        {"/product/priv-app/Phonesky/Phonesky.apk", "com.android.vending", false},
        {"/product/app/Maps/Maps.apk", "com.google.android.apps.maps", false},
        {"/system_ext/priv-app/NexusLauncherRelease/NexusLauncherRelease.apk",
         "com.google.android.apps.nexuslauncher", false},
        {"/product/app/Photos/Photos.apk", "com.google.android.apps.photos", false},
        {"/product/priv-app/WellbeingPrebuilt/WellbeingPrebuilt.apk",
         "com.google.android.apps.wellbeing", false},
        {"/product/app/PrebuiltGmail/PrebuiltGmail.apk", "com.google.android.gm", false},
        {"/product/priv-app/Velvet/Velvet.apk", "com.google.android.googlequicksearchbox", false},
        {"/product/app/LatinIMEGooglePrebuilt/LatinIMEGooglePrebuilt.apk",
         "com.google.android.inputmethod.latin", false},
        {"/product/app/PrebuiltBugle/PrebuiltBugle.apk", "com.google.android.apps.messaging",
         false},
        {"DevicePersonalizationPrebuilt", "com.google.android.as", true},
        {"MatchMaker", "com.google.android.as", true},
        {"DeviceIntelligenceNetworkPrebuilt", "com.google.android.as.oss", true},
        {"SettingsIntelligenceGooglePrebuilt", "com.google.android.settings.intelligence", true},
        {"PrebuiltGmsCore", "com.google.android.gms", true},
        {"com.google.android.gms", "com.google.android.gms", true},
    };
    for (size_t i = 0; path.n && i < HW_ARRAY_LEN(known); i++)
        if (known[i].anywhere ? memmem(path.p, path.n, known[i].path, strlen(known[i].path)) != NULL
                              : hw_bytes_start_with(path, known[i].path))
            return hw_bytes_str(known[i].package);
    struct hw_bytes part = installed_part(path);
    return part.n ? installed_package(part) : part;
}

/* ---- processes ---- */

enum { USER_RANGE = 100000 }; /* uid = user * USER_RANGE + app */

static void name_processes(const struct hw_profile *p, hw_str_id *of_process)
{
    for (size_t i = 0; i < p->processes.n; i++) {
        int64_t app = p->processes.v[i].uid < 0 ? -1 : p->processes.v[i].uid % USER_RANGE;
        for (size_t k = 0; app >= 0 && k < p->packages.n; k++)
            if (p->packages.v[k].uid == app) {
                of_process[i] = p->packages.v[k].name;
                break;
            }
    }
}

struct walk {
    const struct hw_profile *p;
    struct hw_code_packages *c;
    bool *visited; /* by callsite: it and its ancestors have a package */
};

static void visit(const struct walk *w, hw_upid upid, hw_callsite_id at)
{
    hw_str_id package = upid.v < w->p->processes.n ? w->c->of_process[upid.v] : (hw_str_id){0};
    while (package.v && at.v != HW_ID_NONE && !w->visited[at.v]) {
        const struct hw_callsite *site = hw_callsites_get(w->p->callsites, at);
        w->visited[at.v] = true;
        if (!w->c->of_frame[site->frame.v].v)
            w->c->of_frame[site->frame.v] = package;
        at = site->parent;
    }
}

static void name_frames(const struct walk *w)
{
    const struct hw_profile *p = w->p;
    for (size_t i = 0; i < p->allocs.n; i++)
        visit(w, p->dumps.v[hw_alloc_dump(&p->allocs, i)].upid,
              (hw_callsite_id){p->allocs.callsite[i]});
    for (size_t i = 0; i < p->cpu.samples.n; i++) {
        const struct hw_cpu_sample *s = &p->cpu.samples.v[i];
        if (s->thread)
            visit(w, p->threads.rows.v[s->thread - 1].upid, s->callsite);
    }
    for (size_t i = 0; i < p->graphs.n; i++)
        for (size_t k = 0; k < p->graphs.v[i]->threads.n; k++)
            visit(w, p->graphs.v[i]->upid, p->graphs.v[i]->threads.v[k].callsite);
}

static int count_without_package(struct hw_profile *p)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < hw_callsites_n_mappings(p->callsites); i++) {
        struct hw_bytes part = installed_part(
            hw_strings_get(hw_callsites_strings(p->callsites),
                           hw_callsites_get_mapping(p->callsites, (hw_mapping_id){i})->path));
        n += part.n && !installed_package(part).n;
    }
    return n ? hw_profile_stat_set(p, "deobfuscate_location_parse_error", -1, HW_STAT_ERROR, n)
             : HW_OK;
}

int hw_code_packages_init(struct hw_code_packages *c, struct hw_profile *p)
{
    hw_autofree bool *visited = calloc(hw_callsites_count(p->callsites) + 1, sizeof *visited);
    *c = (struct hw_code_packages){
        .of_process = calloc(p->processes.n + 1, sizeof *c->of_process),
        .of_frame = calloc(hw_callsites_n_frames(p->callsites) + 1, sizeof *c->of_frame)};
    int rc = visited && c->of_process && c->of_frame ? count_without_package(p) : HW_ENOMEM;
    if (rc < 0) {
        hw_code_packages_done(c);
        return rc;
    }
    name_processes(p, c->of_process);
    name_frames(&(struct walk){p, c, visited});
    return HW_OK;
}

void hw_code_packages_done(struct hw_code_packages *c)
{
    free(c->of_process);
    free(c->of_frame);
    *c = (struct hw_code_packages){NULL, NULL};
}
