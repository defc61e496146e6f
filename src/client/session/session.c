/*
 * session.c - from "shall I be profiled?" to the last record
 *
 *                     no recorder: silent for ever
 *   constructor ----< NO: silent          generation changes on the control page
 *                     WAIT: control page mapped ----------------> handshake by the next hooked call
 *                     PROFILE: ring, tables, control page mapped -> session
 *
 *   session ends by  generation changes (recorder)   -> stop, perhaps a new handshake
 *                    ring full, recorder dead        -> give up: reason in the ring's page
 *                    fork                            -> the live page is wiped
 *
 * Who asks while the program runs (called by the control page, armed with its first sample, or a
 * forked child that is to be recorded, HW_CC_FOLLOW_FORK) waits a moment. On a busy machine, or
 * when many ask together, the recorder answers later: the connection stays open, as the token, and
 * later allocations look whether the welcome has come. To ask again would make the recorder begin
 * anew each time.
 *
 * One descriptor stays open, the token: its end tells the recorder that we exec'd, exited or closed
 * it. It is compared by inode before we close it ourselves, since the program may have closed the
 * number and got it again for a file of its own.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/sample/armed.h"
#include "client/sample/live.h"
#include "client/sample/probes.h"
#include "client/session/exchange.h"
#include "client/thread/stacks.h"
#include "wire/ring_map.h"

#define FEW_DESCRIPTORS  64
#define WHOLE_SHARE      4 /* with less to itself the program may fail */
#define RETRY_BYTES      (64ull * 1024)
#define RETRY_SOON_BYTES 4096ull /* a program that allocates little is not to wait for seconds */
#define FAILED_SOON      4
#define SLOW_TIMEOUT_NS  50000000ull
#define BACKOFF_FIRST_NS 100000000ull
#define BACKOFF_MAX_NS   30000000000ull
#define ANSWER_STEP_NS   5000000ull   /* between looks for a late answer: this, or more of them */
#define ANSWER_STEPS_NS  100000000ull /* the longer it has taken, up to this */
#define ANSWER_MAX_NS    30000000000ull
#define MAX_FAILED       20
#define MAX_FAILED_CHILD 8
#define SILENT_NS        2000000000ull /* a recorder's heart beats at least every 500 ms */
#define HELD_NS          200000000ull  /* as at the start, see init.c */
#define OTHERS_STEP_NS   200000        /* less than sandbox.c leaves to a step of a wait */
#define DETACH_TRIES     5
#define DETACH_STEP_NS   20000

struct hw_client_session *hw_client_session_last;

/* What outlives sessions and forks. */
static struct {
    bool started;
    char socket_path[108];
    char other_path[108]; /* asked when nobody is at the first one; "" = none */
    uid_t uid;            /* whose process it was when it was given these */
    int token_fd;
    dev_t token_dev;
    ino_t token_ino;
    uint32_t tag;
    _Atomic uint32_t
        called; /* generation of the last handshake: a new one starts without backoff */
    _Atomic uint32_t last_flags;       /* enum hw_client_config_flags of the newest session */
    bool strips_env;                   /* its answer says so */
    uint64_t last_interval;            /* its, of the C heap */
    uint64_t last_ahead_ns;            /* its recorder's clock */
    struct hw_client_session *retired; /* under session_lock; may still be visited */
} own = {.token_fd = -1};

/* ---- the end of a session ---- */

static void session_unmap(struct hw_client_session *s)
{
    hw_tables_unmap(s);
    if (s->ring.shm)
        hw_ring_detach(&s->ring);
    (void)munmap(s, sizeof *s);
}

static bool lock_session(void)
{
    uint32_t none = 0;
    return atomic_compare_exchange_strong(&hw_process_page.session_lock, &none, 1);
}

static void unlock_session(void)
{
    atomic_store(&hw_process_page.session_lock, 0);
}

