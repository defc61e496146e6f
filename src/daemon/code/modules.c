#include "daemon/code/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_close.h"
#include "base/log.h"
#include "cfi/cfi.h"
#include "unwind/table.h"

#include "base/banned.h"

#define MAX_NAMES_A_JOB 65536u
#define MAX_NAME        65536u
#define NO_NAME         UINT64_C(0)
#define KEEP_FILES      64u /* kept without a user: the next target mostly executes the same ones */

struct running {
    uint64_t job;
    enum hw_job_type type;
    int memfd; /* owned */
    struct hw_module_file *m;
    uint64_t *pcs; /* owned; of NAMES */
    size_t n_pcs;
};

struct hw_modules {
    struct hw_workers *workers; /* borrowed */
    int cache_fd;               /* borrowed; -1 = none */
    hw_modules_changed *changed;
    void *ctx;
    HW_VEC(struct hw_module_file *) files;
    struct hw_map64 by_key; /* hash of the identity → row; collisions are found by comparing */
    HW_VEC(struct running) running;
    HW_VEC(struct hw_module_file *) waiting; /* tables that did not fit into the workers' memory */
    struct hw_arena arena;
};

int hw_modules_new(struct hw_workers *w, int cache_fd, hw_modules_changed *changed, void *ctx,
                   struct hw_modules **out)
{
    struct hw_modules *ms = calloc(1, sizeof *ms);
    if (!ms)
        return HW_ENOMEM;
    ms->workers = w;
    ms->cache_fd = cache_fd;
    ms->changed = changed;
    ms->ctx = ctx;
    *out = ms;
    return HW_OK;
}

void hw_modules_close_file(int fd, bool slow)
{
    if (slow && fd >= 0)
        hw_fd_close_slow(fd);
    else if (fd >= 0)
        (void)close(fd); /* read only */
}

static void file_free(struct hw_module_file *m)
{
    hw_modules_close_file(m->fd, m->slow);
    free(m->path);
    free(m->table);
    hw_map64_done(&m->names);
    hw_map64_done(&m->asked);
    hw_vec_done(&m->wanted);
    free(m);
}

void hw_modules_free(struct hw_modules *ms)
{
    if (!ms)
        return;
    for (size_t i = 0; i < ms->files.n; i++)
        file_free(ms->files.v[i]);
    for (size_t i = 0; i < ms->running.n; i++) {
        (void)close(ms->running.v[i].memfd); /* memory only */
        free(ms->running.v[i].pcs);
    }
    hw_vec_done(&ms->files);
    hw_vec_done(&ms->running);
    hw_vec_done(&ms->waiting);
    hw_map64_done(&ms->by_key);
    hw_arena_done(&ms->arena);
    free(ms);
}

int hw_module_facts_read(int fd, struct hw_module_facts *out)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return HW_ESYS;
    *out = (struct hw_module_facts){.dev = st.st_dev,
                                    .inode = st.st_ino,
                                    .size = (uint64_t)st.st_size,
                                    .mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u +
                                                (uint64_t)st.st_mtim.tv_nsec,
                                    .slow = hw_fd_is_slow(fd)};
    out->is_elf =
        hw_elf_read_identity(fd, out->build_id, &out->build_id_len, &out->load_bias, NULL) == HW_OK;
    if (!out->is_elf || hw_cfi_cache_key(fd, out->cache_key, NULL) < 0)
        out->cache_key[0] = '\0';
    return HW_OK;
}

static uint64_t identity_hash(const struct hw_module_facts *f)
{
    uint64_t h = hw_hash_mix(hw_hash_mix(f->dev, f->inode), f->size);
    return hw_hash_mix(h, f->mtime_ns) >> 1; /* never HW_MAP64_NO_KEY */
}

static struct hw_module_file *make_row(const struct hw_module_facts *f, const char *path)
{
    struct hw_module_file *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->dev = f->dev;
    m->inode = f->inode;
    m->size = f->size;
    m->mtime_ns = f->mtime_ns;
    m->fd = -1;
    m->path = strdup(path);
    memcpy(m->build_id, f->build_id, sizeof m->build_id);
    m->build_id_len = f->build_id_len;
    m->load_bias = f->load_bias;
    memcpy(m->cache_key, f->cache_key, sizeof m->cache_key);
    m->is_elf = f->is_elf;
    m->slow = f->slow;
    if (!f->is_elf)
        m->table_state = HW_TABLE_NONE; /* not an ELF file we know: frame pointers, no names */
    return m;
}

