/* exec_files.c - the table, by the file's identity; one place for each, the newest stays */
#include "daemon/execwatch/exec_files.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory/map64.h"

#include "base/banned.h"

int hw_exec_file_id_of(int fd, const char *path, struct hw_exec_file_id *out)
{
    struct statx st;
    int flags = AT_STATX_DONT_SYNC | (path[0] ? 0 : AT_EMPTY_PATH);
    if (statx(fd, path, flags, STATX_BASIC_STATS, &st) < 0)
        return -1;
    *out = (struct hw_exec_file_id){(uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor, st.stx_ino,
                                    st.stx_size, st.stx_ctime.tv_sec, st.stx_ctime.tv_nsec};
    return 0;
}

static bool same(const struct hw_exec_file_id *a, const struct hw_exec_file_id *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           a->changed_s == b->changed_s && a->changed_ns == b->changed_ns;
}

static size_t place_of(const struct hw_exec_file_id *id)
{
    return (size_t)(hw_hash_mix(id->dev, id->ino) % HW_EXEC_FILES);
}

bool hw_exec_file_find(const struct hw_exec_files *f, const struct hw_exec_file_id *id,
                       struct hw_exec_file *out)
{
    const struct hw_exec_file_entry *e = &f->v[place_of(id)];
    uint32_t version = atomic_load_explicit(&e->version, memory_order_acquire);
    if (version == 0 || version % 2)
        return false;
    *out = e->file;
    out->interpreter[sizeof out->interpreter - 1] = '\0'; /* which it is, but in a change */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&e->version, memory_order_relaxed) == version && same(&out->id, id);
}

/* A writer that died in the middle leaves an odd version, which its successor makes even. */
void hw_exec_file_keep(struct hw_exec_files *f, const struct hw_exec_file *file)
{
    struct hw_exec_file_entry *e = &f->v[place_of(&file->id)];
    uint32_t version = atomic_load_explicit(&e->version, memory_order_relaxed) | 1u;
    atomic_store_explicit(&e->version, version, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    e->file = *file;
    atomic_store_explicit(&e->version, version + 1 ? version + 1 : 2, memory_order_release);
}

/* A program has the name of its loader inside, which itself has none. */
static bool is_object_without_loader(const char *head, size_t n)
{
    Elf64_Ehdr e;
    Elf32_Ehdr e32;
    if (n < sizeof e || memcmp(head, ELFMAG, SELFMAG) != 0)
        return false;
    memcpy(&e, head, sizeof e);
    memcpy(&e32, head, sizeof e32);
    if (e.e_type != ET_DYN)
        return false;
    bool wide = e.e_ident[EI_CLASS] == ELFCLASS64;
    uint64_t at = wide ? e.e_phoff : e32.e_phoff, entries = wide ? e.e_phnum : e32.e_phnum;
    uint64_t step = wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    if (entries == 0 || at > n || entries * step > n - at)
        return false;
    for (uint64_t i = 0; i < entries; i++) {
        uint32_t type; /* the first word of both */
        memcpy(&type, head + at + i * step, sizeof type);
        if (type == PT_INTERP)
            return false;
    }
    return true;
}

uint32_t hw_exec_file_kind_of(const char *head, size_t n, char interpreter[HW_EXEC_LINE])
{
    char line[HW_EXEC_LINE];
    interpreter[0] = '\0';
    if (n < 3 || head[0] != '#' || head[1] != '!')
        return is_object_without_loader(head, n) ? HW_EXEC_FILE_LOADER : HW_EXEC_FILE_OTHER;
    size_t len = n < sizeof line - 1 ? n : sizeof line - 1;
    memcpy(line, head, len);
    line[len] = '\0';
    char *p = line + 2 + strspn(line + 2, " \t");
    p[strcspn(p, " \t\r\n")] = '\0';
    (void)snprintf(interpreter, HW_EXEC_LINE, "%s", p); /* it is shorter */
    return HW_EXEC_FILE_SCRIPT;
}
