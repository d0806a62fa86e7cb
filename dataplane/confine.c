#include "dataplane/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- privileges ---- */

static int drop_capabilities(struct error *err)
{
    /* The bounding set first: that needs a capability. Without that it stays, and can give nothing. */
    for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EPERM)
            return error_set_errno(err, REASON_INTERNAL, errno,
                                   "dropping capability %lu from the bounding set", capability);
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "clearing the ambient capabilities");
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (syscall(SYS_capset, &header, none) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "dropping capabilities");
    return 0;
}

int confine_privileges(struct error *err)
{
    if (drop_capabilities(err) != 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "giving up new privileges");
    /* Guests' memory is mapped here. As root, only those who may look at any process can look at it, and it
     * leaves no core dump; an ordinary user's own debugger and profiler go on working. */
    if (geteuid() == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "hiding the process's memory");
    return 0;
}

/* ---- system calls ---- */

#ifdef CHAN_SANITIZED

int confine_system_calls(struct error *err)
{
    (void)err;
    return 0;
}

#else

static const int allowed[] = {
    /* descriptors */
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(close), SCMP_SYS(fcntl),
    SCMP_SYS(dup), SCMP_SYS(lseek), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(lstat), SCMP_SYS(stat),
    SCMP_SYS(statx), SCMP_SYS(fstatfs), SCMP_SYS(fchmod), SCMP_SYS(unlink), SCMP_SYS(unlinkat),
    /* waiting */
    SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2), SCMP_SYS(poll),
    SCMP_SYS(ppoll), SCMP_SYS(eventfd2), SCMP_SYS(futex), SCMP_SYS(sched_yield), SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep), SCMP_SYS(gettimeofday), SCMP_SYS(restart_syscall),
    /* unix sockets; socket itself is below */
    SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(accept4), SCMP_SYS(connect), SCMP_SYS(shutdown),
    SCMP_SYS(recvmsg), SCMP_SYS(sendmsg), SCMP_SYS(recvfrom), SCMP_SYS(sendto), SCMP_SYS(getsockopt),
    SCMP_SYS(setsockopt), SCMP_SYS(getsockname), SCMP_SYS(getpeername),
    /* memory; mmap and mprotect are below */
    SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk),
    /* the process itself */
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getrandom),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(getcpu), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(tgkill), SCMP_SYS(exit), SCMP_SYS(exit_group)};

/* Each would be the work of an intruder. (What is in neither list fails with ENOSYS, which the C library
 * takes for an older kernel.) */
static const int deadly[] = {SCMP_SYS(execve),
                             SCMP_SYS(execveat),
                             SCMP_SYS(fork),
                             SCMP_SYS(vfork),
                             SCMP_SYS(clone),
                             SCMP_SYS(clone3),
                             SCMP_SYS(ptrace),
                             SCMP_SYS(process_vm_readv),
                             SCMP_SYS(process_vm_writev),
                             SCMP_SYS(pidfd_getfd),
                             SCMP_SYS(open_by_handle_at),
                             SCMP_SYS(bpf),
                             SCMP_SYS(perf_event_open),
                             SCMP_SYS(userfaultfd),
                             SCMP_SYS(io_uring_setup),
                             SCMP_SYS(keyctl),
                             SCMP_SYS(add_key),
                             SCMP_SYS(mount),
                             SCMP_SYS(umount2),
                             SCMP_SYS(pivot_root),
                             SCMP_SYS(chroot),
                             SCMP_SYS(unshare),
                             SCMP_SYS(setns),
                             SCMP_SYS(init_module),
                             SCMP_SYS(finit_module),
                             SCMP_SYS(kexec_load),
                             SCMP_SYS(kexec_file_load),
                             SCMP_SYS(reboot)};

/* Returns 0 or a negative errno value. */
static int add_rules(scmp_filter_ctx filter)
{
    int code = 0;
    for (unsigned i = 0; code == 0 && i < sizeof allowed / sizeof allowed[0]; i++)
        code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
    for (unsigned i = 0; code == 0 && i < sizeof deadly / sizeof deadly[0]; i++)
        code = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, deadly[i], 0);
    static const int makes_memory[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect), SCMP_SYS(pkey_mprotect)};
    for (unsigned i = 0; code == 0 && i < sizeof makes_memory / sizeof makes_memory[0]; i++) {
        code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, makes_memory[i], 1,
                                SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
        if (code == 0)
            code = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, makes_memory[i], 1,
                                    SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC));
    }
    if (code == 0)
        code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
    if (code == 0)
        code = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, SCMP_SYS(socket), 1,
                                SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    return code;
}

static int set_attributes(scmp_filter_ctx filter)
{
    int code = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (code == 0)
        code = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1); /* all threads */
    /* Kernels before 5.16 would slow down every store of a thread that has a filter, against an attack by
     * code that is run within it; there is none here. */
    if (code == 0)
        code = seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
    return code;
}

int confine_system_calls(struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (filter == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "making the filter of system calls: out of memory");
    int code = set_attributes(filter);
    if (code == 0)
        code = add_rules(filter);
    if (code == 0)
        code = seccomp_load(filter);
    seccomp_release(filter);
    return code == 0 ? 0 : error_set_errno(err, REASON_INTERNAL, -code, "loading the filter of system calls");
}

#endif