int hw_modules_get(struct hw_modules *ms, int fd, const struct hw_module_facts *f, const char *path,
                   struct hw_module_file **out)
{
    uint64_t key = identity_hash(f), row;
    for (; hw_map64_get(&ms->by_key, key, &row); key = hw_hash_u64(key) >> 1) {
        struct hw_module_file *m = ms->files.v[row];
        if (m->dev == f->dev && m->inode == f->inode && m->size == f->size &&
            m->mtime_ns == f->mtime_ns) {
            if (m->fd < 0)
                m->fd = fd;
            else
                hw_modules_close_file(fd, f->slow);
            *out = m;
            return HW_OK;
        }
    }
    struct hw_module_file *m = make_row(f, path);
    if (!m) {
        hw_modules_close_file(fd, f->slow);
        return HW_ENOMEM;
    }
    m->fd = fd;
    if (!m->path || hw_vec_push(&ms->files, m) < 0) {
        file_free(m);
        return HW_ENOMEM;
    }
    if (hw_map64_put(&ms->by_key, key, ms->files.n - 1) < 0) {
        ms->files.n--;
        file_free(m);
        return HW_ENOMEM;
    }
    *out = m;
    return HW_OK;
}

/* A recorder may run for months, and every program built meanwhile is a new file. */
static bool can_rest(const struct hw_module_file *m)
{
    return !m->used && m->fd >= 0 && m->table_state != HW_TABLE_COMPILING && m->wanted.n == 0 &&
           !m->names_running && !m->control_asked && !m->interpreters_asked;
}

void hw_modules_sweep(struct hw_modules *ms)
{
    size_t n_open = 0;
    for (size_t i = 0; i < ms->files.n; i++)
        n_open += ms->files.v[i]->fd >= 0;
    for (size_t i = 0; i < ms->files.n; i++) {
        struct hw_module_file *m = ms->files.v[i];
        if (n_open > KEEP_FILES && can_rest(m)) {
            hw_modules_close_file(m->fd, m->slow);
            m->fd = -1;
            n_open--;
            free(m->table);
            m->table = NULL;
            m->table_bytes = 0;
            if (m->table_state == HW_TABLE_READY)
                m->table_state = HW_TABLE_WANTED;
        }
        m->used = false;
    }
}

void hw_modules_forget(struct hw_modules *ms)
{
    if (ms->files.n <= KEEP_FILES || ms->running.n || ms->waiting.n)
        return;
    for (size_t i = 0; i < ms->files.n; i++)
        file_free(ms->files.v[i]);
    hw_vec_done(&ms->files);
    hw_map64_done(&ms->by_key);
    hw_arena_done(&ms->arena);
}

/* ---- jobs ---- */

