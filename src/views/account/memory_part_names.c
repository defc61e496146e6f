#include "views/account/memory_parts.h"

#include "base/banned.h"

static const char *const names[HW_PART_COUNT] = {
#define X(ID, name, what) [HW_PART_##ID] = name,
    HW_MEMORY_PARTS(X)
#undef X
};

static const char *const whats[HW_PART_COUNT] = {
#define X(ID, name, what) [HW_PART_##ID] = what,
    HW_MEMORY_PARTS(X)
#undef X
};

const char *hw_memory_part_name(enum hw_memory_part p)
{
    return names[p];
}

const char *hw_memory_part_what(enum hw_memory_part p)
{
    return whats[p];
}

const char *hw_memory_entry_name(const struct hw_profile *p, const struct hw_part_entry *e)
{
    const char *name = hw_strings_cstr(hw_callsites_strings(p->callsites), e->name);
    return name[0] ? name : "without a name";
}
