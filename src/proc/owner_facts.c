/* owner_facts.c - what is read of a process besides its mappings to know whose they are */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/memory_owner.h"

#include "base/banned.h"

static uint64_t stack_pointer(int task, const char *tid)
{
    char path[64], *text;
    size_t n;
    unsigned long long sp = 0;
    (void)snprintf(path, sizeof path, "%.20s/syscall", tid);
    if (hw_file_read(task, path, 4096, &text, &n, NULL) < 0)
        return 0;
    /* "NR ARG... SP PC", "-1 SP PC" in user space, "running" */
    char *pc = strrchr(text, ' ');
    if (pc) {
        *pc = '\0';
        char *at = strrchr(text, ' ');
        sp = at ? strtoull(at + 1, NULL, 16) : 0;
    }
    free(text);
    return sp;
}

bool hw_owner_was_stack(int mem, int pagemap, uint64_t start, uint64_t end)
{
#if defined(__x86_64__)
    enum { TOP = 16 << 10, PAGE = 4096, SELF = 2 /* words between the two */ };
    static const uint64_t present = UINT64_C(1) << 63, swapped = UINT64_C(1) << 62;
    uint64_t words[TOP / sizeof(uint64_t)] = {0}, pages[TOP / PAGE],
                         from = end - start > TOP ? end - TOP : start;
    size_t n = (size_t)(end - from) / sizeof *words, n_pages = (size_t)(end - from) / PAGE;
    if (mem < 0 || end <= UINT32_MAX ||
        hw_fd_pread_all(pagemap, pages, n_pages * 8, from / PAGE * 8) < 0)
        return true;
    for (size_t i = 0; i < n_pages; i++) /* a page that was never used is zero */
        if ((pages[i] & swapped) ||
            ((pages[i] & present) &&
             hw_fd_pread_all(mem, words + i * PAGE / 8, PAGE, from + i * PAGE) != HW_OK))
            return true;
    for (size_t i = 0; i + SELF < n; i++)
        if (words[i] == from + i * sizeof *words && words[i + SELF] == words[i])
            return true;
    return false;
#else
    (void)mem, (void)pagemap, (void)start, (void)end;
    return true;
#endif
}

static int read_threads(int proc_dir, struct hw_owner_facts *f)
{
    int fd = openat(proc_dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = HW_OK;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            (void)close(fd); /* read only */
        return HW_OK;
    }
    for (struct dirent *e;
         rc == HW_OK && f->threads.n < HW_OWNERS_MAX_THREADS && (e = readdir(d));) {
        struct hw_owner_thread t = {.sp = 0};
        char path[64], *name;
        size_t n;
        if (e->d_name[0] < '0' || e->d_name[0] > '9')
            continue;
        (void)snprintf(path, sizeof path, "%.20s/comm", e->d_name);
        if (hw_file_read(fd, path, 4096, &name, &n, NULL) < 0)
            continue;
        name[strcspn(name, "\n")] = '\0';
        (void)snprintf(t.label, sizeof t.label, "[stack:%.16s]", name);
        free(name);
        t.sp = stack_pointer(fd, e->d_name);
        if (hw_vec_push(&f->threads, t) < 0)
            rc = HW_ENOMEM;
    }
    (void)closedir(d); /* read only */
    return rc;
}

int hw_owner_facts_read(int proc_dir, enum hw_owner_allocator allocator, struct hw_owner_facts *out)
{
    *out = (struct hw_owner_facts){.allocator = allocator, .mem = -1, .pagemap = -1};
    out->mem = openat(proc_dir, "mem", O_RDONLY | O_CLOEXEC);
    out->pagemap = openat(proc_dir, "pagemap", O_RDONLY | O_CLOEXEC);
    int rc = read_threads(proc_dir, out);
    if (rc < 0)
        hw_owner_facts_done(out);
    return rc;
}

void hw_owner_facts_done(struct hw_owner_facts *f)
{
    hw_autofd_close(&f->mem);
    hw_autofd_close(&f->pagemap);
    hw_vec_done(&f->threads);
    f->mem = f->pagemap = -1;
}