/* Of those who were inside before something was put out of sight. Unknown in a sandbox. */
static bool nobody_is_inside(void)
{
    return !hw_sandbox() &&
           hw_kernel(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 &&
           hw_slabs_idle();
}

/* Under the lock, outside of any visit. What is not seen idle stays for the next time. */
static void reap(void)
{
    struct hw_client_session *s = hw_client_session_collect();
    while (s) {
        struct hw_client_session *next = s->next;
        s->next = own.retired;
        own.retired = s;
        s = next;
    }
    if (!own.retired || !nobody_is_inside()) /* in a sandbox it stays until the end */
        return;
    while ((s = own.retired)) {
        own.retired = s->next;
        if (hw_client_session_last == s)
            hw_client_session_last =
                NULL; /* before the memory goes: a fork may happen in between */
        atomic_signal_fence(memory_order_seq_cst);
        session_unmap(s);
    }
}

void hw_client_session_stop(struct hw_client_session *s)
{
    if (hw_client_session_retire(s) && lock_session()) {
        reap();
        unlock_session();
    }
}

/* ---- the token descriptor ---- */

static bool token_is_ours(void)
{
    struct stat st;
    return own.token_fd >= 0 && fstat(own.token_fd, &st) == 0 && st.st_dev == own.token_dev &&
           st.st_ino == own.token_ino;
}

void hw_token_drop(void)
{
    if (token_is_ours())
        (void)hw_sys_close(own.token_fd);
    own.token_fd = -1;
}

static long descriptor_limit(void)
{
    struct rlimit lim;
    return getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < 1024 ? (long)lim.rlim_cur : 1024;
}

/* Programs use, count and close low numbers; we leave those to them. */
static void token_keep(int fd)
{
    struct stat st;
    long limit = descriptor_limit();
    long from = limit >= 1024 ? 1000 : limit > FEW_DESCRIPTORS ? limit - 24 : 3;
    int high = hw_sys_fcntl(fd, F_DUPFD_CLOEXEC, from);
    if (high >= 0) {
        (void)hw_sys_close(fd);
        fd = high;
    }
    hw_token_drop();
    if (fstat(fd, &st) != 0) {
        (void)hw_sys_close(fd);
        return;
    }
    own.token_fd = fd;
    own.token_dev = st.st_dev;
    own.token_ino = st.st_ino;
}

/* ---- what came with the welcome ---- */

static bool file_is(int fd, off_t at_least)
{
    struct stat st;
    int seals = hw_sys_fcntl(fd, F_GET_SEALS, 0);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 && st.st_size >= at_least;
}

/*
 * Private and read-only: the recorder's stores are seen all the same, as nothing here ever writes
 * to the page. When that recorder is gone, the next one may write into it from outside
 * (/proc/PID/mem): the kernel then makes it a page of ours. A shared mapping would refuse, and the
 * process would be lost to all later recorders.
 */
static bool map_control(int fd)
{
    if (!file_is(fd, HW_CONTROL_BYTES))
        return false;
    void *at = &hw_control_block;
    if (mmap(at, HW_CONTROL_BYTES, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) != at)
        return false;
    if (hw_control.magic == HW_CONTROL_MAGIC) {
        hw_recorder_heard(hw_local_ns());
        return true;
    }
    /* Not a control page: put an empty one of our own back. */
    (void)mmap(at, HW_CONTROL_BYTES, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return false;
}

/* The recorder looked at its clock between our question and its answer. By one and the same clock
 * that is so; what cannot be so is another time namespace, and then we are wrong by half the time
 * that the exchange took. Of a late answer only the parent's exchange tells. */
static uint64_t clock_ahead_ns(const struct hw_exchange *x)
{
    uint64_t took_ns = x->answered_ns - x->asked_ns, now_ns = x->welcome.now_ns;
    if (now_ns - x->asked_ns <= took_ns)
        return 0;
    return x->late ? own.last_ahead_ns : now_ns - (x->asked_ns + took_ns / 2);
}

/* Everything mapped and announced before anybody can see it. */
static bool session_open(const struct hw_exchange *x)
{
    struct hw_client_session *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s == MAP_FAILED)
        return false;
    s->config = x->welcome.config;
    s->generation = x->welcome.generation;
    if (hw_ring_attach(x->fds[1], &s->ring) != 0) {
        s->ring.shm = NULL;
        session_unmap(s);
        return false;
    }
    bool has_tables =
        file_is(x->fds[2], (off_t)HW_TABLES_BYTES) && hw_tables_map(s, x->fds[2], x->tables_bytes);
    uint64_t whole = x->tables_bytes + 2 * (s->ring.mask + 1) + sizeof *s + hw_slabs_bytes();
    if (!has_tables || s->generation == 0 || hw_live_set_init() != 0 ||
        !hw_may_take(whole, WHOLE_SHARE)) {
        uint32_t none = HW_CLIENT_OK;
        (void)atomic_compare_exchange_strong(&s->ring.shm->client_error, &none,
                                             (uint32_t)HW_CLIENT_NO_MEMORY);
        session_unmap(s);
        return false;
    }
    if (s->config.max_frames == 0 || s->config.max_frames > HW_MAX_FRAMES)
        s->config.max_frames = HW_MAX_FRAMES;
    s->began_ns = hw_local_ns();
    s->ahead_ns = clock_ahead_ns(x);
    s->seed = s->config.seed ? s->config.seed : hw_random_seed();
    own.tag = own.tag + 1 < HW_PROBES_TAG ? own.tag + 1 : 1;
    s->tag = own.tag;
    hw_heaps_select(s);
    hw_live_set_expect(atomic_load(&s->interval[HW_HEAP_ID_LIBC]));
    hw_heaps_announce(s);
    s->ring.shm->target_behind_ns = s->ahead_ns;
    atomic_store(&own.last_flags, s->config.flags);
    own.last_interval = atomic_load(&s->interval[HW_HEAP_ID_LIBC]);
    own.last_ahead_ns = s->ahead_ns;
    uint64_t n_lost = hw_armed_take_lost();
    if (s->config.flags & HW_CC_ARMED)
        hw_count(s, lost_early, n_lost);
    hw_client_session_last = s;
    hw_marks_start(s);
    atomic_store_explicit(&hw_process_page.session, s, memory_order_release);
    return true;
}

/* Gives false when the recorder could not be asked or understood: worth another try. */
static bool answer(struct hw_exchange *x)
{
    uint32_t status = x->welcome.status;
    if (status == HW_WELCOME_NO) {
        if (x->welcome.config.flags & HW_CC_STRIP_ENV && x->alone)
            own.strips_env = true;
        return true;
    }
    if (x->n_fds < (status == HW_WELCOME_PROFILE ? HW_WELCOME_FDS : 1) || !map_control(x->fds[0]))
        return false;
    token_keep(x->fd);
    x->fd = -1;
    if (status == HW_WELCOME_PROFILE && !session_open(x))
        return false;
    /* So few that one less would show: then the next image's hello tells of an exec. Only now, or
     * the recorder would find the ring not mapped and think that another program runs. */
    if (descriptor_limit() <= FEW_DESCRIPTORS)
        hw_token_drop();
    return true;
}

/* Of libc, 2.32 and later. Without it: libraries whose constructors start threads are rare. */
extern char __libc_single_threaded __attribute__((weak));

static bool is_single_threaded(void)
{
    return !&__libc_single_threaded || __libc_single_threaded;
}

/* Under the session's lock. Static: its 5 KiB are more than a stack of the program's may have. */
static struct hw_exchange exchange;

/*
 * Who has become another user since he was given these paths may have entered a directory of that
 * user's by chroot, too, where they name what the user has put there. A name that a recorder has
 * written into our page later is that of a socket made for the user of then.
 */
static bool is_for_another_user(const char *path)
{
    bool given = strncmp(path, own.socket_path, sizeof own.socket_path) == 0 ||
                 strncmp(path, own.other_path, sizeof own.other_path) == 0;
    return given && own.uid != geteuid();
}

/* To the recorder that our control page names, else to who is there. */
static bool ask(struct hw_exchange *x, uint32_t flags, uint64_t timeout_ns)
{
    memset(x, 0, sizeof *x);
    x->fd = -1;
    x->deadline_ns = hw_local_ns() + timeout_ns;
    x->alone = (flags & HW_HELLO_STARTUP) && is_single_threaded();
    char path[sizeof own.socket_path];
    bool told = hw_control.magic == HW_CONTROL_MAGIC && hw_control.socket_path[0];
    memcpy(path, told ? hw_control.socket_path : own.socket_path, sizeof path);
    path[sizeof path - 1] = '\0';
    x->root_only = is_for_another_user(path);
    bool up = hw_exchange_dial(x, path);
    if (!up && !told && own.other_path[0])
        up = hw_exchange_dial_again(x, own.other_path);
    return up && hw_exchange_say_hello(x, flags);
}

/* An answer that did not come in time, if the program has not closed its descriptor since. */
static bool is_asked(struct hw_exchange *x)
{
    bool asked = atomic_exchange(&hw_process_page.unanswered, 0) && token_is_ours();
    if (!asked)
        return false;
    x->fd = own.token_fd;
    own.token_fd = -1;
    x->late = true;
    x->deadline_ns = hw_local_ns(); /* nothing is waited for */
    return true;
}

/* Not yet. What the recorder makes for us takes its time when many ask together; asking again would
 * begin anew. */
static void wait_on(struct hw_exchange *x)
{
    uint64_t now = hw_local_ns(), step = (now - x->asked_ns) / 4;
    step = step < ANSWER_STEP_NS ? ANSWER_STEP_NS : step < ANSWER_STEPS_NS ? step : ANSWER_STEPS_NS;
    token_keep(x->fd);
    x->fd = -1;
    atomic_store(&hw_process_page.unanswered, 1);
    atomic_store(&hw_process_page.retry_ns, now + step);
}

/* What was answered, not what the page says by now: that may be the next session already. */
static void settle_answer(const struct hw_exchange *x, uint32_t generation)
{
    uint32_t status = x->welcome.status;
    atomic_store(&hw_process_page.n_failed, 0);
    atomic_store(&hw_process_page.child, 0);
    atomic_store(&hw_process_page.settled, status == HW_WELCOME_PROFILE ? x->welcome.generation
                                           : status == HW_WELCOME_NO    ? generation
                                                                        : 0);
    if (status == HW_WELCOME_WAIT)
        atomic_store(&hw_process_page.retry_ns, hw_local_ns() + BACKOFF_FIRST_NS / 10);
}

static void settle_failure(uint32_t generation)
{
    uint32_t n = atomic_fetch_add(&hw_process_page.n_failed, 1);
    uint64_t wait_ns = n < 9 ? BACKOFF_FIRST_NS << n : BACKOFF_MAX_NS;
    atomic_store(&hw_process_page.retry_ns,
                 hw_local_ns() + (wait_ns < BACKOFF_MAX_NS ? wait_ns : BACKOFF_MAX_NS));
    if (n <= (atomic_load(&hw_process_page.child) ? MAX_FAILED_CHILD : MAX_FAILED))
        return;
    atomic_store(&hw_process_page.settled,
                 generation); /* nobody is there: leave the program alone */
    atomic_store(&hw_process_page.child, 0);
}

static void handshake(uint32_t flags, uint64_t timeout_ns)
{
    struct hw_exchange *x = &exchange;
    uint32_t generation = atomic_load(&hw_control.generation);
    bool up = is_asked(x) || ask(x, flags, timeout_ns);
    bool ok = up && hw_exchange_hear_welcome(x) && answer(x);
    for (int i = 0; i < x->n_fds; i++)
        (void)hw_sys_close(x->fds[i]);
    x->n_fds = 0;
    bool is_looked_at = atomic_load(&hw_process_page.child) ||
                        generation != 0 /* hw_client_session_settle */ ||
                        hw_armed(); /* its next samples */
    bool later = !ok && x->silent && is_looked_at && !(flags & HW_HELLO_STARTUP) &&
                 hw_local_ns() - x->asked_ns < ANSWER_MAX_NS;
    if (later)
        wait_on(x);
    if (x->fd >= 0)
        (void)hw_sys_close(x->fd);
    if (ok)
        settle_answer(x, generation);
    else if (!later)
        settle_failure(generation);
    if (!later)
        hw_armed_over();
}

/* Under the lock: whose thread, and since when; NULL and 0 = nobody's. */
static _Atomic(const struct hw_tls *) asking;
static _Atomic uint64_t asking_since_ns;

static void start_locked(uint32_t flags, uint64_t timeout_ns)
{
    if (hw_sandbox()) /* it is being set, and who sets it looks at the lock: see sandbox.c */
        return;
    atomic_store(&asking_since_ns, hw_local_ns());
    reap();
    /* A child that shares our memory (vfork, CLONE_VM) must not register itself in our name. */
    if (atomic_load(&hw_process_page.pid) == (int32_t)getpid() &&
        !atomic_load(&hw_process_page.session)) {
        hw_membarrier_prepare();
        handshake(flags, timeout_ns);
    }
}

void hw_client_session_start(uint32_t flags, uint64_t timeout_ns)
{
    if (hw_sandbox()) {
        atomic_store(&hw_process_page.child, 0); /* nobody can be asked any more */
        return;
    }
    if (!lock_session())
        return;
    atomic_store(&asking, &hw_here);
    start_locked(flags, timeout_ns);
    atomic_store(&asking_since_ns, 0);
    atomic_store(&asking, NULL);
    unlock_session();
}

/* ---- a thread meets a generation it does not know ---- */

bool hw_client_session_strips(void)
{
    return own.strips_env;
}

bool hw_client_session_strips_children(void)
{
    return atomic_load(&own.last_flags) & HW_CC_STRIP_ENV;
}

void hw_client_session_forked(void)
{
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&hw_process_page.started, &none, 1))
        return;
    atomic_store(&hw_process_page.pid, (int32_t)getpid());
    hw_slabs_reset(hw_here.slab);
    hw_live_set_forked();
    hw_here.tid = 0;    /* the parent's */
    own.retired = NULL; /* the parent's; what is mapped of it stays until exec or exit */
    (void)hw_client_session_collect();
    atomic_store(&hw_process_page.settled, atomic_load(&hw_control.generation));
    hw_armed_adopt();
    if (!(atomic_load(&own.last_flags) & HW_CC_FOLLOW_FORK))
        return;
    atomic_store(&own.called, atomic_load(&hw_control.generation));
    atomic_store(&hw_process_page.child, 1);
    hw_client_session_start(HW_HELLO_FORKED, SLOW_TIMEOUT_NS);
}

