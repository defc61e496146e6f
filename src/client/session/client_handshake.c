/*
 * client_handshake.c - asking the recorder, and what comes with its answer
 *
 * A process that asks while it runs (called by the control page, armed with its first sample, or a
 * forked child that is to be recorded, HW_CC_FOLLOW_FORK) waits a moment. On a busy machine, or
 * when many ask together, the recorder answers later: the connection stays open, as the token, and
 * later allocations check whether the welcome has arrived. Asking again would make the recorder
 * start over each time.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "client/kernel/now.h"
#include "client/kernel/own_memory.h"
#include "client/kernel/process_limits.h"
#include "client/kernel/sys.h"
#include "client/ring/mapped_tables.h"
#include "client/ring/push.h"
#include "client/sample/armed.h"
#include "client/sample/heap_table.h"
#include "client/sample/live_set.h"
#include "client/sample/marks.h"
#include "client/sample/probes.h"
#include "client/session/client_session.h"
#include "client/session/client_session_parts.h"
#include "client/session/end_token.h"
#include "client/session/exchange.h"
#include "client/thread/slabs.h"
#include "wire/ring_map.h"

#define WHOLE_SHARE      4 /* left with less, the program may fail */
#define BACKOFF_FIRST_NS 100000000ull
#define BACKOFF_MAX_NS   30000000000ull
#define ANSWER_STEP_NS   5000000ull   /* between checks for a late answer: this, or more */
#define ANSWER_STEPS_NS  100000000ull /* the longer it has taken, up to this */
#define ANSWER_MAX_NS    30000000000ull
#define MAX_FAILED       20
#define MAX_FAILED_CHILD 8

/* Given at the start, or by the last attach. */
static struct {
    char socket_path[108];
    char other_path[108]; /* asked if nobody listens at the first one; "" = none */
    uid_t uid;            /* whose process it was when it was given these */
} own;

_Atomic(const struct hw_tls *) hw_session_handshaking;
_Atomic uint64_t hw_session_handshake_since_ns;
bool hw_session_is_started;

static uint64_t last_ahead_ns; /* the newest session's offset of the recorder's clock */
static bool strips_env;        /* the answer says so */

/* ---- what came with the welcome ---- */

static bool file_is(int fd, off_t at_least)
{
    struct stat st;
    int seals = hw_sys_fcntl(fd, F_GET_SEALS, 0);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 && st.st_size >= at_least;
}

/*
 * Private and read-only: the recorder's stores are visible all the same, as nothing here ever
 * writes to the page. When that recorder is gone, the next one may write into it from outside
 * (/proc/PID/mem): the kernel then makes it a page of our own. A shared mapping would refuse that,
 * and the process would be lost to all later recorders.
 */