static int send_job(struct hw_modules *ms, enum hw_job_type type, struct hw_module_file *m,
                    uint64_t *pcs, size_t n)
{
    struct running r = {.type = type, .m = m, .pcs = pcs, .n_pcs = n};
    r.memfd = memfd_create("hw-job", MFD_CLOEXEC);
    if (r.memfd < 0)
        return HW_ESYS;
    int rc = n && hw_fd_write_all(r.memfd, pcs, n * sizeof *pcs) < 0 ? HW_ESYS : HW_OK;
    if (rc == HW_OK && hw_vec_reserve(&ms->running, ms->running.n + 1) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_workers_send(ms->workers, type, m->fd, r.memfd, n, &r.job);
    if (rc < 0) {
        (void)close(r.memfd); /* memory only */
        return rc;
    }
    ms->running.v[ms->running.n++] = r;
    return HW_OK;
}

/* A stored table is trusted as little as a compiled one. */
static bool take_table(struct hw_module_file *m, void *table, size_t n)
{
    if (hw_table_check(table, n) < 0) {
        free(table);
        return false;
    }
    m->table = table;
    m->table_bytes = n;
    m->table_state = HW_TABLE_READY;
    return true;
}

static bool cached_table(struct hw_modules *ms, struct hw_module_file *m)
{
    void *table;
    size_t n;
    return ms->cache_fd >= 0 && m->cache_key[0] &&
           hw_cfi_cache_get(ms->cache_fd, m->cache_key, &table, &n) == HW_OK &&
           take_table(m, table, n);
}

void hw_modules_want_table(struct hw_modules *ms, struct hw_module_file *m)
{
    if (m->table_state != HW_TABLE_WANTED || cached_table(ms, m))
        return;
    int rc = send_job(ms, HW_JOB_TABLE, m, NULL, 0);
    m->table_state = rc == HW_OK || rc == HW_EBUSY ? HW_TABLE_COMPILING : HW_TABLE_NONE;
    if (rc == HW_EBUSY && hw_vec_push(&ms->waiting, m) < 0)
        m->table_state = HW_TABLE_NONE;
    if (m->table_state == HW_TABLE_NONE)
        hw_log(WARN, "no unwind table for '%s': %s", m->path, hw_errc_text(rc));
}

void hw_modules_want_control(struct hw_modules *ms, struct hw_module_file *m)
{
    if (!m->control_asked && !m->control_known && m->fd >= 0)
        m->control_asked = send_job(ms, HW_JOB_CONTROL, m, NULL, 0) == HW_OK;
}

static void on_control_va(struct running *r, const struct hw_job_answer *a)
{
    uint64_t va = 0;
    if (a->rc == HW_OK && a->n_bytes == sizeof va &&
        hw_fd_pread_all(r->memfd, &va, sizeof va, 0) == HW_OK)
        r->m->control_va = va;
    r->m->control_known = true;
    r->m->control_asked = false;
}

void hw_modules_want_interpreters(struct hw_modules *ms, struct hw_module_file *m)
{
    if (!m->interpreters_asked && !m->interpreters_known && m->fd >= 0)
        m->interpreters_asked = send_job(ms, HW_JOB_INTERPRETERS, m, NULL, 0) == HW_OK;
}

static void on_interpreters(struct running *r, const struct hw_job_answer *a)
{
    struct hw_interpreters s;
    if (a->rc == HW_OK && a->n_bytes == sizeof s &&
        hw_fd_pread_all(r->memfd, &s, sizeof s, 0) == HW_OK)
        r->m->interpreters = s;
    r->m->interpreters_known = true;
    r->m->interpreters_asked = false;
}

bool hw_module_name(struct hw_modules *ms, struct hw_module_file *m, uint64_t va, const char **name)
{
    (void)ms;
    uint64_t p;
    if (hw_map64_get(&m->names, va, &p)) {
        *name = p == NO_NAME ? NULL : (const char *)(uintptr_t)p;
        return true;
    }
    if (hw_map64_find(&m->asked, va))
        return false;
    if (m->fd < 0 || hw_vec_reserve(&m->wanted, m->wanted.n + 1) < 0 ||
        hw_map64_put(&m->asked, va, 1) < 0) {
        *name = NULL; /* cannot be asked for */
        return true;
    }
    m->wanted.v[m->wanted.n++] = va;
    return false;
}

static void settle_names(struct hw_module_file *m, const uint64_t *pcs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)hw_map64_take(&m->asked, pcs[i], NULL);
        if (!hw_map64_find(&m->names, pcs[i]))
            (void)hw_map64_put(&m->names, pcs[i], NO_NAME); /* without: asked again later */
    }
}

static void ask_names(struct hw_modules *ms, struct hw_module_file *m)
{
    if (m->wanted.n == 0 || m->names_running)
        return;
    size_t n = m->wanted.n < MAX_NAMES_A_JOB ? m->wanted.n : MAX_NAMES_A_JOB;
    uint64_t *pcs = malloc(n * sizeof *pcs);
    if (!pcs)
        return;
    uint64_t *from = m->wanted.v + (m->wanted.n - n);
    memcpy(pcs, from, n * sizeof *pcs);
    int rc = send_job(ms, HW_JOB_NAMES, m, pcs, n);
    if (rc == HW_OK) {
        m->names_running = true;
        m->wanted.n -= n;
        return;
    }
    if (rc != HW_EBUSY) { /* no answer will come: then without names */
        settle_names(m, pcs, n);
        m->wanted.n -= n;
    }
    free(pcs);
}

