/* What a VMM has to be told of its end of a link, and the names of features. The VM's memory must be shared
 * with the dataplane too (QEMU: a memory backend with share=on; Cloud Hypervisor: --memory shared=on), which
 * is the caller's to say, as it knows the size. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "daemon/operations/internal.h"

enum { MAC_SIZE = 18, DEVICE_ID_SIZE = ID_SIZE + 16, OPTION_SIZE = 768 };

/* The socket of an end: ours, or the VMM's when we are the client. */
static const char *path_of(const struct link_view *link, unsigned end)
{
    const struct link_end_row *row = &link->row.ends[end];
    return row->role == LINK_ROLE_CLIENT ? row->socket_path : link->state.ends[end].socket_path;
}

/* VMMs give the first card of every VM the same address, so the ends of a link get their own: locally
 * administered, the same for the same link and end. */
static void make_mac(const char *id, unsigned end, char out[MAC_SIZE])
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *id != '\0'; id++)
        hash = (hash ^ (unsigned char)*id) * UINT64_C(1099511628211);
    (void)snprintf(out, MAC_SIZE, "02:%02x:%02x:%02x:%02x:%02x", (unsigned)(hash >> 56) & 0xff,
                   (unsigned)(hash >> 48) & 0xff, (unsigned)(hash >> 40) & 0xff,
                   (unsigned)(hash >> 32) & 0xff, ((unsigned)(hash >> 24) & 0xfe) | (end & 1));
}

static void make_device_id(const char *id, unsigned end, char out[DEVICE_ID_SIZE])
{
    (void)snprintf(out, DEVICE_ID_SIZE, "chan-%s-%u", id, end);
}

static void make_mtu(const char *name, uint32_t mtu, char out[32])
{
    out[0] = '\0';
    if (mtu != 0)
        (void)snprintf(out, 32, ",%s=%u", name, mtu);
}

int link_qemu_arguments(const struct link_view *link, unsigned end, char ***ret)
{
    const struct link_end_row *row = &link->row.ends[end];
    char path[2 * LINK_SOCKET_PATH_SIZE];
    char id[DEVICE_ID_SIZE];
    char mac[MAC_SIZE];
    char mtu[32];
    char chardev[OPTION_SIZE];
    char netdev[OPTION_SIZE];
    char device[OPTION_SIZE];
    double_commas(path_of(link, end), path);
    make_device_id(link->row.id, end, id);
    make_mac(link->row.id, end, mac);
    make_mtu("host_mtu", row->mtu, mtu);
    (void)snprintf(chardev, sizeof chardev, "socket,id=%s-socket,path=%s,%s", id, path,
                   row->role == LINK_ROLE_CLIENT ? "server=on" : "reconnect=1");
    (void)snprintf(netdev, sizeof netdev, "vhost-user,id=%s-net,chardev=%s-socket", id, id);
    (void)snprintf(device, sizeof device, "virtio-net-pci,id=%s,netdev=%s-net,mac=%s%s", id, id, mac, mtu);
    const char *const arguments[] = {"-chardev", chardev, "-netdev", netdev, "-device", device};
    return pack_strings(arguments, sizeof arguments / sizeof arguments[0], ret);
}

int link_cloud_hypervisor_arguments(const struct link_view *link, unsigned end, char ***ret)
{
    const struct link_end_row *row = &link->row.ends[end];
    const char *path = path_of(link, end);
    /* Its option parser takes a value with a comma in double quotes. */
    const char *quote = strchr(path, ',') != NULL ? "\"" : "";
    char id[DEVICE_ID_SIZE];
    char mac[MAC_SIZE];
    char mtu[32];
    char value[OPTION_SIZE];
    make_device_id(link->row.id, end, id);
    make_mac(link->row.id, end, mac);
    make_mtu("mtu", row->mtu, mtu);
    (void)snprintf(value, sizeof value, "id=%s,vhost_user=true,socket=%s%s%s,vhost_mode=%s,mac=%s%s", id,
                   quote, path, quote, row->role == LINK_ROLE_CLIENT ? "server" : "client", mac, mtu);
    const char *const arguments[] = {"--net", value};
    return pack_strings(arguments, sizeof arguments / sizeof arguments[0], ret);
}

/* By bit. */
static const char *const feature_names[64] = {
    [0] = "csum",
    [1] = "guest_csum",
    [2] = "ctrl_guest_offloads",
    [3] = "mtu",
    [5] = "mac",
    [6] = "gso",
    [7] = "guest_tso4",
    [8] = "guest_tso6",
    [9] = "guest_ecn",
    [10] = "guest_ufo",
    [11] = "host_tso4",
    [12] = "host_tso6",
    [13] = "host_ecn",
    [14] = "host_ufo",
    [15] = "mrg_rxbuf",
    [16] = "status",
    [17] = "ctrl_vq",
    [18] = "ctrl_rx",
    [19] = "ctrl_vlan",
    [20] = "ctrl_rx_extra",
    [21] = "guest_announce",
    [22] = "mq",
    [23] = "ctrl_mac_addr",
    [26] = "log_all",
    [27] = "any_layout",
    [28] = "indirect_desc",
    [29] = "event_idx",
    [30] = "protocol_features",
    [32] = "version_1",
    [33] = "access_platform",
    [34] = "ring_packed",
    [35] = "in_order",
    [36] = "order_platform",
    [37] = "sr_iov",
    [38] = "notification_data",
    [39] = "notif_config_data",
    [40] = "ring_reset",
    [52] = "vq_notf_coal",
    [53] = "notf_coal",
    [54] = "guest_uso4",
    [55] = "guest_uso6",
    [56] = "host_uso",
    [57] = "hash_report",
    [59] = "guest_hdrlen",
    [60] = "rss",
    [61] = "rsc_ext",
    [62] = "standby",
    [63] = "speed_duplex",
};

int link_feature_names(uint64_t features, char ***ret)
{
    const char *names[64];
    char unknown[64][8];
    size_t count = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
        if ((features >> bit & 1) == 0)
            continue;
        (void)snprintf(unknown[bit], sizeof unknown[bit], "bit%u", bit);
        names[count++] = feature_names[bit] != NULL ? feature_names[bit] : unknown[bit];
    }
    return pack_strings(names, count, ret);
}