static bool map_control(int fd)
{
    if (!file_is(fd, HW_CONTROL_BYTES))
        return false;
    void *at = &hw_control_block;
    if (mmap(at, HW_CONTROL_BYTES, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) != at)
        return false;
    if (hw_control.magic == HW_CONTROL_MAGIC) {
        hw_recorder_note_alive(hw_local_ns());
        return true;
    }
    /* Not a control page: map an empty one of our own again. */
    (void)mmap(at, HW_CONTROL_BYTES, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return false;
}

/* The recorder read its clock between our hello and its welcome. If its time is not between ours, it
 * is in another time namespace, and the offset is known to half the time that the exchange took. For
 * a late answer the last session's offset is used. */
static uint64_t clock_ahead_ns(const struct hw_exchange *x)
{
    uint64_t took_ns = x->answered_ns - x->asked_ns, now_ns = x->welcome.now_ns;
    if (now_ns - x->asked_ns <= took_ns)
        return 0;
    return x->late ? last_ahead_ns : now_ns - (x->asked_ns + took_ns / 2);
}

/* Everything is mapped and announced before any thread can see it. */
static bool session_open(const struct hw_exchange *x)
{
    struct hw_client_session *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, HW_OWN_MEMORY, -1, 0);
    if (s == MAP_FAILED)
        return false;
    hw_own_memory_add(s, sizeof *s);
    s->config = x->welcome.config;
    s->generation = x->welcome.generation;
    if (hw_ring_attach(x->fds[1], &s->ring) != 0) {
        s->ring.shm = NULL;
        hw_session_unmap(s);
        return false;
    }
    bool has_tables =
        file_is(x->fds[2], (off_t)HW_TABLES_BYTES) && hw_tables_map(s, x->fds[2], x->tables_bytes);
    uint64_t whole = x->tables_bytes + 2 * (s->ring.mask + 1) + sizeof *s + hw_slabs_bytes();
    if (!has_tables || s->generation == 0 || hw_live_set_init() != 0 ||
        !hw_fits_address_limit(whole, WHOLE_SHARE)) {
        uint32_t none = HW_CLIENT_OK;
        (void)atomic_compare_exchange_strong(&s->ring.shm->client_error, &none,
                                             (uint32_t)HW_CLIENT_NO_MEMORY);
        hw_session_unmap(s);
        return false;
    }
    if (s->config.max_frames == 0 || s->config.max_frames > HW_MAX_FRAMES)
        s->config.max_frames = HW_MAX_FRAMES;
    s->began_ns = hw_local_ns();
    s->ahead_ns = clock_ahead_ns(x);
    s->seed = s->config.seed ? s->config.seed : hw_random_seed();
    hw_session_newest.tag =
        hw_session_newest.tag + 1 < HW_PROBES_TAG ? hw_session_newest.tag + 1 : 1;
    s->tag = hw_session_newest.tag;
    hw_heaps_select(s);
    hw_live_set_expect(atomic_load(&s->interval[HW_HEAP_ID_LIBC]));
    hw_heaps_announce(s);
    s->ring.shm->target_behind_ns = s->ahead_ns;
    atomic_store(&hw_session_newest.flags, s->config.flags);
    hw_session_newest.interval_bytes = atomic_load(&s->interval[HW_HEAP_ID_LIBC]);
    last_ahead_ns = s->ahead_ns;
    uint64_t n_lost = hw_armed_take_lost();
    if (s->config.flags & HW_CC_ARMED || atomic_load(&hw_process_page.child))
        hw_count(s, lost_early, n_lost);
    hw_client_session_last = s;
    hw_marks_start(s);
    hw_own_memory_add_image();
    hw_own_memory_show(s->ring.shm, &s->own_shown);
    atomic_store_explicit(&hw_process_page.session, s, memory_order_release);
    return true;
}

/* False if the recorder could not be asked or understood: worth another try. */
static bool answer(struct hw_exchange *x)
{
    uint32_t status = x->welcome.status;
    if (status == HW_WELCOME_NO) {
        if (x->welcome.config.flags & HW_CC_STRIP_ENV && x->alone)
            strips_env = true;
        return true;
    }
    if (x->n_fds < (status == HW_WELCOME_PROFILE ? HW_WELCOME_FDS : 1) || !map_control(x->fds[0]))
        return false;
    hw_token_keep(x->fd);
    x->fd = -1;
    if (status == HW_WELCOME_PROFILE && !session_open(x))
        return false;
    /* So few samples that a missing one would show: then the next image's hello reports an exec.
     * Only now, or the recorder would find the ring not mapped and think that another program
     * runs. */
    if (hw_descriptor_limit() <= HW_FEW_DESCRIPTORS)
        hw_token_drop();
    return true;
}

/* libc's, 2.32 and later. Without it: libraries whose constructors start threads are rare. */
extern char __libc_single_threaded __attribute__((weak));

static bool is_single_threaded(void)
{
    return !&__libc_single_threaded || __libc_single_threaded;
}

/* Under the session's lock. Static: its 5 KiB are more than the program's stack may have. */
static struct hw_exchange exchange;

/*
 * A process that has changed its user since it was given these paths may also have entered a chroot
 * of that user's, where the user decides what the paths lead to. A name that a recorder has written
 * into our page later belongs to a socket made for the present user.
 */
static bool is_for_another_user(const char *path)
{
    bool given = strncmp(path, own.socket_path, sizeof own.socket_path) == 0 ||
                 strncmp(path, own.other_path, sizeof own.other_path) == 0;
    return given && own.uid != geteuid();
}

