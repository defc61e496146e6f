/*
 * target.h - one profiled process, from hello to its last dump
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_TARGET_H
#define HW_DAEMON_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "daemon/books/callsite_totals.h"
#include "daemon/books/rate_limit.h"
#include "daemon/books/target_slices.h"
#include "daemon/clients/clients.h"
#include "daemon/code/frames.h"
#include "daemon/code/jit.h"
#include "daemon/code/notes.h"
#include "daemon/dump/pins.h"
#include "daemon/dump/resident.h"
#include "proc/memory_limits.h"
#include "proc/memory_owner.h"
#include "proc/pid.h"
#include "trace/process_writer.h"

enum hw_target_end {
    HW_END_NONE = 0,
    HW_END_SESSION, /* the session stopped */
    HW_END_EXITED,
    HW_END_EXECED,
    HW_END_BROKEN,  /* shared memory damaged */
    HW_END_STUCK,   /* a record was never finished */
    HW_END_GAVE_UP, /* the client did: its error word */
    HW_END_GUARDRAIL
};

enum hw_target_phase {
    HW_PHASE_PREPARING, /* tables are being compiled; the client waits */
    HW_PHASE_RUNNING,
    HW_PHASE_FINISHING, /* the last snapshot is on its way or being written */
    HW_PHASE_DONE
};

struct hw_heap_totals {
    uint32_t heap_id;
    char name[HW_HEAP_NAME_MAX];
    struct hw_callsite_totals tally;
    uint64_t last_ts_ns; /* of the last dump written; 0 = none */
    bool dumped;
};

/* trigger.c's: what the conditions of its source have seen of this process. */
struct hw_target_triggers {
    uint32_t fired;                   /* bit i: condition i, once */
    uint64_t base[HW_MAX_CONDITIONS]; /* rss+SIZE: bytes at the last dump; 0 = none yet */
    struct hw_limits limits;
    uint64_t limits_ns; /* when they were read */
    uint32_t level;     /* of the limit for whose nearness a checkpoint was made */
};

/* Meant by a source whose conditions to start were not true yet; begun: one was. */
struct hw_awaited_start {
    struct hw_pid pid; /* owned */
    uint32_t source;
    bool begun;
    struct hw_target_triggers triggers;
};

struct hw_inherited;

struct hw_target {
    struct hw_watch watch; /* the client's socket: its end */
    struct hw_watch exit;  /* pidfd */
    struct hw_recorder *rec;
    const struct hw_namespace_socket *ns_socket; /* the socket through which it came */
    struct hw_session *session;
    uint32_t source; /* data source in the session */
    struct hw_pid pid;
    uint32_t uid;
    int32_t ppid; /* at its hello */
    struct hw_hello hello;
    char name[256]; /* shown: argv[0]'s last part */
    char exe[256];
    bool launcher;
    bool from_startup;
    uint32_t share; /* it was held at random, and stands for 2^share starts; 0 = for itself */
    bool socket_closed;
    bool welcomed; /* it has the page */
    bool hit_guardrail;
    bool too_big;       /* found while its stacks were resolved: its next tick ends it */
    uint64_t max_bytes; /* of the recorder's memory */
    uint64_t key;       /* of its callsites in the trace; of its drain thread */
    uint64_t since_ns, since_coarse_ns;
    uint64_t next_poll_ns; /* procpoll.c; 0 = not yet decided */
    char *arguments;       /* of its hello, until the trace has them; owned; NULL = not known */
    size_t n_arguments;
    uint64_t arguments_hash;         /* of those in the trace; procpoll.c */
    struct hw_process_counters kept; /* procpoll.c: read, and not in the trace yet */
    uint64_t kept_ns, next_keep_ns;  /* boot time of them, 0 = none; when others are due */
    struct hw_target_account {       /* account.c: readings of its memory */
        struct hw_account_reading *last, *most; /* owned; NULL = none that is not in the trace */
        uint64_t most_kb;                       /* resident, of all kept so far */
        uint64_t next_ns, next_dump_ns;         /* not before */
        uint64_t next_heaps_ns;                 /* likewise, what is inside of heaps */
        struct hw_go_alloc *go;                 /* owned; NULL = none */
    } account;
    struct hw_malloc_info malloc_info; /* the last it told */
    uint64_t malloc_info_ns;           /* boot time of that; 0 = none yet */

