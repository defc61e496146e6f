/*
 * ring_map.c - the double mapping, and the client's half of opening a ring
 *
 *      file:     | page 0 | data                | slots of slice_batch.h, if any
 *      address:  | page 0 | data                | data again          |
 *
 * A record that begins near the end of the data continues in the second view, so neither side ever
 * splits a copy. Only system calls through libc's thin wrappers here: the client compiles this file
 * with its own flags and may not allocate.
 */
#include "wire/ring_map.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

size_t hw_ring_head_bytes(void)
{
    long page = sysconf(_SC_PAGESIZE);
    return page > 4096 ? (size_t)page : 4096u;
}

bool hw_ring_size_ok(uint64_t data_bytes)
{
    return data_bytes >= HW_RING_MIN_BYTES && data_bytes <= HW_RING_LARGEST_BYTES &&
           (data_bytes & (data_bytes - 1)) == 0 && data_bytes % hw_ring_head_bytes() == 0;
}

int hw_ring_map(int fd, uint64_t data_bytes, struct hw_ring_shm **shm, uint8_t **data)
{
    size_t head = hw_ring_head_bytes();
    size_t n = (size_t)data_bytes;
    /* A page without access on both sides, so that a slip of ours faults instead of writing into
     * the neighbour. */
    size_t whole = head + 2 * n + 2 * head;
    uint8_t *base =
        mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return HW_ESYS;
    uint8_t *at = base + head;
    int prot = PROT_READ | PROT_WRITE;
    if (mmap(at, head + n, prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
        mmap(at + head + n, n, prot, MAP_SHARED | MAP_FIXED, fd, (off_t)head) == MAP_FAILED) {
        int e = errno;
        (void)munmap(base, whole); /* our own range: cannot fail in a way that matters */
        errno = e;
        return HW_ESYS;
    }
    *shm = (struct hw_ring_shm *)(void *)at;
    *data = at + head;
    return HW_OK;
}

void hw_ring_unmap(struct hw_ring_shm *shm, uint64_t data_bytes)
{
    size_t head = hw_ring_head_bytes();
    if (shm)
        (void)munmap((uint8_t *)shm - head, 3 * head + 2 * (size_t)data_bytes);
}

size_t hw_ring_slots_bytes(void)
{
    return HW_SLICE_SLOTS * sizeof(struct hw_slice_slot) + hw_ring_head_bytes();
}

int hw_ring_map_slots(int fd, uint64_t data_bytes, struct hw_slice_slot **out)
{
    void *p = mmap(NULL, hw_ring_slots_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                   (off_t)(hw_ring_head_bytes() + data_bytes));
    if (p == MAP_FAILED)
        return HW_ESYS;
    *out = p;
    return HW_OK;
}

void hw_ring_unmap_slots(const struct hw_slice_slot *slots)
{
    if (slots)
        (void)munmap((void *)(uintptr_t)slots, hw_ring_slots_bytes());
}

int hw_ring_attach(int fd, struct hw_ring_writer *out)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstat(fd, &st) != 0)
        return HW_ESYS;
    size_t head = hw_ring_head_bytes();
    /* Without these seals the file could shrink under us and every store end in SIGBUS. */
    if ((seals & HW_RING_SEALS) != HW_RING_SEALS || st.st_size < (off_t)head)
        return HW_EFORMAT;
    uint64_t data_bytes = (uint64_t)st.st_size - head, slots_bytes = 0;
    if (!hw_ring_size_ok(data_bytes) && data_bytes > hw_ring_slots_bytes()) {
        slots_bytes = hw_ring_slots_bytes();
        data_bytes -= slots_bytes;
    }
    if (!hw_ring_size_ok(data_bytes))
        return HW_EFORMAT;
    struct hw_ring_shm *shm;
    struct hw_slice_slot *slots = NULL;
    uint8_t *data;
    int rc = hw_ring_map(fd, data_bytes, &shm, &data);
    if (rc < 0)
        return rc;
    if (shm->magic != HW_RING_MAGIC || !hw_wire_is_supported(shm->version) ||
        shm->data_bytes != data_bytes || shm->slots_bytes != slots_bytes)
        rc = HW_EVERSION;
    else if (slots_bytes)
        rc = hw_ring_map_slots(fd, data_bytes, &slots);
    if (rc < 0) {
        hw_ring_unmap(shm, data_bytes);
        return rc;
    }
    *out =
        (struct hw_ring_writer){.shm = shm, .data = data, .mask = data_bytes - 1, .slots = slots};
    return HW_OK;
}

void hw_ring_detach(struct hw_ring_writer *w)
{
    hw_ring_unmap_slots(w->slots);
    hw_ring_unmap(w->shm, w->mask + 1);
    *w = (struct hw_ring_writer){0};
}

#define PROBES 8u

_Atomic uint64_t *hw_ring_other_intent(struct hw_ring_shm *shm, uint32_t tid)
{
    uint64_t read = atomic_load_explicit(&shm->read_pos, memory_order_relaxed) / 8;
    for (uint32_t i = 0; i < PROBES; i++) {
        _Atomic uint64_t *intent = &shm->intents[(tid + i) % HW_RING_WRITERS].word;
        uint64_t word = atomic_load_explicit(intent, memory_order_relaxed);
        uint64_t ahead = (word - read) & ((1u << HW_RING_POS_BITS) - 1);
        if (ahead >> (HW_RING_POS_BITS - 1) != 0 || hw_ring_intent_tid(word) == tid || word == 0)
            return intent;
    }
    return &shm->intents[tid % HW_RING_WRITERS].word;
}

static uint32_t intended(const struct hw_ring_writer *w, uint64_t pos, uint32_t tid)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        uint64_t word = atomic_load_explicit(&w->shm->intents[(tid + i) % HW_RING_WRITERS].word,
                                             memory_order_relaxed);
        if (word == hw_ring_intent_of(pos, hw_ring_intent_bytes(word), tid))
            return hw_ring_intent_bytes(word);
    }
    return 0;
}

bool hw_ring_leave(const struct hw_ring_writer *w, struct hw_ring_thread by, bool sure)
{
    uint64_t read = atomic_load_explicit(&w->shm->read_pos, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(&w->shm->write_pos, memory_order_relaxed);
    uint64_t pos = (read / 8 + (uint32_t)(*by.last - (uint32_t)(read / 8))) * 8;
    if (by.tid == 0 || *by.last == 0 || pos >= end || end - read > w->mask + 1)
        return true;
    uint64_t head = atomic_load_explicit(hw_ring_head(w, pos), memory_order_relaxed);
    uint32_t tid = by.tid, size = hw_rec_open_size(head, pos, &tid);
    if (tid != by.tid || hw_rec_head_size(head, pos) != 0)
        return true; /* another thread's, or finished */
    if (size == 0) { /* nobody has started there */
        size = intended(w, pos, by.tid);
        if (size != 0 && !by.alone && !sure)
            return false;
    }
    if (size >= 8 && size <= end - pos)
        hw_ring_commit(w, pos, size, HW_REC_PAD);
    return true;
}