/* To the recorder that our control page names, else to the one at the given paths. */
static bool ask(struct hw_exchange *x, uint32_t flags, uint64_t timeout_ns)
{
    memset(x, 0, sizeof *x);
    x->fd = -1;
    x->deadline_ns = hw_local_ns() + timeout_ns;
    x->alone = (flags & HW_HELLO_STARTUP) && is_single_threaded();
    char path[sizeof own.socket_path];
    bool is_named = hw_control.magic == HW_CONTROL_MAGIC && hw_control.socket_path[0];
    memcpy(path, is_named ? hw_control.socket_path : own.socket_path, sizeof path);
    path[sizeof path - 1] = '\0';
    x->root_only = is_for_another_user(path);
    bool up = hw_exchange_connect(x, path);
    if (!up && !is_named && own.other_path[0])
        up = hw_exchange_reconnect(x, own.other_path);
    return up && hw_exchange_send_hello(x, flags);
}

/* The connection whose answer was late, if the program has not closed it since. */
static bool take_pending(struct hw_exchange *x)
{
    if (!atomic_exchange(&hw_process_page.unanswered, 0))
        return false;
    x->fd = hw_token_take();
    if (x->fd < 0)
        return false;
    x->late = true;
    x->deadline_ns = hw_local_ns(); /* nothing is waited for */
    return true;
}

/* Keeps the connection: a recorder that many ask at once needs longer, and asking again would
 * make it start over. */
static void keep_pending(struct hw_exchange *x)
{
    uint64_t now = hw_local_ns(), step = (now - x->asked_ns) / 4;
    step = step < ANSWER_STEP_NS ? ANSWER_STEP_NS : step < ANSWER_STEPS_NS ? step : ANSWER_STEPS_NS;
    hw_token_keep(x->fd);
    x->fd = -1;
    atomic_store(&hw_process_page.unanswered, 1);
    atomic_store(&hw_process_page.retry_ns, now + step);
}

/* Of the answer's generation: the page may already have the next session's. */
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
    atomic_store(&hw_process_page.settled, generation); /* no recorder: not tried again */
    atomic_store(&hw_process_page.child, 0);
}

static void handshake(uint32_t flags, uint64_t timeout_ns)
{
    struct hw_exchange *x = &exchange;
    uint32_t generation = atomic_load(&hw_control.generation);
    bool up = take_pending(x) || ask(x, flags, timeout_ns);
    bool ok = up && hw_exchange_receive_welcome(x) && answer(x);
    for (int i = 0; i < x->n_fds; i++)
        (void)hw_sys_close(x->fds[i]);
    x->n_fds = 0;
    bool is_retried = atomic_load(&hw_process_page.child) ||
                      generation != 0 /* hw_client_session_sync */ ||
                      hw_armed(); /* its next samples */
    bool later = !ok && x->silent && is_retried && !(flags & HW_HELLO_STARTUP) &&
                 hw_local_ns() - x->asked_ns < ANSWER_MAX_NS;
    if (later)
        keep_pending(x);
    if (x->fd >= 0)
        (void)hw_sys_close(x->fd);
    if (ok)
        settle_answer(x, generation);
    else if (!later)
        settle_failure(generation);
    if (!later)
        hw_armed_over();
}

static void start_locked(uint32_t flags, uint64_t timeout_ns)
{
    if (hw_sandbox()) /* it is being set, and who sets it looks at the lock: see sandbox.c */
        return;
    atomic_store(&hw_session_handshake_since_ns, hw_local_ns());
    hw_session_reap();
    /* A child that shares our memory (vfork, CLONE_VM) must not register in our name. */
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
    if (!hw_session_lock())
        return;
    atomic_store(&hw_session_handshaking, &hw_here);
    start_locked(flags, timeout_ns);
    atomic_store(&hw_session_known, atomic_load(&hw_control.generation));
    atomic_store(&hw_session_handshake_since_ns, 0);
    atomic_store(&hw_session_handshaking, NULL);
    hw_session_unlock();
}

bool hw_client_session_strips(void)
{
    return strips_env;
}

bool hw_client_session_strips_children(void)
{
    return atomic_load(&hw_session_newest.flags) & HW_CC_STRIP_ENV;
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
    hw_session_is_started = true;
}

/* The generation last: a thread that sees it must see the name. */
void hw_client_session_call(const char *socket_path, uint32_t generation)
{
    hw_client_session_init(socket_path, "");
    hw_control.magic = HW_CONTROL_MAGIC;
    hw_control.version = HW_WIRE_VERSION;
    keep_path(&hw_control.socket_path, socket_path);
    atomic_store(&hw_control.ended, 0);
    hw_recorder_note_alive(hw_local_ns());
    atomic_store_explicit(&hw_control.generation, generation, memory_order_release);
}
