#include "enrich/debuginfod.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/error.h"

#include "base/banned.h"

#define LIBRARY "libdebuginfod.so.1"

/* As <elfutils/debuginfod.h> declares them; the library's interface is frozen. */
struct hw_debuginfod {
    void *library;
    void *client;
    void *(*begin)(void);
    void (*end)(void *client);
    int (*find_debuginfo)(void *client, const unsigned char *build_id, int n, char **path);
    int (*find_executable)(void *client, const unsigned char *build_id, int n, char **path);
};

bool hw_debuginfod_configured(void)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    return urls && urls[strspn(urls, " \t")];
}

bool hw_debuginfod_installed(void)
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    if (library)
        (void)dlclose(library);
    return library != NULL;
}

/* POSIX lets an object pointer become a function's; ISO C does not. */
static bool bind(void *library, const char *name, void *slot)
{
    void *found = dlsym(library, name);
    memcpy(slot, &found, sizeof found);
    return found != NULL;
}

int hw_debuginfod_new(struct hw_debuginfod **out)
{
    if (!hw_debuginfod_configured())
        return HW_ENOTFOUND;
    struct hw_debuginfod *d = calloc(1, sizeof *d);
    if (!d)
        return HW_ENOMEM;
    d->library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    bool whole = d->library && bind(d->library, "debuginfod_begin", &d->begin) &&
                 bind(d->library, "debuginfod_end", &d->end) &&
                 bind(d->library, "debuginfod_find_debuginfo", &d->find_debuginfo) &&
                 bind(d->library, "debuginfod_find_executable", &d->find_executable);
    d->client = whole ? d->begin() : NULL;
    if (!d->client) {
        hw_debuginfod_free(d);
        return HW_EUNSUPPORTED;
    }
    *out = d;
    return HW_OK;
}

void hw_debuginfod_free(struct hw_debuginfod *d)
{
    if (!d)
        return;
    if (d->client)
        d->end(d->client);
    if (d->library)
        (void)dlclose(d->library);
    free(d);
}

int hw_debuginfod_find(struct hw_debuginfod *d, struct hw_bytes build_id, int *fd)
{
    if (build_id.n == 0 || build_id.n > 64)
        return HW_ENOTFOUND;
    int got = d->find_debuginfo(d->client, build_id.p, (int)build_id.n, NULL);
    if (got < 0)
        got = d->find_executable(d->client, build_id.p, (int)build_id.n, NULL);
    if (got < 0)
        return HW_ENOTFOUND;
    *fd = got;
    return HW_OK;
}