/* A forked child that was not answered yet, and has looked a moment ago. */
static bool child_waits(uint32_t generation)
{
    return atomic_load(&hw_process_page.child) && !atomic_load(&hw_process_page.session) &&
           atomic_load(&own.called) == generation &&
           hw_local_sandbox_ns() < atomic_load(&hw_process_page.retry_ns);
}

/* Until it is looked whether a try is due, or an answer there. */
static uint64_t retry_bytes(void)
{
    uint32_t n = atomic_load(&hw_process_page.n_failed);
    bool soon = atomic_load(&hw_process_page.unanswered) || (n && n <= FAILED_SOON);
    return soon ? RETRY_SOON_BYTES : RETRY_BYTES;
}

/* As often as there would be a sample. */
static uint64_t child_bytes(void)
{
    return own.last_interval && own.last_interval < RETRY_BYTES ? own.last_interval : RETRY_BYTES;
}

/* Is a draw with this interval one of this session's? A record tells of its doublings only. */
static bool counts(const struct hw_client_session *s, uint64_t drawn)
{
    uint64_t base = s->base[HW_HEAP_ID_LIBC];
    return (s->config.flags & HW_CC_ARMED) && base != 0 && drawn % base == 0 &&
           (drawn / base & (drawn / base - 1)) == 0;
}

