/* Sandboxes as they are answered, with the ready arguments for the VMMs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/operations/internal.h"

void sandbox_view_fill(const struct operations *operations, const struct sandbox_row *row,
                       struct sandbox_view *ret)
{
    const struct reclaim *reclaim = operations->config.reclaim;
    *ret = (struct sandbox_view){.row = *row};
    ret->owner_condition =
        owner_examine(&row->owner, reclaim_boot_id(reclaim), reclaim_start_boot_ms(reclaim));
    if (row->owner.kind == OWNER_LEASE && ret->owner_condition != OWNER_ENDED) {
        /* The same rule as owner_examine's: after a start of the daemon every lease has its full length
         * again. */
        int64_t after_start = reclaim_start_boot_ms(reclaim) + row->owner.lease_seconds * 1000;
        int64_t expires = after_start;
        if (strcmp(row->owner.boot_id, reclaim_boot_id(reclaim)) == 0 &&
            row->owner.lease_expires_boot_ms > after_start)
            expires = row->owner.lease_expires_boot_ms;
        int64_t remaining = expires - clock_boot_ms();
        ret->lease_remaining_ms = remaining > 0 ? remaining : 0;
    }
    if (row->has_region)
        (void)snprintf(ret->path, sizeof ret->path, "%s/%s", regions_directory(operations->config.regions),
                       row->region.name);
}

int pack_strings(const char *const *strings, size_t count, char ***ret)
{
    size_t bytes = (count + 1) * sizeof(char *);
    for (size_t i = 0; i < count; i++)
        bytes += strlen(strings[i]) + 1;
    char **list = malloc(bytes);
    if (list == NULL)
        return -1;
    char *text = (char *)(list + count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(strings[i]) + 1;
        memcpy(text, strings[i], size);
        list[i] = text;
        text += size;
    }
    list[count] = NULL;
    *ret = list;
    return 0;
}

void double_commas(const char *path, char *out)
{
    for (; *path != '\0'; path++) {
        if (*path == ',')
            *out++ = ',';
        *out++ = *path;
    }
    *out = '\0';
}

int sandbox_qemu_arguments(const struct sandbox_view *sandbox, char ***ret)
{
    if (!sandbox->row.has_region)
        return -1;
    char path[2 * sizeof sandbox->path];
    double_commas(sandbox->path, path);
    char backend[sizeof path + 128];
    (void)snprintf(backend, sizeof backend,
                   "memory-backend-file,id=ivshmem-mem0,mem-path=%s,size=%llu,share=on", path,
                   (unsigned long long)sandbox->row.region.settings.size_bytes);
    const char *const arguments[] = {"-object", backend, "-device",
                                     "ivshmem-plain,memdev=ivshmem-mem0,id=ivshmem0"};
    return pack_strings(arguments, sizeof arguments / sizeof arguments[0], ret);
}

int sandbox_cloud_hypervisor_arguments(const struct sandbox_view *sandbox, char ***ret)
{
    if (!sandbox->row.has_region)
        return -1;
    /* Its option parser takes a value with a comma in double quotes. */
    const char *quote = strchr(sandbox->path, ',') != NULL ? "\"" : "";
    char value[sizeof sandbox->path + 64];
    (void)snprintf(value, sizeof value, "path=%s%s%s,size=%llu", quote, sandbox->path, quote,
                   (unsigned long long)sandbox->row.region.settings.size_bytes);
    const char *const arguments[] = {"--ivshmem", value};
    return pack_strings(arguments, sizeof arguments / sizeof arguments[0], ret);
}
