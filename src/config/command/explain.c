#include "config/command/explain.h"

#include <stddef.h>
#include <string.h>

#include "base/banned.h"

const struct hw_explained hw_explained[HW_EXPLAINED_COUNT] = {
#define X(code, meaning, remedy, page) {code, meaning, remedy, page},
#include "config/command/explain.def"
#undef X
};

static const struct hw_explained *find(const char *code)
{
    for (size_t i = 0; i < HW_EXPLAINED_COUNT; i++)
        if (strcmp(hw_explained[i].code, code) == 0)
            return &hw_explained[i];
    return NULL;
}

const char *hw_explain_remedy(const char *code)
{
    const struct hw_explained *e = find(code);
    return e ? e->remedy : NULL;
}

const char *hw_explain_page(const char *code)
{
    const struct hw_explained *e = find(code);
    return e ? e->page : NULL;
}