    enum hw_target_phase phase;
    enum hw_target_end end;
    bool knows_exit;
    uint32_t exit_status; /* as wait() gives it */
    struct hw_page page;
    struct hw_filters filters;
    uint64_t filters_ns; /* last look */
    struct hw_tables tables;
    bool warned_python, warned_ruby, warned_php, warned_java;
    hw_notes notes;
    const struct hw_module_file *interpreter; /* that the client was told of */
    enum hw_managed_kind interpreter_kind;    /* whose it is */
    struct hw_ring_consumer *feed;            /* owned; with a drain thread while with_thread */
    bool with_thread;
    bool hides_libc; /* libc.malloc is sampled for another heap's sake, and not shown */
    bool is_jvm;     /* libjvm was seen in it */
    bool wants_java; /* a heap of Java objects was requested by name */
    uint64_t ring_bytes;
    struct hw_owner_file own_files[3]; /* that it shares with us: ring, page, tables */

    struct hw_frames frames;
    struct hw_target_slices slices;
    struct hw_jit jit;
    uint64_t jit_look_age_ns; /* when its files are searched next */
    int32_t inner_pid;        /* as it knows itself; 0 = not read yet */
    struct hw_maps maps;
    uint64_t maps_ns;        /* last reading */
    uint64_t maps_debt_ns;   /* the rest that readings up to then have earned */
    bool maps_due;           /* to be read as soon as the rate allows */
    bool maps_answer_due;    /* a feed waits for it */
    uint32_t maps_ask;       /* its last question */
    bool shared_due;         /* a feed waits for its shared mappings */
    uint32_t shared_ask;     /* its last question about them */
    uint64_t shared_next_ns; /* they are not read before */
    uint64_t hole_next_ns;   /* nobody looks for a writer before */
    uint64_t map_reparses;
    struct hw_map64 files; /* that were opened for it, once each */
    HW_VEC(struct hw_queued_stack {
        const struct hw_stack *stack;
        bool as_is; /* names that are still missing do not come */
    })
    unresolved; /* a queue: those before unresolved_at are done */
    size_t unresolved_at;
    HW_VEC(const struct hw_stack *) unnamed; /* whose managed frames' names are on their way */
    struct hw_rate_limit names_rest;         /* from searching for names */

    HW_VEC(struct hw_heap_totals) heaps;
    struct hw_dump_job { /* dump.c */
        bool active, final, next, next_final;
        /* Requested dumps are numbered from 1 as they begin: the one in progress (0 = it was not
         * requested), the newest, and the last that was written. */
        uint64_t number, newest, written;
        const char *trigger, *next_trigger;
        struct hw_snapshot *snap; /* owned */
        uint64_t since_ns;
        bool settled; /* its stacks have their names */
        enum {        /* dump_turns.c: what of it is written */
               HW_DUMP_WAITS,
               HW_DUMP_BEGINS,
               HW_DUMP_BOOKS,
               HW_DUMP_FREES,
               HW_DUMP_LIVE_VIEWS
        } stage;
        bool worth; /* it is shown */
        bool cut;   /* no more of it is */
        uint64_t began_ns;
        struct hw_dump_writing *writing; /* owned; NULL = nothing just now */
        struct hw_live_view *live_view;  /* owned; live_view.c */
        bool told_last;                  /* nobody wants the last view (any more) */
        size_t n_questions;              /* that the snapshot answers */
        /* A failed allocation's snapshot comes unrequested, and is older than the answer that a
         * job waits for: that job steps back until it is written. */
        struct hw_dump_back {
            bool active, final, answered;
            uint64_t number;
            const char *trigger;
            struct hw_snapshot *snap; /* owned */
            size_t n_questions;
        } back;
        bool has_failure;            /* and waits until what is written now is */
        struct hw_snapshot *failure; /* owned */
    } dump;
    HW_VEC(struct hw_graph_request) questions; /* of heap graphs of this process */
    struct hw_target_triggers triggers;
    uint64_t n_samples, n_lost;
    uint64_t n_unresolved; /* stacks without memory for their frames */
    uint32_t n_dumps;
    bool is_untold;         /* not in the trace yet: there its number belongs to another process */
    struct hw_target_idle { /* dump.c */
        struct hw_idle source;
        bool failed;           /* said once */
        bool known;            /* bytes are of the dump that is written now */
        struct hw_map64 bytes; /* callsite → idle bytes */
    } idle;
    struct hw_target_pins { /* dump_pins.c */
        uint32_t n_late;    /* readings in a row that were not answered in time */
        bool failed;        /* said once */
        bool warned;        /* likewise, of what could not be looked at */
        bool is_sampled;    /* figures are estimates */
        uint64_t next_ns;   /* it rests until then */
        struct hw_measured_heap sites;
    } pins;
    struct hw_target_resident { /* dump_resident.c */
        hw_reading_maps maps;   /* of the last account in the trace... */
        uint64_t read_ns;       /* ...which was read then (boot time) */
        bool is_new;            /* no dump has said whose they are */
        bool is_cut;            /* there were more, behind the last one */
        bool warned;            /* said once */
        struct hw_measured_heap calls;
    } resident;
};

