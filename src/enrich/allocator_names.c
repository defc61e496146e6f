#include "enrich/allocator_names.h"

#include <string.h>

#include "base/text/text_parts.h"

#include "base/banned.h"

static struct hw_bytes behind(struct hw_bytes text, size_t n)
{
    return hw_bytes_of(text.p + n, text.n - n);
}

/* Bytes up to the '>' that closes what was opened before; text.n: there is none. An operator's
 * name may contain one, too: that of "->" is no bracket. */
static size_t closing(struct hw_bytes text)
{
    size_t depth = 1;
    for (size_t i = 0; i < text.n; i++) {
        bool arrow = text.p[i] == '>' && i > 0 && text.p[i - 1] == '-';
        depth += text.p[i] == '<';
        depth -= text.p[i] == '>' && !arrow;
        if (depth == 0)
            return i;
    }
    return text.n;
}

bool hw_allocator_type(struct hw_bytes function, struct hw_bytes *out)
{
    static const char *const allocators[] = {"std::__new_allocator<", "__gnu_cxx::new_allocator<",
                                             "std::allocator<", "std::__1::allocator<"};
    for (size_t i = 0; i < HW_ARRAY_LEN(allocators); i++) {
        if (!hw_bytes_start_with(function, allocators[i]))
            continue;
        struct hw_bytes rest = behind(function, strlen(allocators[i]));
        size_t n = closing(rest);
        if (n == rest.n || !hw_bytes_start_with(behind(rest, n + 1), "::allocate"))
            return false;
        while (n > 0 && rest.p[n - 1] == ' ')
            n--;
        *out = hw_bytes_of(rest.p, n);
        return n > 0;
    }
    return false;
}