/* Starts sampling on this thread when a session of this generation runs: with a new draw, or with
 * the one that the thread has, if it is of this interval of the session. */
static bool thread_join(struct hw_tls *t, uint64_t drawn)
{
    struct hw_client_guard v;
    bool on = false;
    hw_enter(&v);
    if (v.session && !v.nested && v.session->generation == t->generation &&
        (drawn == 0 || counts(v.session, drawn))) {
        struct hw_slab *slab = hw_slab_get();
        if (slab && slab->generation != v.session->generation) {
            slab->generation = v.session->generation;
            hw_walk_cache_reset(hw_slab_cache(slab));
            memset(slab->heaps, 0, sizeof slab->heaps);
            slab->n_walked = slab->n_adopted = slab->n_samples = 0;
        }
        if (drawn == 0)
            hw_sampler_start(t, v.session);
        on = true;
    }
    hw_leave(&v);
    return on;
}

/* By the page as it is after the session was seen: this thread may have come here for a generation
 * that another thread has answered meanwhile, and then the session is the new one. */
static struct hw_client_session *session_outdated(void)
{
    struct hw_client_guard v;
    hw_enter(&v);
    bool is_old =
        v.session && !v.nested &&
        v.session->generation != atomic_load_explicit(&hw_control.generation, memory_order_acquire);
    struct hw_client_session *s = is_old ? v.session : NULL;
    hw_leave(&v);
    return s; /* only compared from here on */
}

