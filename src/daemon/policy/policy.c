#include "daemon/policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "config/config.h"
#include "config/numbers.h"

#include "base/banned.h"

#define MAX_BYTES (256u * 1024)
#define BLANKS    " \t\r"

struct line {
    const char *path;
    unsigned number;
    struct hw_error *err;
};

static const char *const machines[HW_MACHINE_COUNT] = {"open", "developer", "production"};

const char *hw_machine_name(enum hw_machine m)
{
    return m < HW_MACHINE_COUNT ? machines[m] : "?";
}

/* ---- values ---- */

static int bad(const struct line *l, const char *what, const char *value)
{
    return hw_fail(l->err, HW_EINVAL, 0, "%s:%u: %s '%.80s'", l->path, l->number, what, value);
}

static int add_name(hw_policy_names *names, const char *word, const struct line *l)
{
    char *copy = strdup(word);
    if (copy && hw_vec_push(names, copy) == HW_OK)
        return HW_OK;
    free(copy);
    return hw_fail(l->err, HW_ENOMEM, 0, "policy");
}

static int set_machine(struct hw_policy *p, const char *word, const struct line *l)
{
    for (size_t i = 0; i < HW_MACHINE_COUNT; i++)
        if (strcmp(word, machines[i]) == 0) {
            p->machine = (enum hw_machine)i;
            return HW_OK;
        }
    return bad(l, "machine is open, developer or production, not", word);
}

static int add_user(struct hw_policy *p, const char *word, const struct line *l)
{
    uint64_t number;
    const struct passwd *pw = getpwnam(word);
    if (!pw && (hw_parse_uint(word, &number, NULL) < 0 || number >= UINT32_MAX))
        return bad(l, "no such user:", word);
    p->has_users = true;
    return hw_vec_push(&p->users, pw ? pw->pw_uid : (uint32_t)number) < 0
               ? hw_fail(l->err, HW_ENOMEM, 0, "policy")
               : HW_OK;
}

static int set_group(struct hw_policy *p, const char *word, const struct line *l)
{
    uint64_t number;
    const struct group *gr = getgrnam(word);
    if (!gr && (hw_parse_uint(word, &number, NULL) < 0 || number >= UINT32_MAX))
        return bad(l, "no such group:", word);
    if (p->has_group)
        return bad(l, "more than one group:", word);
    p->has_group = true;
    p->group = gr ? gr->gr_gid : (uint32_t)number;
    return HW_OK;
}

static int set_root(struct hw_policy *p, const char *word, const struct line *l)
{
    p->root_own = strcmp(word, "own") == 0;
    return p->root_own || strcmp(word, "all") == 0 ? HW_OK
                                                   : bad(l, "root is own or all, not", word);
}

static int set(struct hw_policy *p, const char *key, const char *word, const struct line *l)
{
    const struct {
        const char *key;
        hw_policy_names *names;
        int (*set)(struct hw_policy *p, const char *word, const struct line *l);
    } keys[] = {
        {"machine", NULL, set_machine},
        {"never", &p->never, NULL},
        {"critical", &p->critical, NULL},
        {"profileable", &p->profileable, NULL},
        {"debuggable", &p->debuggable, NULL},
        {"continuous", &p->continuous, NULL},
        {"users", NULL, add_user},
        {"group", NULL, set_group},
        {"root", NULL, set_root},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(keys); i++)
        if (strcmp(key, keys[i].key) == 0)
            return keys[i].names ? add_name(keys[i].names, word, l) : keys[i].set(p, word, l);
    return bad(l, "unknown key", key);
}

/* ---- lines ---- */

static int read_line(struct hw_policy *p, char *text, const struct line *l)
{
    char *save = NULL;
    text[strcspn(text, "#")] = '\0';
    char *equals = strchr(text, '=');
    char *key = text + strspn(text, BLANKS);
    if (!equals)
        return *key ? bad(l, "no `key = value`:", key) : HW_OK;
    *equals = '\0';
    key[strcspn(key, BLANKS)] = '\0';
    int rc = HW_OK;
    size_t n = 0;
    for (char *word = strtok_r(equals + 1, BLANKS ",", &save); word && rc == HW_OK;
         word = strtok_r(NULL, BLANKS ",", &save), n++)
        rc = set(p, key, word, l);
    return rc == HW_OK && n == 0 ? bad(l, "no value for", key) : rc;
}

static int read_text(struct hw_policy *p, char *text, struct line *l)
{
    int rc = HW_OK;
    while (*text && rc == HW_OK) {
        size_t n = strcspn(text, "\n");
        bool last = text[n] == '\0';
        text[n] = '\0';
        l->number++;
        rc = read_line(p, text, l);
        text += n + !last;
    }
    return rc;
}

/* Whoever can write it decides. */
static int check_owner(int fd, const char *path, struct hw_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return hw_fail(err, HW_EINVAL, 0, "policy '%s' is not a regular file", path);
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return hw_fail(err, HW_EPERM, 0,
                       "policy '%s' can be written by users other than root and the recorder's; "
                       "chown it to root and chmod go-w",
                       path);
    return HW_OK;
}

int hw_policy_read(const char *path, struct hw_policy *out, struct hw_error *err)
{
    struct hw_policy p = {.machine = HW_MACHINE_DEVELOPER,
                          .selinux = hw_selinux_state(HW_SELINUX_ROOT)};
    struct line l = {.path = path ? path : HW_POLICY_FILE, .err = err};
    char *text = NULL;
    size_t n = 0;
    hw_autofd int fd = open(l.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && !path && errno == ENOENT) {
        *out = p;
        return HW_OK;
    }
    if (fd < 0)
        return hw_fail_sys(err, "policy '%s'", l.path);
    int rc = check_owner(fd, l.path, err);
    if (rc == HW_OK) {
        char name[64]; /* the very file that was checked */
        (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        rc = hw_file_read(-1, name, MAX_BYTES, &text, &n, err);
    }
    if (rc == HW_OK)
        rc = memchr(text, '\0', n) ? bad(&l, "binary file", l.path) : read_text(&p, text, &l);
    free(text);
    if (rc < 0) {
        hw_policy_done(&p);
        return rc;
    }
    *out = p;
    return HW_OK;
}

void hw_policy_done(struct hw_policy *p)
{
    hw_policy_names *lists[] = {&p->never, &p->critical, &p->profileable, &p->debuggable,
                                &p->continuous};
    for (size_t i = 0; i < HW_ARRAY_LEN(lists); i++) {
        for (size_t k = 0; k < lists[i]->n; k++)
            free(lists[i]->v[k]);
        hw_vec_done(lists[i]);
    }
    hw_vec_done(&p->users);
}

bool hw_policy_names_has(const hw_policy_names *names, const char *exe, const char *comm)
{
    for (size_t i = 0; i < names->n; i++)
        if (hw_config_name_matches(names->v[i], exe) || hw_config_name_matches(names->v[i], comm))
            return true;
    return false;
}

enum hw_machine hw_policy_machine(const struct hw_policy *p)
{
    if (p->machine == HW_MACHINE_DEVELOPER && p->selinux == HW_SELINUX_PERMISSIVE)
        return HW_MACHINE_OPEN;
    return p->machine;
}
