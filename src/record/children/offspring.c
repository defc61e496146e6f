#include "record/children/offspring.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "proc/number.h"
#include "proc/pid.h"
#include "record/diagnosis.h"
#include "record/process_reads.h"
#include "wire/control_page.h"

#include "base/banned.h"

enum { MOST = 4096, CHILDREN_BYTES = 65536 };

/* Anew each time: it may have executed another program. One that has ended has no file any more, but
 * its name until its parent asks. */
static void read_name(struct hw_offspring_row *row, int proc_dir)
{
    char name[sizeof row->name];
    hw_autofree char *comm = NULL;
    size_t n;
    hw_proc_exe_name(proc_dir, name, sizeof name);
    if (!name[0] && !row->name[0] &&
        hw_file_read(proc_dir, "comm", sizeof name, &comm, &n, NULL) == 0)
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(comm, "\n"), comm);
    if (name[0])
        memcpy(row->name, name, sizeof name);
}

/* Also one that has ended, until its parent asks: no descriptor of a process is had of it any more. */
static void add(struct hw_offspring *o, int32_t pid, int32_t root)
{
    struct hw_offspring_row *row = NULL;
    struct hw_proc_stat st;
    hw_autofd int dir = pid == root ? -1 : hw_proc_open_dir(pid);
    if (dir < 0 || hw_proc_stat(dir, &st) < 0)
        return;
    for (size_t i = 0; i < o->rows.n && !row; i++)
        if (o->rows.v[i].pid == pid && o->rows.v[i].start_ticks == st.start_ticks)
            row = &o->rows.v[i];
    if (!row && o->rows.n < MOST &&
        hw_vec_push(&o->rows, ((struct hw_offspring_row){pid, st.start_ticks, ""})) == 0)
        row = &o->rows.v[o->rows.n - 1];
    if (row)
        read_name(row, dir);
}

static void add_listed(struct hw_offspring *o, int task, const char *thread, int32_t root)
{
    char name[64];
    hw_autofree char *text = NULL;
    size_t n;
    (void)snprintf(name, sizeof name, "%.20s/children", thread); /* a thread's number */
    if (hw_file_read(task, name, CHILDREN_BYTES, &text, &n, NULL) < 0)
        return; /* it has ended, or the kernel keeps no such list */
    char *end = text;
    for (long pid = strtol(text, &end, 10); pid > 0; pid = strtol(end, &end, 10))
        add(o, (int32_t)pid, root);
}

static void add_children(struct hw_offspring *o, int32_t pid, uint64_t start_ticks, int32_t root)
{
    struct hw_pid p;
    if (hw_pid_open(pid, &p, NULL) < 0)
        return;
    hw_autofd int task = start_ticks && hw_pid_start(&p) != start_ticks
                             ? -1
                             : openat(p.dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = task < 0 ? NULL : fdopendir(dup(task));
    const struct dirent *e;
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.')
            add_listed(o, task, e->d_name, root);
    if (d)
        (void)closedir(d); /* it was only read */
    hw_pid_done(&p);
}

void hw_offspring_scan(struct hw_offspring *o, int32_t root)
{
    add_children(o, root, 0, root);
    for (size_t i = 0; i < o->rows.n; i++) /* it grows */
        add_children(o, o->rows.v[i].pid, o->rows.v[i].start_ticks, root);
}

/* A title that is written over the arguments reaches into the environment (nginx). */
static bool has_socket(const struct hw_pid *p, const char *socket)
{
    hw_autofree char *text = NULL;
    size_t n = 0;
    return hw_read_environ(p, &text, &n) == 0 && memmem(text, n, socket, strlen(socket) + 1);
}

static bool has_page(const struct hw_pid *p, const char *name)
{
    struct hw_maps maps;
    bool has = false;
    if (hw_read_maps(p, &maps) < 0)
        return false;
    for (size_t i = 0; i < maps.maps.n && !has; i++)
        has = strcmp(maps.maps.v[i].path, name) == 0;
    hw_maps_done(&maps);
    return has;
}

void hw_offspring_find(struct hw_offspring *o, int32_t root, int32_t recorder, const char *socket)
{
    char page[64];
    hw_pid_list all = {0};
    struct hw_pid self, p;
    (void)snprintf(page, sizeof page, "/memfd:" HW_CONTROL_NAME, (int)recorder);
    if (hw_pid_open(getpid(), &self, NULL) < 0)
        return;
    (void)hw_proc_list(&all); /* entries read before a failure count */
    for (size_t i = 0; i < all.n; i++) {
        if (all.v[i] == self.pid || all.v[i] == recorder || hw_pid_open(all.v[i], &p, NULL) < 0)
            continue;
        if (hw_pid_start(&p) >= hw_pid_start(&self) &&
            (has_page(&p, page) || has_socket(&p, socket)))
            add(o, p.pid, root);
        hw_pid_done(&p);
    }
    hw_pid_done(&self);
    hw_vec_done(&all);
}

static bool runs(const struct hw_offspring_row *row, bool with_library)
{
    struct hw_pid p;
    struct hw_proc_stat st;
    if (hw_pid_open(row->pid, &p, NULL) < 0)
        return false;
    bool does = hw_pid_start(&p) == row->start_ticks && hw_proc_stat(p.dir, &st) == 0 &&
                st.state != 'Z' && st.state != 'X' &&
                (!with_library || hw_diagnose_has_library(&p));
    hw_pid_done(&p);
    return does;
}

bool hw_offspring_lives(const struct hw_offspring_row *row)
{
    return runs(row, /* with_library = */ true);
}

bool hw_offspring_runs(const struct hw_offspring_row *row)
{
    return row->start_ticks && runs(row, /* with_library = */ false);
}

struct hw_offspring_row hw_offspring_now(int32_t pid)
{
    struct hw_offspring_row row = {.pid = pid};
    struct hw_pid p;
    if (hw_pid_open(pid, &p, NULL) == 0) {
        row.start_ticks = hw_pid_start(&p);
        read_name(&row, p.dir);
        hw_pid_done(&p);
    }
    return row;
}

void hw_offspring_done(struct hw_offspring *o)
{
    hw_vec_done(&o->rows);
}
