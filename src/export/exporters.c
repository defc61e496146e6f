#include <string.h>

#include "base/error.h"
#include "export/export.h"

#include "base/banned.h"

const struct hw_exporter *const hw_exporters[] = {
    &hw_export_pprof,
    &hw_export_folded,
    &hw_export_speedscope,
    &hw_export_svg,
    &hw_export_html,
    &hw_export_json,
    &hw_export_text,
    &hw_export_csv,
    &hw_export_heaptrack,
    &hw_export_massif,
    &hw_export_hprof,
    &hw_export_v8_snapshot,
    &hw_export_v8_profile,
    &hw_export_memory_infra,
    &hw_export_memory_infra_v1,
    &hw_export_perfetto,
    NULL,
};

/* Other names by which people know a format. */
static const struct {
    const char *word, *name;
} aliases[] = {{"collapsed", "folded"}, {"pb", "pprof"}, {"flamegraph", "svg"}};

const struct hw_exporter *hw_exporter_find(const char *name)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(aliases); i++)
        if (strcmp(aliases[i].word, name) == 0)
            name = aliases[i].name;
    for (const struct hw_exporter *const *e = hw_exporters; *e; e++)
        if (strcmp((*e)->name, name) == 0)
            return *e;
    return NULL;
}
