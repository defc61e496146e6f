/* Filters and suppressions: each line of the input is a filter; all of it is a suppressions file.
 */
#include <stdlib.h>
#include <string.h>

#include "views/filter.h"
#include "views/findings/suppressions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"", "main", "std::map<int, int>::operator[](int&&)",
                                    "foo(bar*)"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hw_suppressions known;
    hw_filters filters = {0};
    char *text = malloc(size + 1), *rest = text;
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    for (char *line; (line = strsep(&rest, "\n"));)
        (void)hw_filters_add(&filters, line, NULL); /* most are refused */
    for (size_t i = 0; i < filters.n; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            (void)hw_pattern_matches(filters.v[i].pattern, names[k]);
    if (hw_suppressions_read(hw_bytes_of(data, size), &known, NULL) == 0) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            (void)hw_suppressions_match(&known, names[k]);
        hw_suppressions_done(&known);
    }
    hw_filters_done(&filters);
    free(text);
    return 0;
}