/* What an earlier session's recorder was too busy for says nothing about this one's. */
static bool try_is_due(uint32_t generation)
{
    if (atomic_exchange(&own.called, generation) == generation)
        return hw_local_sandbox_ns() >= atomic_load(&hw_process_page.retry_ns);
    atomic_store(&hw_process_page.n_failed, 0);
    return true;
}

void hw_client_session_settle(struct hw_tls *t, uint32_t generation)
{
    t->generation = generation;
    t->left = HW_QUIET_BYTES;
    t->interval = 0;
    t->flags &= ~(uint32_t)(HW_TLS_LOOKING | HW_TLS_PROBING | HW_TLS_ARMED);
    if (!own.started) { /* before our constructor */
        t->left = RETRY_BYTES;
        return;
    }
    if (child_waits(generation)) {
        t->left = child_bytes();
        return;
    }
    /* An alternate stack is a handler's, and small: whatever is more than a sample waits for a call
     * from elsewhere. */
    bool alternate = hw_stack_is_alternate();
    if (!atomic_load(&hw_process_page.started)) {
        if (alternate) {
            t->left = 0;
            return;
        }
        hw_client_session_forked();
    }
    struct hw_client_session *old = session_outdated();
    if (old)
        hw_client_session_stop(old);
    bool child =
        atomic_load(&hw_process_page.child); /* its parent's page may tell of nothing any more */
    bool wanted =
        child || (generation != 0 && generation != atomic_load(&hw_process_page.settled) &&
                  !atomic_load(&hw_control.ended));
    if (wanted && !alternate && !atomic_load(&hw_process_page.session) && try_is_due(generation))
        hw_client_session_start(child ? HW_HELLO_FORKED : 0, SLOW_TIMEOUT_NS);
    t->generation = atomic_load_explicit(&hw_control.generation, memory_order_acquire);
    if (thread_join(t, /* drawn = */ 0) || hw_armed_join(t))
        return;
    if (wanted && atomic_load(&hw_process_page.child))
        t->left = alternate ? 0 : child_bytes();
    else if (wanted)
        t->left = alternate ? 0 : retry_bytes(); /* another thread is at it, or it is due later */
    else
        hw_probes_join(t);
}

