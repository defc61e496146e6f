/* Texts of reasons.def and of the ladder. */
#include "java/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/bytes.h"
#include "java/protocol.h"

#include "base/banned.h"

static const struct {
    const char *code, *text, *remedy;
} reasons[] = {
    {"ok", "", ""},
#define X(ID, code, text, remedy) {code, text, remedy},
#include "java/reasons.def"
#undef X
};

static size_t place(int reason)
{
    return reason >= 0 && reason < HW_JAVA_REASON_COUNT ? (size_t)reason : 0;
}

const char *hw_java_reason_code(int reason)
{
    return place(reason) || reason == 0 ? reasons[place(reason)].code : "?";
}

const char *hw_java_reason_text(int reason)
{
    return reasons[place(reason)].text;
}

const char *hw_java_reason_remedy(int reason)
{
    return reasons[place(reason)].remedy;
}

const char *hw_java_reason_with(int reason, int detail, char out[HW_JAVA_CODE_MAX])
{
    bool has = detail && (reason == HW_JAVA_CRASHED || reason == HW_JAVA_FORK_FAILED ||
                          reason == HW_JAVA_FAILED || reason == HW_JAVA_STALE_CLASSES ||
                          reason == HW_JAVA_FIELDS_UNVERIFIED || reason == HW_JAVA_ROOTS_UNTOLD ||
                          reason == HW_JAVA_ROOTS_UNNAMED);
    (void)snprintf(out, HW_JAVA_CODE_MAX, has ? "%s:%d" : "%s", hw_java_reason_code(reason),
                   detail);
    return out;
}

const char *hw_java_mode_text(unsigned mode)
{
    static const char *const texts[HW_JAVA_MODE_COUNT] = {
        [HW_JAVA_FORK_ADDRESS] = "fork, objects by address",
        [HW_JAVA_FORK_TAGS] = "fork, objects by tag",
        [HW_JAVA_PAUSED_ADDRESS] = "paused, objects by address",
        [HW_JAVA_PAUSED_TAGS] = "paused, objects by tag",
        [HW_JAVA_OWN_DUMP] = "the JVM's own heap dump",
    };
    return mode < HW_JAVA_MODE_COUNT ? texts[mode] : "?";
}
