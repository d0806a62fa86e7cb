/* What a VMM is told of its end of a link. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"

enum { TEXT_SIZE = 2048 };

static struct link_view make_view(void)
{
    struct link_view view = {.row = {.id = "net"}};
    (void)snprintf(view.state.ends[0].socket_path, sizeof view.state.ends[0].socket_path, "%s",
                   "/run/chan/links/net/0/vhost-user.sock");
    (void)snprintf(view.state.ends[1].socket_path, sizeof view.state.ends[1].socket_path, "%s",
                   "/run/a,b.sock");
    (void)snprintf(view.row.ends[1].socket_path, sizeof view.row.ends[1].socket_path, "%s", "/run/a,b.sock");
    view.row.ends[1].role = LINK_ROLE_CLIENT;
    view.row.ends[1].mtu = 9000;
    return view;
}

/* All words, each with a newline. */
static void join(char **list, char out[TEXT_SIZE])
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; list[i] != NULL; i++)
        used += (size_t)snprintf(out + used, TEXT_SIZE - used, "%s\n", list[i]);
    ck_assert_uint_lt(used, TEXT_SIZE);
    free(list);
}

/* Takes the address out of the text, where MAC then stands; it has a test of its own. */
static void take_mac(char *text, char mac[18])
{
    char *at = strstr(text, "mac=");
    ck_assert_ptr_nonnull(at);
    memcpy(mac, at + 4, 17);
    mac[17] = '\0';
    memcpy(at + 4, "MAC", 3);
    memmove(at + 7, at + 21, strlen(at + 21) + 1);
}

START_TEST(qemu)
{
    const struct link_view view = make_view();
    char text[TEXT_SIZE];
    char mac[18];
    char **list = NULL;
    ck_assert_int_eq(link_qemu_arguments(&view, 0, &list), 0);
    join(list, text);
    take_mac(text, mac);
    ck_assert_str_eq(text,
                     "-chardev\n"
                     "socket,id=chan-net-0-socket,path=/run/chan/links/net/0/vhost-user.sock,reconnect=1\n"
                     "-netdev\nvhost-user,id=chan-net-0-net,chardev=chan-net-0-socket\n"
                     "-device\nvirtio-net-pci,id=chan-net-0,netdev=chan-net-0-net,mac=MAC\n");
    ck_assert_int_eq(link_qemu_arguments(&view, 1, &list), 0);
    join(list, text);
    take_mac(text, mac);
    ck_assert_str_eq(text,
                     "-chardev\nsocket,id=chan-net-1-socket,path=/run/a,,b.sock,server=on\n"
                     "-netdev\nvhost-user,id=chan-net-1-net,chardev=chan-net-1-socket\n"
                     "-device\nvirtio-net-pci,id=chan-net-1,netdev=chan-net-1-net,mac=MAC,host_mtu=9000\n");
}
END_TEST

START_TEST(cloud_hypervisor)
{
    const struct link_view view = make_view();
    char text[TEXT_SIZE];
    char mac[18];
    char **list = NULL;
    ck_assert_int_eq(link_cloud_hypervisor_arguments(&view, 0, &list), 0);
    join(list, text);
    take_mac(text, mac);
    ck_assert_str_eq(text, "--net\nid=chan-net-0,vhost_user=true,"
                           "socket=/run/chan/links/net/0/vhost-user.sock,vhost_mode=client,mac=MAC\n");
    ck_assert_int_eq(link_cloud_hypervisor_arguments(&view, 1, &list), 0);
    join(list, text);
    take_mac(text, mac);
    ck_assert_str_eq(text, "--net\nid=chan-net-1,vhost_user=true,socket=\"/run/a,b.sock\",vhost_mode=server,"
                           "mac=MAC,mtu=9000\n");
}
END_TEST

START_TEST(every_end_has_an_address_of_its_own)
{
    struct link_view view = make_view();
    char text[TEXT_SIZE];
    char macs[4][18];
    char **list = NULL;
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(view.row.id, sizeof view.row.id, "%s", i < 2 ? "net" : "net2");
        ck_assert_int_eq(link_qemu_arguments(&view, i & 1, &list), 0);
        join(list, text);
        take_mac(text, macs[i]);
        ck_assert_msg(strncmp(macs[i], "02:", 3) == 0, "%s is not a locally administered unicast address",
                      macs[i]);
        for (unsigned j = 0; j < i; j++)
            ck_assert_str_ne(macs[i], macs[j]);
    }
    (void)snprintf(view.row.id, sizeof view.row.id, "%s", "net");
    ck_assert_int_eq(link_cloud_hypervisor_arguments(&view, 0, &list), 0);
    join(list, text);
    take_mac(text, macs[1]);
    ck_assert_str_eq(macs[1], macs[0]); /* whatever the VMM, and at every start */
}
END_TEST

START_TEST(the_longest_values_fit)
{
    struct link_view view = make_view();
    char text[TEXT_SIZE];
    char **list = NULL;
    memset(view.row.id, 'i', ID_SIZE - 1);
    memset(view.row.ends[1].socket_path, ',', sizeof view.row.ends[1].socket_path - 1);
    ck_assert_int_eq(link_qemu_arguments(&view, 1, &list), 0);
    join(list, text);
    ck_assert_msg(strstr(text, ",,,server=on\n") != NULL && strstr(text, ",host_mtu=9000\n") != NULL,
                  "something is cut off: %s", text);
    ck_assert_int_eq(link_cloud_hypervisor_arguments(&view, 1, &list), 0);
    join(list, text);
    ck_assert_msg(strstr(text, ",mtu=9000\n") != NULL, "something is cut off: %s", text);
}
END_TEST

START_TEST(features)
{
    char text[TEXT_SIZE];
    char **list = NULL;
    ck_assert_int_eq(link_feature_names(0, &list), 0);
    ck_assert_ptr_null(list[0]);
    free(list);
    ck_assert_int_eq(link_feature_names(UINT64_C(1) << 0 | UINT64_C(1) << 15 | UINT64_C(1) << 32 |
                                            UINT64_C(1) << 41 | UINT64_C(1) << 63,
                                        &list),
                     0);
    join(list, text);
    ck_assert_str_eq(text, "csum\nmrg_rxbuf\nversion_1\nbit41\nspeed_duplex\n");
    ck_assert_int_eq(link_feature_names(UINT64_MAX, &list), 0);
    size_t count = 0;
    while (list[count] != NULL)
        count++;
    free(list);
    ck_assert_uint_eq(count, 64);
}
END_TEST

TCase *link_arguments_tests(void)
{
    TCase *tcase = tcase_create("link_arguments");
    tcase_add_test(tcase, qemu);
    tcase_add_test(tcase, cloud_hypervisor);
    tcase_add_test(tcase, every_end_has_an_address_of_its_own);
    tcase_add_test(tcase, the_longest_values_fit);
    tcase_add_test(tcase, features);
    return tcase;
}