/* A client said hello and a session wants it. Takes over the connection's descriptor, and the
 * process (then it is none). */
int hw_target_new(struct hw_session *s, uint32_t source, struct hw_conn *c, struct hw_pid *pid,
                  struct hw_target **out, struct hw_error *err);
void hw_target_tick(struct hw_target *t, uint64_t now);
/* It takes too much of the recorder's memory: its recording ends. */
void hw_target_too_big(struct hw_target *t);
void hw_target_finish(struct hw_target *t, enum hw_target_end why);
void hw_target_free(struct hw_target *t);
/* It may execute code that its mappings did not have when they were read: they are read again,
 * though not too often. */
void hw_target_unknown_code(struct hw_target *t);

/* After each reading of its mappings: its connection does not always show that it has executed a
 * program with other rights, as a child may hold it, too. */
bool hw_target_is_shown(const struct hw_target *t);

/* Of the recorder's that it takes, roughly. */
uint64_t hw_target_bytes(const struct hw_target *t);

/* ---- stack_queue.c: a target's stacks on their way to callsites ---- */

void hw_target_stacks(struct hw_target *t, const struct hw_stack **list, size_t n);
/* Continues with those that wait, until the moment; gives whether some are left. */
bool hw_target_has_stacks(const struct hw_target *t);
/* No more time for these: their allocations are counted as lost. */
void hw_target_drop_stacks(struct hw_target *t);
/* A turn of the main loop: a little for each target, starting with another one each time. */
void hw_targets_resolve(struct hw_recorder *r);
void hw_target_stacks_done(struct hw_target *t);
void hw_target_names(struct hw_target *t, const struct hw_managed_name **list, size_t n);
/* Beginnings and ends of scopes, in the order of each thread: writes and frees them. */
void hw_target_slices(struct hw_target *t, struct hw_fed_slice *list, size_t n);
/* Before a dump is written. True: every stack has its frames; late: also without names. */
bool hw_target_settle_names(struct hw_target *t, bool late);
void hw_target_maps_wanted(struct hw_target *t, uint32_t ask);
/* target_fork.c: it was about to make a child; takes over what that has inherited. */
void hw_target_forked(struct hw_target *t, struct hw_inherited *i);
void hw_target_shared_wanted(struct hw_target *t, uint32_t ask);
void hw_target_hole(struct hw_target *t, int32_t tid); /* who writes no longer, perhaps */
void hw_target_module_changed(struct hw_target *t, const struct hw_module_file *m);
/* Before a dump: names for code that was generated at run time. False: there are more, for
 * another call. */
bool hw_target_name_generated(struct hw_target *t);
/* The files about its generated code, while it is young: when it has ended they cannot be
 * opened. */
void hw_target_find_generated(struct hw_target *t, uint64_t now);
bool hw_target_seeks_generated(const struct hw_target *t);
/* HW_ETIMEOUT: they cannot be read (blocking_reader.h); what is known stays. */
int hw_target_refresh_maps(struct hw_target *t, uint64_t now);

#endif
