/*
 * launcher.c - noticing a JVM when it is created
 *
 *     java ──> libjli: dlsym(libjvm, "JNI_CreateJavaVM") ──slot──> look_up: the real one is noted
 *                      JNI_CreateJavaVM(…) ──────────────────────> create: the real one,
 *                                                                   then java.c
 *
 * A sample in libjvm's code loads the library some moments after the JVM runs, too late for a
 * program of a second. The java command asks for the JVM's only entry by name; libjli is among the
 * libraries that it is linked with, so its slot of dlsym can be changed while there is one thread
 * and nothing of the program has run. No other slot of dlsym is touched.
 *
 * Other JVMs, of other programs or of a java command without libjli, are found by their samples.
 */
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/loaded_tables.h"
#include "client/client.h"
#include "client/hooks/jvm_start.h"
#include "client/kernel/now.h"

#define MOST_NS 5000000000u

typedef int create_fn(void **vm, void **env, void *args);
typedef void *look_up_fn(void *handle, const char *name);

static create_fn *real_create;
static look_up_fn *real_look_up;
static _Atomic bool made;
static uint64_t since_ns;

struct jli {
    uintptr_t relro_lo, relro_hi;
    struct hw_loaded_tables tables;
};

static int create(void **vm, void **env, void *args)
{
    int rc = real_create(vm, env, args);
    atomic_store(&made, true);
    if (rc == 0)
        hw_java_vm_created(*vm, *env);
    return rc;
}

static void *look_up(void *handle, const char *name)
{
    void *found = real_look_up(handle, name);
    if (!found || strcmp(name, "JNI_CreateJavaVM") != 0)
        return found;
    create_fn *ours = create;
    memcpy(&real_create, &found, sizeof real_create);
    memcpy(&found, &ours, sizeof found);
    return found;
}

/* libjvm's constructors allocate before its entry is asked for. A program that has libjli and
 * creates its JVM without it is waited for in vain. */
bool hw_launcher_is_creating_vm(void)
{
    return real_look_up && !atomic_load_explicit(&made, memory_order_relaxed) &&
           hw_local_coarse_ns() - since_ns < MOST_NS;
}

static int find(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct jli *j = arg;
    size_t n = info->dlpi_name ? strlen(info->dlpi_name) : 0, k = sizeof "/libjli.so" - 1;
    (void)size;
    if (n < k || strcmp(info->dlpi_name + n - k, "/libjli.so") != 0)
        return 0;
    hw_loaded_tables_read(&j->tables, info);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_GNU_RELRO) {
            j->relro_lo = j->tables.base + p->p_vaddr;
            j->relro_hi = j->relro_lo + p->p_memsz;
        }
    }
    return 1;
}

static void change(const struct jli *j, uintptr_t at)
{
    uintptr_t page = at & ~(uintptr_t)4095;
    bool is_const = at >= j->relro_lo && at < j->relro_hi;
    look_up_fn *ours = look_up;
    if (is_const && mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) != 0)
        return;
    memcpy(&real_look_up, (void *)at, sizeof real_look_up);
    memcpy((void *)at, &ours, sizeof ours);
    if (is_const)
        (void)mprotect((void *)page, 4096, PROT_READ); /* else it stays writable, like others */
}

bool hw_launcher_is_java(void)
{
    return real_look_up != NULL;
}

void hw_launcher_init(void)
{
    struct jli j = {0};
    since_ns = hw_local_coarse_ns();
    if (!dl_iterate_phdr(find, &j) || !j.tables.symbols || !j.tables.names)
        return;
    const struct hw_loaded_tables *t = &j.tables;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; t->slots[k].v && i < t->slots[k].n; i++) {
            const char *name = hw_loaded_slot_name(t, &t->slots[k].v[i]);
            if (name && !real_look_up && strcmp(name, "dlsym") == 0)
                change(&j, t->base + t->slots[k].v[i].r_offset);
        }
}
