/* What is tracked, as text and as JSON. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "config/command/explain.h"
#include "config/memlog_modes.h"
#include "proc/pid.h"
#include "record/process_reads.h"
#include "record/record_options.h"
#include "record/tracked/tracked_processes.h"
#include "wire/handshake.h"

#include "base/banned.h"

enum { MAX_COMMAND = 2000 }; /* a longer one is not worth retyping */

void hw_tracked_message(const struct hw_tracked_list *l, char *out, size_t max)
{
    bool by_hand = strcmp(l->mode, "manual") == 0;
    for (const struct hw_memlog_mode *x = hw_memlog_modes; x->name; x++)
        if (strcmp(x->name, l->mode) == 0 && !(by_hand && l->n_tracked == 0)) {
            (void)snprintf(out, max, "%s", x->text);
            return;
        }
    if (by_hand)
        (void)snprintf(out, max,
                       "Nothing is tracked, so no trace has heap dumps. Memory logging must be "
                       "enabled by hand per process, or a mode chosen for those that start.");
    else
        (void)snprintf(out, max, "Memory logging is enabled for processes of the mode '%s'.",
                       l->mode); /* cut is fine */
}

static const char *shown_name(const struct hw_process_row *p)
{
    const char *name = hw_proc_shown_name(p->name);
    return name[0] ? name : p->name;
}

/* Quoted for a shell: words of harmless characters as they are, others in quotes. */
static void add_word(struct hw_strbuf *b, const char *word)
{
    static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "_-./=:,+@%";
    if (word[0] && strspn(word, harmless) == strlen(word)) {
        hw_strbuf_adds(b, word);
        return;
    }
    hw_strbuf_addc(b, '\'');
    for (; *word; word++)
        if (*word == '\'')
            hw_strbuf_adds(b, "'\\''");
        else
            hw_strbuf_addc(b, *word);
    hw_strbuf_addc(b, '\'');
}

static void put_command(struct hw_json *j, int32_t pid)
{
    struct hw_pid p;
    struct hw_strbuf b = {0};
    hw_autofree char *cmdline = NULL;
    size_t n = 0;
    if (hw_pid_open(pid, &p, NULL) < 0)
        return;
    if (hw_read_cmdline(&p, &cmdline, &n) != HW_OK || n > MAX_COMMAND)
        n = 0;
    if (n && !strchr(cmdline, ' ')) /* else a title has overwritten the arguments */
        for (size_t at = 0; at < n; at += strlen(cmdline + at) + 1) {
            if (at)
                hw_strbuf_addc(&b, ' ');
            add_word(&b, cmdline + at);
        }
    hw_pid_done(&p);
    if (b.p && !b.failed)
        hw_json_kv_str(j, "command", b.p);
    hw_strbuf_done(&b);
}

static void put_details(struct hw_json *j, const struct hw_tracked_row *r)
{
    const struct hw_process_row *p = r->process;
    char key[16], user[32];
    (void)snprintf(key, sizeof key, "%d", p->pid); /* fits */
    hw_json_key(j, key);
    hw_json_begin_object(j);
    hw_json_kv_str(j, "role", r->role);
    hw_json_kv_str(j, "user", hw_user_name(p->uid, user));
    hw_json_kv_uint(j, "rss", p->rss_kb * 1024);
    hw_json_kv_str(j, "recording", p->session ? p->session->ref : NULL);
    hw_json_kv_str(j, "code", p->why.code);
    hw_json_kv_str(j, "reason", p->why.code ? p->why.text : NULL);
    hw_json_kv_str(j, "remedy", p->why.code ? hw_explain_remedy(p->why.code) : NULL);
    if (!p->why.code)
        put_command(j, p->pid);
    if (r->tracked) {
        uint64_t mode = p->session->stack_mode;
        hw_json_kv_str(j, "state", r->target->state);
        hw_json_kv_uint(j, "seconds", r->target->seconds);
        hw_json_kv_uint(j, "sampling_rate", p->session->interval);
        hw_json_kv_str(j, "stack_mode",
                       hw_stack_mode_words[mode < HW_STACKS_COUNT ? mode : HW_STACKS_NATIVE]);
        hw_json_kv_uint(j, "samples", r->target->samples);
        hw_json_kv_uint(j, "live", r->target->live);
        hw_json_kv_uint(j, "dropped", r->target->lost);
    }
    hw_json_end_object(j);
}

static void put_choices(struct hw_json *j)
{
    hw_json_key(j, "modes");
    hw_json_begin_array(j);
    for (const struct hw_memlog_mode *m = hw_memlog_modes; m->name; m++)
        hw_json_str(j, m->name);
    hw_json_end_array(j);
    hw_json_key(j, "stack_modes");
    hw_json_begin_array(j);
    for (size_t i = 0; i < HW_STACKS_COUNT; i++)
        hw_json_str(j, hw_stack_mode_words[i]);
    hw_json_end_array(j);
    hw_json_key(j, "sampling_rates");
    hw_json_begin_array(j);
    for (size_t i = 0; hw_tracked_rates[i]; i++)
        hw_json_uint(j, hw_tracked_rates[i]);
    hw_json_end_array(j);
}

void hw_tracked_put(struct hw_json *j, const struct hw_tracked_list *l)
{
    char message[512];
    hw_tracked_message(l, message, sizeof message);
    hw_json_kv_str(j, "message", message);
    hw_json_kv_str(j, "mode", l->mode);
    hw_json_kv_str(j, "stack_mode", hw_stack_mode_words[HW_STACKS_NATIVE]);
    hw_json_kv_uint(j, "sampling_rate", HW_TRACKED_RATE);
    put_choices(j);
    hw_json_key(j, "unsupported");
    if (l->unsupported.code) {
        hw_json_begin_object(j);
        hw_json_kv_str(j, "code", l->unsupported.code);
        hw_json_kv_str(j, "reason", l->unsupported.text);
        hw_json_kv_str(j, "remedy", hw_explain_remedy(l->unsupported.code));
        hw_json_end_object(j);
    } else {
        hw_json_null(j);
    }
    hw_json_key(j, "processes");
    hw_json_begin_array(j);
    for (size_t i = 0; i < l->rows.n; i++) {
        hw_json_begin_array(j);
        hw_json_int(j, l->rows.v[i].process->pid);
        hw_json_str(j, shown_name(l->rows.v[i].process));
        hw_json_bool(j, l->rows.v[i].tracked);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_key(j, "details");
    hw_json_begin_object(j);
    for (size_t i = 0; i < l->rows.n; i++)
        put_details(j, &l->rows.v[i]);
    hw_json_end_object(j);
}