/* ---- an armed process has a sample ---- */

/* In a program with several threads another one may be asking just now. Not when that is below us:
 * a handler is not to wait for what it interrupts. All wait for the same 200 ms: who asks may have
 * left by siglongjmp, and never come back. */
static void wait_for_other(uint64_t now_ns)
{
    while (hw_armed() && !atomic_load(&hw_process_page.session) &&
           !atomic_load(&hw_process_page.unanswered) &&
           atomic_load(&hw_process_page.session_lock) && atomic_load(&asking) != &hw_here &&
           !hw_sandbox()) {
        uint64_t since_ns = atomic_load(&asking_since_ns);
        if (hw_local_ns() >= (since_ns ? since_ns : now_ns) + HELD_NS)
            return;
        hw_sys_sleep_ns(OTHERS_STEP_NS);
    }
}

bool hw_client_session_ask(struct hw_tls *t, uint64_t interval)
{
    if (hw_sandbox()) { /* from now on nobody can be asked */
        hw_armed_over();
        return false;
    }
    uint64_t now = hw_local_ns();
    bool child = atomic_load(&hw_process_page.armed_child);
    bool due =
        !atomic_load(&hw_process_page.unanswered) || now >= atomic_load(&hw_process_page.retry_ns);
    if (due && !hw_stack_is_alternate()) {
        hw_client_session_start(0, child ? SLOW_TIMEOUT_NS : HELD_NS);
        wait_for_other(now);
    }
    t->generation = atomic_load_explicit(&hw_control.generation, memory_order_acquire);
    return thread_join(t, interval);
}

