/* process_tables.c - see process_tables.h */
#include "process_tables.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "cfi/cfi.h"
#include "elf/elf.h"
#include "unwind/table.h"

struct line {
    uint64_t start, end, offset;
    char perms[5];
    char path[256];
};

static bool parse_line(const char *text, struct line *l)
{
    l->path[0] = 0;
    return sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %255[^\n]", &l->start,
                  &l->end, l->perms, &l->offset, l->path) >= 4;
}

int process_tables_open(struct process_tables *p, pid_t pid)
{
    *p = (struct process_tables){.pid = pid};
    p->dir = mmap(NULL, HW_TABLES_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p->dir == MAP_FAILED)
        return -1;
    struct hw_tables_dir *d = (struct hw_tables_dir *)(void *)p->dir;
    d->magic = HW_TABLES_MAGIC;
    d->arch = HW_ARCH_HERE;
    p->used = sizeof *d;
    return 0;
}

static void *append(struct process_tables *p, size_t n)
{
    if (HW_TABLES_BYTES - p->used < n + 64)
        return NULL;
    void *at = p->dir + p->used;
    p->used += (n + 63) & ~(size_t)63;
    return at;
}

/* The vdso exists in memory only. */
static int open_vdso(const struct process_tables *p, const struct line *l)
{
    size_t n = (size_t)(l->end - l->start);
    hw_autofree char *bytes = malloc(n);
    struct iovec to = {bytes, n}, from = {(void *)(uintptr_t)l->start, n};
    hw_autofd int fd = memfd_create("vdso", MFD_CLOEXEC);
    if (fd < 0 || !bytes || process_vm_readv(p->pid, &to, 1, &from, 1, 0) != (ssize_t)n ||
        hw_fd_write_all(fd, bytes, n) < 0)
        return -1;
    return hw_fd_take(&fd);
}

static const struct known_file *file_of(struct process_tables *p, const struct line *l)
{
    for (size_t i = 0; i < p->n_files; i++)
        if (strcmp(p->files[i].path, l->path) == 0)
            return &p->files[i];
    struct known_file *files = realloc(p->files, (p->n_files + 1) * sizeof *files);
    if (!files)
        return NULL;
    p->files = files;
    struct known_file *f = &files[p->n_files++];
    *f = (struct known_file){0};
    memcpy(f->path, l->path, sizeof f->path);

    hw_autofd int fd =
        strcmp(l->path, "[vdso]") == 0 ? open_vdso(p, l) : open(l->path, O_RDONLY | O_CLOEXEC);
    uint8_t id[HW_BUILD_ID_MAX];
    uint32_t n_id;
    hw_autofree void *table = NULL;
    size_t n;
    struct hw_error err = {0};
    if (fd < 0 || hw_elf_read_identity(fd, id, &n_id, &f->load_bias, &err) < 0)
        return f;
    int rc = hw_cfi_compile(fd, -1, &table, &n, NULL, &err);
    if (rc < 0 || hw_table_check(table, n) < 0) {
        if (rc != HW_ENOTFOUND)
            fprintf(stderr, "%s: %s\n", l->path, err.text);
        return f;
    }
    char *at = append(p, n);
    if (at) {
        memcpy(at, table, n);
        f->table_off = (uint64_t)(at - p->dir);
    }
    return f;
}

int process_tables_refresh(struct process_tables *p, bool *changed)
{
    char path[64];
    *changed = false;
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)p->pid);
    char *maps;
    size_t n;
    if (hw_file_read(AT_FDCWD, path, 64 << 20, &maps, &n, NULL) < 0)
        return -1;
    if (p->maps && n == p->n_maps && memcmp(maps, p->maps, n) == 0) {
        free(maps);
        return 0;
    }
    free(p->maps);
    p->maps = maps;
    p->n_maps = n;

    size_t n_lines = 0;
    for (const char *s = maps; *s; s++)
        n_lines += *s == '\n';
    struct hw_module_snapshot *snap =
        append(p, sizeof *snap + (n_lines + 1) * sizeof(struct hw_module));
    if (!snap)
        return -1;
    snap->generation = ++p->generation;
    snap->n_modules = 0;
    struct line l;
    for (const char *s = maps; s && *s; s = strchr(s, '\n'), s = s ? s + 1 : s) {
        if (!parse_line(s, &l) || l.perms[2] != 'x')
            continue;
        if (l.path[0] != '/' && strcmp(l.path, "[vdso]") != 0)
            continue;
        const struct known_file *f = file_of(p, &l);
        if (!f)
            return -1;
        snap->modules[snap->n_modules++] =
            (struct hw_module){.lo = l.start,
                               .hi = l.end,
                               .bias = l.start - l.offset - f->load_bias,
                               .table_off = f->table_off,
                               .flags = f->table_off ? 0 : HW_MODULE_NO_TABLE};
    }
    struct hw_tables_dir *d = (struct hw_tables_dir *)(void *)p->dir;
    atomic_store_explicit(&d->snapshot_off, (uint64_t)((char *)snap - p->dir),
                          memory_order_release);
    *changed = true;
    return 0;
}

uint64_t process_tables_mapping_end(const struct process_tables *p, uint64_t addr)
{
    struct line l;
    for (const char *s = p->maps; s && *s; s = strchr(s, '\n'), s = s ? s + 1 : s)
        if (parse_line(s, &l) && addr >= l.start && addr < l.end)
            return l.end;
    return 0;
}

const struct hw_module_snapshot *process_tables_snapshot(const struct process_tables *p)
{
    return hw_tables_snapshot(p->dir);
}

void process_tables_done(struct process_tables *p)
{
    if (p->dir)
        (void)munmap(p->dir, HW_TABLES_BYTES);
    free(p->maps);
    free(p->files);
    *p = (struct process_tables){0};
}
