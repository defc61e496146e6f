#include "node/node_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "proc/file.h"
#include "proc/maps.h"
#include "proc/pid.h"
#include "proc/rights/access.h"

#include "base/banned.h"

/* ---- its files ---- */

#define START "_ZN4node5StartEiPPc" /* int node::Start(int, char **), which every release exports */

static bool exports_start(int fd)
{
    struct hw_image img;
    uint64_t va;
    if (hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, NULL) < 0)
        return false;
    bool found = hw_symbols_find(&img, ".dynsym", START, &va);
    hw_image_close(&img);
    return found;
}

static bool is_libnode(const char *path)
{
    return hw_starts_with(hw_base_name(path), "libnode.so");
}

static bool has_libnode(const struct hw_pid *pid)
{
    struct hw_maps maps;
    struct hw_proc_status st;
    bool found = false;
    if (hw_proc_status(pid->dir, &st) < 0 || hw_maps_read(pid->dir, &maps, NULL) < 0)
        return false;
    for (size_t i = 0; i < maps.maps.n && !found; i++) {
        const struct hw_map *m = &maps.maps.v[i];
        hw_autofd int fd = -1;
        if ((m->flags & HW_MAP_EXEC) && is_libnode(m->path) &&
            hw_proc_open_mapping(pid->dir, st.euid, m, &fd, NULL) == HW_OK)
            found = exports_start(fd);
    }
    hw_maps_done(&maps);
    return found;
}

void hw_node_inspect(const struct hw_pid *pid, void *out)
{
    struct hw_node_file *file = out;
    hw_autofd int exe = openat(pid->dir, "exe", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *file = (struct hw_node_file){.was_read = exe >= 0};
    file->is_node = exe >= 0 && (exports_start(exe) || has_libnode(pid));
}

/* ---- what may be done to it ---- */

int hw_node_check_signal(const struct hw_pid *pid, struct hw_error *err)
{
    struct hw_proc_status st;
    struct hw_proc_stat stat;
    if (hw_proc_status(pid->dir, &st) < 0 || hw_proc_stat(pid->dir, &stat) < 0 ||
        stat.state == 'Z' || stat.state == 'X')
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", pid->pid);
    if (!(st.signals_caught >> (SIGUSR1 - 1) & 1))
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d does not handle SIGUSR1, which would end it: it is still "
                       "starting, or runs with --disable-sigusr1; start it with --inspect",
                       pid->pid);
    if (stat.state == 'T' || stat.state == 't')
        return hw_fail(err, HW_EBUSY, 0, "process %d is stopped; `kill -CONT %d` lets it run",
                       pid->pid, pid->pid);
    return HW_OK;
}

int hw_node_check(const struct hw_pid *pid, const struct hw_node_file *file, struct hw_error *err)
{
    struct hw_proc_status st;
    struct hw_requester self;
    if (hw_proc_status(pid->dir, &st) < 0)
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", pid->pid);
    hw_requester_self(&self);
    int rc = hw_access_check(&self, pid->pid, pid->dir, &st, err);
    if (rc < 0)
        return rc;
    if (!file->was_read)
        return hw_fail(err, HW_EPERM, 0, "the program of process %d cannot be read", pid->pid);
    if (!file->is_node)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d ('%s') is not Node.js: its program does not contain it",
                       pid->pid, st.name);
    return HW_OK;
}

/* ---- the port that it was told ---- */

/* [HOST:]PORT or HOST, as --inspect takes it. */
static void read_host_port(const char *text, struct hw_node_port *out)
{
    const char *colon = strrchr(text, ':');
    const char *digits = colon ? colon + 1 : text;
    char *end;
    unsigned long port = strtoul(digits, &end, 10);
    bool is_port = digits[0] >= '0' && digits[0] <= '9' && *end == '\0' && port <= UINT16_MAX;
    *out = (struct hw_node_port){is_port ? (uint16_t)port : HW_NODE_PORT,
                                 (colon && colon != text) || !is_port};
}

/* next: the word behind it, for options whose value may stand there; NULL = none. */
static void read_option(const char *word, const char *next, struct hw_node_port *out)
{
    static const char *const names[] = {"--inspect-port", "--debug-port", "--inspect-brk",
                                        "--inspect-wait", "--inspect"};
    enum { N_WITH_NEXT = 2 };
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++) {
        size_t n = strlen(names[i]);
        if (strncmp(word, names[i], n) != 0)
            continue;
        if (word[n] == '=')
            read_host_port(word + n + 1, out);
        else if (word[n] == '\0' && i < N_WITH_NEXT && next)
            read_host_port(next, out);
        if (word[n] == '=' || word[n] == '\0')
            return;
    }
}

static void read_words(const char *text, size_t n, char separator, struct hw_node_port *out)
{
    enum { MAX_WORD = 256 };
    char words[2][MAX_WORD];
    bool has_word = false;
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, separator, n - at);
        size_t len = end ? (size_t)(end - (text + at)) : n - at;
        if (len < MAX_WORD) {
            memcpy(words[1], text + at, len);
            words[1][len] = '\0';
        }
        if (has_word)
            read_option(words[0], len < MAX_WORD ? words[1] : NULL, out);
        has_word = len < MAX_WORD;
        memcpy(words[0], words[1], sizeof words[0]);
        at += len + 1;
    }
    if (has_word)
        read_option(words[0], NULL, out);
}

void hw_node_port(const char *cmdline, size_t n, const char *environ, size_t n_environ,
                  struct hw_node_port *out)
{
    static const char name[] = "NODE_OPTIONS=";
    *out = (struct hw_node_port){.port = HW_NODE_PORT};
    for (size_t at = 0; at < n_environ;) {
        size_t len = strnlen(environ + at, n_environ - at);
        if (len >= sizeof name - 1 && memcmp(environ + at, name, sizeof name - 1) == 0)
            read_words(environ + at + sizeof name - 1, len - (sizeof name - 1), ' ', out);
        at += len + 1;
    }
    read_words(cmdline, n, '\0', out);
}