void hw_client_session_ask_last(void)
{
    uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    int saved = errno;
    if (hw_armed() && hw_here.busy == 0 && hw_stack_has_room(sp) && !hw_stack_is_alternate()) {
        bool child = atomic_load(&hw_process_page.armed_child);
        hw_client_session_start(0, child ? SLOW_TIMEOUT_NS : HELD_NS);
        hw_client_session_settle(&hw_here, atomic_load(&hw_control.generation));
    }
    errno = saved;
}

bool hw_client_session_busy(void)
{
    uint32_t generation = atomic_load(&hw_control.generation);
    return generation != 0 && !atomic_load(&hw_control.ended) &&
           !hw_recorder_silent(hw_local_ns(), SILENT_NS);
}

static void each_mapping_of(const struct hw_client_session *s,
                            void (*fn)(void *arg, const void *at, uint64_t n_bytes), void *arg)
{
    size_t head = hw_ring_head_bytes();
    uint64_t data_bytes = s->ring.mask + 1;
    fn(arg, s, sizeof *s);
    fn(arg, (const char *)s->ring.shm - head, 3 * head + 2 * data_bytes);
    if (s->ring.slots)
        fn(arg, s->ring.slots, hw_ring_slots_bytes());
    for (uint32_t i = atomic_load(&s->n_views); i-- > 0;)
        fn(arg, s->views[i].at, s->views[i].n_bytes);
}

void hw_client_session_each_mapping(void (*fn)(void *arg, const void *at, uint64_t n_bytes),
                                    void *arg, bool of_session)
{
    if (!lock_session())
        return; /* it is just beginning or ending */
    const struct hw_client_session *s = atomic_load(&hw_process_page.session);
    if (s)
        each_mapping_of(s, fn, arg);
    for (s = own.retired; s; s = s->next)
        each_mapping_of(s, fn, arg);
    hw_live_set_each_mapping(fn, arg, /* counters = */ !of_session);
    if (!of_session)
        hw_slabs_each_mapping(fn, arg);
    unlock_session();
}

/* Without hooks nobody asks the set of live samples any more; it may be a fourth of the heap. */
static bool give_back(void)
{
    reap();
    bool is_empty = own.tag == 0; /* no session so far */
    return (is_empty || hw_live_set_give_back(nobody_is_inside)) && !own.retired;
}

/*
 * The control page becomes an empty one of ours, so whoever is still in a hook finds that nothing
 * is recorded. What somebody is using stays mapped until the next attach looks again.
 */
void hw_client_session_detach(void)
{
    int saved = errno; /* of a thread that was stopped anywhere */
    void *at = &hw_control_block;
    (void)mmap(at, HW_CONTROL_BYTES, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0); /* fails for want of memory only: then it stays silent by its generation */
    struct hw_client_session *s = atomic_load(&hw_process_page.session);
    if (s)
        (void)hw_client_session_retire(s);
    for (int i = 0; i < DETACH_TRIES && lock_session(); i++) {
        bool done = give_back();
        unlock_session();
        if (done)
            break;
        hw_sys_sleep_ns(DETACH_STEP_NS);
    }
    hw_token_drop();
    errno = saved;
}

bool hw_client_session_make_way(void)
{
    struct hw_client_guard v;
    bool done = false;
    hw_enter(&v);
    if (v.session)
        hw_client_session_give_up(v.session, HW_CLIENT_LOCKED_OUT);
    hw_leave(&v);
    for (int i = 0; i < DETACH_TRIES && !done; i++) {
        if (lock_session()) {
            done = give_back();
            unlock_session();
        }
        if (!done)
            hw_sys_sleep_ns(DETACH_STEP_NS);
    }
    return done;
}

static void keep_path(char (*to)[108], const char *path)
{
    size_t n = strnlen(path, sizeof *to - 1);
    memcpy(*to, path, n);
    (*to)[n] = '\0';
}

void hw_client_session_init(const char *socket_path, const char *other_path)
{
    keep_path(&own.socket_path, socket_path);
    keep_path(&own.other_path, other_path);
    own.uid = geteuid();
    atomic_store(&hw_process_page.pid, (int32_t)getpid());
    atomic_store(&hw_process_page.started, 1);
    own.started = true;
}
