#include "daemon/metrics_process.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/proc_stat.h"

int64_t process_start_time_ms(void)
{
    struct proc_stat stat;
    long hz = sysconf(_SC_CLK_TCK);
    if (hz <= 0 || proc_stat_read(0, &stat) < 0)
        return 0;
    int64_t boot_real_ms = clock_real_ms() - clock_boot_ms();
    return boot_real_ms + (int64_t)(stat.start_ticks * 1000 / (uint64_t)hz);
}

int process_usage_read(struct process_usage *ret)
{
    struct proc_stat stat;
    int failed = proc_stat_read(0, &stat);
    if (failed < 0)
        return failed;
    long hz = sysconf(_SC_CLK_TCK);
    long page = sysconf(_SC_PAGESIZE);
    if (hz <= 0 || page <= 0)
        return -EINVAL;
    ret->cpu_ns = (stat.user_ticks + stat.system_ticks) * (1000000000 / (uint64_t)hz);
    ret->resident_bytes = stat.resident_pages * (uint64_t)page;
    ret->virtual_bytes = stat.virtual_bytes;
    return 0;
}

int process_fds_read(uint64_t *open_fds, uint64_t *max_fds)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -errno;
    auto_closedir DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        return -errno;
    uint64_t count = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        count += entry->d_name[0] != '.';
    *open_fds = count - 1; /* the one that reads the directory does not count */
    *max_fds = limit.rlim_cur;
    return 0;
}
