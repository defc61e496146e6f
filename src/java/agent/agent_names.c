#include <stdio.h>
#include <string.h>

#include "java/agent/agent.h"

#include "base/banned.h"

static const char *primitive(char letter)
{
    static const char *const names[] = {"Zboolean", "Bbyte", "Cchar",  "Sshort",
                                        "Iint",     "Jlong", "Ffloat", "Ddouble"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i][0] == letter)
            return names[i] + 1;
    return "?";
}

/* "Lcom/x/Y$Z;" -> "com.x.Y$Z", "[[I" -> "int[][]". */
void agent_class_name(const char *signature, char *out, size_t size)
{
    size_t rank = strspn(signature, "[");
    const char *p = signature + rank;
    size_t n = strlen(p);
    if (p[0] == 'L' && n > 2)
        (void)snprintf(out, size, "%.*s", (int)(n - 2), p + 1);
    else
        (void)snprintf(out, size, "%s", primitive(p[0]));
    for (char *q = out; *q; q++)
        if (*q == '/')
            *q = '.';
    for (n = strlen(out); rank && n + 3 < size; rank--, n += 2)
        memcpy(out + n, "[]", 3);
}

static void give_back(hw_jvm_env ti, void *p)
{
    (void)HW_JVM(ti, HW_TI_DEALLOCATE, hw_ti_free_fn *)(ti, p); /* NULL is fine */
}

static uint32_t line_of(hw_jvm_env ti, void *method, int64_t bci)
{
    int32_t n = 0;
    struct hw_jvm_line *table = NULL;
    int64_t best = -1;
    uint32_t line = 0;
    if (bci < 0 || HW_JVM(ti, HW_TI_METHOD_LINES, hw_ti_lines_fn *)(ti, method, &n, &table))
        return 0;
    for (int32_t i = 0; i < n; i++)
        if (table[i].start <= bci && table[i].start > best) {
            best = table[i].start;
            line = (uint32_t)table[i].line;
        }
    give_back(ti, table);
    return line;
}

bool agent_method_name(hw_jvm_env ti, void *method, int64_t bci, struct agent_method_naming *x,
                       hw_jobject *class)
{
    char *name = NULL, *signature = NULL, *source = NULL;
    hw_jobject c = NULL;
    if (!method || HW_JVM(ti, HW_TI_METHOD_CLASS, hw_ti_method_class_fn *)(ti, method, &c) != 0 ||
        HW_JVM(ti, HW_TI_CLASS_SIGNATURE, hw_ti_signature_fn *)(ti, c, &signature, NULL) != 0)
        return false;
    bool ok =
        HW_JVM(ti, HW_TI_METHOD_NAME, hw_ti_method_name_fn *)(ti, method, &name, NULL, NULL) == 0;
    if (ok) {
        agent_class_name(signature, x->function, sizeof x->function);
        size_t n = strlen(x->function);
        (void)snprintf(x->function + n, sizeof x->function - n, ".%s", name);
        x->line = line_of(ti, method, bci);
        const char *slash = strrchr(signature, '/');
        int folder = slash && signature[0] == 'L' ? (int)(slash - signature) : 0;
        if (HW_JVM(ti, HW_TI_SOURCE_FILE, hw_ti_text_fn *)(ti, c, &source) == 0)
            (void)snprintf(x->file, sizeof x->file, "%.*s%s", folder, signature + 1, source);
    }
    *class = c;
    give_back(ti, name);
    give_back(ti, signature);
    give_back(ti, source);
    return ok;
}
