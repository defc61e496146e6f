/*
 * raw.c - a filter set without libc, which kills at what the program does not call, and shared memory right
 * behind it: nobody can have noticed the filter
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES 65536u
#define KILL(nr)                                                                                   \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1),                                               \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static long call(long n, long a, long b, long c)
{
#if defined(__x86_64__)
    long rc;
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(n), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return rc;
#else
    return (void)n, (void)a, (void)b, (void)c, -1;
#endif
}

int main(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KILL(SYS_fstatfs),
#ifdef SYS_shmctl
        KILL(SYS_shmctl),
#endif
        KILL(SYS_ioctl),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof code / sizeof code[0], .filter = code};
    int fd = memfd_create("raw", MFD_CLOEXEC), id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    if (fd < 0 || ftruncate(fd, BYTES) < 0 || id < 0)
        return 77;
    void *kept = shmat(id, NULL, 0);
    (void)shmctl(id, IPC_RMID, NULL); /* it lives as long as it is attached */
    free(malloc(100));
    if (kept == (void *)-1 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&prog) != 0)
        return 77;
    volatile char *shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    volatile char *segment = shmat(id, NULL, 0);
    if ((void *)shared == MAP_FAILED || (void *)segment == (void *)-1)
        return 1;
    shared[0] = segment[0] = 1;
    static const char text[] = "alive\n";
    return write(1, text, sizeof text - 1) < 0;
}