void hw_modules_request_names(struct hw_modules *ms)
{
    for (size_t i = 0; i < ms->files.n; i++)
        ask_names(ms, ms->files.v[i]);
}

/* ---- answers ---- */

static void on_table(struct hw_modules *ms, struct running *r, const struct hw_job_answer *a)
{
    struct hw_module_file *m = r->m;
    m->table_state = HW_TABLE_NONE;
    if (a->rc < 0 || a->n_bytes == 0 || a->n_bytes > HW_JOB_MAX_OUT) {
        if (a->rc != HW_ENOTFOUND)
            hw_log(WARN, "no unwind table for '%s': %s", m->path, a->text);
        return;
    }
    void *table = malloc(a->n_bytes);
    if (!table)
        return;
    if (hw_fd_pread_all(r->memfd, table, a->n_bytes, 0) < 0) {
        free(table);
        return;
    }
    if (take_table(m, table, a->n_bytes) && ms->cache_fd >= 0 && m->cache_key[0])
        (void)hw_cfi_cache_put(ms->cache_fd, m->cache_key, m->table,
                               m->table_bytes); /* saves time only */
}

/* n times u32 length + bytes, from a process we do not trust. */
static void read_names(struct hw_modules *ms, struct running *r, const uint8_t *p, size_t n_bytes)
{
    for (size_t i = 0; i < r->n_pcs; i++) {
        if (n_bytes < 4)
            return;
        uint32_t len = hw_load_u32(p);
        p += 4;
        n_bytes -= 4;
        if (len > n_bytes || len > MAX_NAME)
            return;
        char *name = len ? hw_arena_copy(&ms->arena, p, len) : NULL;
        (void)hw_map64_put(&r->m->names, r->pcs[i],
                           name ? (uint64_t)(uintptr_t)name : NO_NAME); /* else settled below */
        p += len;
        n_bytes -= len;
    }
}

static void on_names(struct hw_modules *ms, struct running *r, const struct hw_job_answer *a)
{
    r->m->names_running = false;
    if (a->rc < 0)
        hw_log(WARN, "no names for '%s': %s", r->m->path, a->text);
    else if (a->n_bytes && a->n_bytes <= HW_JOB_MAX_OUT) {
        hw_autofree uint8_t *text = malloc(a->n_bytes);
        if (text && hw_fd_pread_all(r->memfd, text, a->n_bytes, 0) == HW_OK)
            read_names(ms, r, text, a->n_bytes);
    }
    settle_names(r->m, r->pcs, r->n_pcs);
    ask_names(ms, r->m);
}

static void on_answer(struct hw_modules *ms, const struct hw_job_answer *a)
{
    for (size_t i = 0; i < ms->running.n; i++) {
        struct running r = ms->running.v[i];
        if (r.job != a->job)
            continue;
        ms->running.v[i] = ms->running.v[--ms->running.n];
        if (r.type == HW_JOB_TABLE)
            on_table(ms, &r, a);
        else if (r.type == HW_JOB_CONTROL)
            on_control_va(&r, a);
        else if (r.type == HW_JOB_INTERPRETERS)
            on_interpreters(&r, a);
        else
            on_names(ms, &r, a);
        (void)close(r.memfd); /* memory only */
        free(r.pcs);
        ms->changed(ms->ctx, r.m);
        return;
    }
}

/* The workers are gone (killed from outside): every request stays unanswered. */
static void give_up(struct hw_modules *ms)
{
    if (ms->running.n)
        hw_log(WARN, "the processes that read ELF files have ended: further files get no names and "
                     "unwind tables");
    while (ms->running.n) {
        struct hw_job_answer a = {.job = ms->running.v[0].job, .rc = HW_EGONE, .text = "no worker"};
        on_answer(ms, &a);
    }
}

void hw_modules_answers(struct hw_modules *ms)
{
    struct hw_job_answer a;
    int rc;
    while ((rc = hw_workers_take(ms->workers, &a)) > 0)
        on_answer(ms, &a);
    if (rc < 0)
        give_up(ms);
    for (size_t n = ms->waiting.n; n > 0; n--) {
        struct hw_module_file *m = ms->waiting.v[--ms->waiting.n];
        m->table_state = HW_TABLE_WANTED;
        hw_modules_want_table(ms, m);
    }
    hw_modules_request_names(ms);
}
