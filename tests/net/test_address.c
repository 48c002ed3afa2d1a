/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as text, what may be used without keys, probing, and beacons of one host. */
#include "address.h"
#include "beacon.h"
#include "clock.h"
#include "kt.h"
#include "threads.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

static net_address_t resolve(const char *host, int port)
{
    net_address_t address = {.size = 0};
    size_t n = 0;

    KT_OK(net_address_resolve(host, port, &address, 1, &n));
    return address;
}

static void addresses_are_split_at_their_port(void)
{
    char host[NET_HOST_MAX];
    int port;

    KT_OK(net_address_split("node-7.cluster:0", host, &port));
    KT_STR(host, "node-7.cluster");
    KT_INT(port, 0);
    KT_OK(net_address_split("[fe80::1]:65535", host, &port));
    KT_STR(host, "fe80::1");
    KT_INT(port, 65535);
}

static void what_is_no_address_is_refused_with_its_text(void)
{
    static const char *const texts[] = {"",      "host",    ":5",     "host:",   "host:65536",
                                        "::1:5", "[::1]5",  "[::1:5", "host:-1", "host:5x",
                                        "[]:5",  "host: 5", "a:b:5"};
    char host[NET_HOST_MAX];
    int port;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        KT_FAIL(net_address_split(texts[i], host, &port), KVS_ERR_ARGUMENT, texts[i]);
    }
}

static void addresses_are_written_as_they_are_read(void)
{
    char text[NET_ADDRESS_MAX];
    net_address_t v4 = resolve("10.1.2.3", 99), v6 = resolve("::1", 98);

    net_address_text(&v4, text);
    KT_STR(text, "10.1.2.3:99");
    net_address_text(&v6, text);
    KT_STR(text, "[::1]:98");
    KT_INT(net_address_port(&v6), 98);
}

static void loopback_is_told_from_the_rest(void)
{
    net_address_t address = resolve("127.8.9.1", 1);

    KT_TRUE(net_address_is_loopback(&address));
    KT_OK(net_address_check_allowed(&address, false));
    address = resolve("::1", 1);
    KT_TRUE(net_address_is_loopback(&address));
    address = resolve("::ffff:127.0.0.1", 1);
    KT_TRUE(net_address_is_loopback(&address));
    address = resolve("0.0.0.0", 1);
    KT_TRUE(net_address_is_any(&address) && !net_address_is_loopback(&address));
    address = resolve("10.0.0.1", 7);
    KT_FAIL(net_address_check_allowed(&address, false), KVS_ERR_ARGUMENT, "KVSTORE_INSECURE=1");
    KT_FAIL(net_address_check_allowed(&address, false), KVS_ERR_ARGUMENT, "10.0.0.1:7");
    KT_OK(net_address_check_allowed(&address, true));
}

static void an_unknown_host_or_interface_is_named(void)
{
    net_address_t address;
    size_t n;

    KT_FAIL(net_address_resolve("no.such.host.invalid", 1, &address, 1, &n), KVS_ERR_IO,
            "no.such.host.invalid");
    KT_FAIL(net_address_of_interface("eth99", 0, &address), KVS_ERR_NOT_FOUND, "eth99");
    KT_FAIL(net_address_of_interface("eth99", 0, &address), KVS_ERR_NOT_FOUND, "there are: ");
    KT_OK(net_address_of_interface("lo", AF_INET, &address));
    KT_TRUE(net_address_is_loopback(&address));
}

/* A socket that listens, or only has a port. */
static int port_of_ours(bool listening, net_address_t *ret_address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *ret_address = resolve("127.0.0.1", 0);
    KT_INT(bind(fd, (struct sockaddr *)&ret_address->storage, ret_address->size), 0);
    KT_INT(listening ? listen(fd, 1) : 0, 0);
    KT_INT(getsockname(fd, (struct sockaddr *)&ret_address->storage, &ret_address->size), 0);
    return fd;
}

static void a_probe_gives_the_address_that_routes_there(void)
{
    net_address_t to, own;
    int fd = port_of_ours(true, &to);
    char text[NET_ADDRESS_MAX];

    KT_OK(net_address_probe(&to, net_deadline(5000), -1, &own));
    net_address_text(&own, text);
    KT_STR(text, "127.0.0.1:0");
    close(fd);
}

static void a_refused_probe_says_address_port_and_errno(void)
{
    net_address_t to, own;
    int fd = port_of_ours(false, &to);
    char text[NET_ADDRESS_MAX];

    net_address_text(&to, text);
    KT_FAIL(net_address_probe(&to, net_deadline(5000), -1, &own), KVS_ERR_IO, text);
    KT_FAIL(net_address_probe(&to, net_deadline(5000), -1, &own), KVS_ERR_IO,
            "Connection refused (errno 111)");
    close(fd);
}

/* ---- Beacons --------------------------------------------------------------------------------- */

static char job_id[64];

typedef struct keeper {
    int fd;
    _Atomic bool is_found;
} keeper_t;

static bool has_answered(void *arg)
{
    keeper_t *keeper = arg;

    net_beacon_answer(keeper->fd, "127.0.0.1:77");
    return keeper->is_found;
}

static void keep_beacon(void *arg)
{
    keeper_t *keeper = arg;

    KT_OK(net_beacon_light(job_id, "scheduler", &keeper->fd));
    kt_until(has_answered, keeper, "somebody to ask the beacon");
    close(keeper->fd);
}

static void a_beacon_is_found_whoever_comes_first(void)
{
    keeper_t keeper = {.fd = -1};
    kt_thread_t thread;
    char text[64];

    snprintf(job_id, sizeof(job_id), "test %d", (int)getpid());
    kt_thread_start(&thread, keep_beacon, &keeper);
    KT_TRUE(net_beacon_ask(job_id, "scheduler", net_deadline(10000), text, sizeof(text)));
    KT_STR(text, "127.0.0.1:77");
    keeper.is_found = true;
    kt_thread_join(&thread);
}

static void a_beacon_has_one_owner_and_goes_out_with_it(void)
{
    int fd, other;

    snprintf(job_id, sizeof(job_id), "owner %d", (int)getpid());
    KT_INT(net_beacon_owner(job_id, "server"), -1);
    KT_OK(net_beacon_light(job_id, "server", &fd));
    KT_INT(net_beacon_owner(job_id, "server"), getpid());
    KT_FAIL(net_beacon_light(job_id, "server", &other), KVS_ERR_EXISTS, job_id);
    KT_INT(net_beacon_owner(job_id, "scheduler"), -1); /* another purpose */
    close(fd);
    KT_INT(net_beacon_owner(job_id, "server"), -1);
}

static void nobody_answers_for_a_job_that_is_not_there(void)
{
    char text[64];

    KT_TRUE(!net_beacon_ask("no such job", "scheduler", net_deadline(50), text, sizeof(text)));
}

static void hosts_and_random_numbers_are_told_apart(void)
{
    KT_TRUE(net_host_id() == net_host_id());
    KT_TRUE(net_random() != net_random());
}

static const kt_test_t tests[] = {
    KT_TEST(addresses_are_split_at_their_port),
    KT_TEST(what_is_no_address_is_refused_with_its_text),
    KT_TEST(addresses_are_written_as_they_are_read),
    KT_TEST(loopback_is_told_from_the_rest),
    KT_TEST(an_unknown_host_or_interface_is_named),
    KT_TEST(a_probe_gives_the_address_that_routes_there),
    KT_TEST(a_refused_probe_says_address_port_and_errno),
    KT_TEST(a_beacon_is_found_whoever_comes_first),
    KT_TEST(a_beacon_has_one_owner_and_goes_out_with_it),
    KT_TEST(nobody_answers_for_a_job_that_is_not_there),
    KT_TEST(hosts_and_random_numbers_are_told_apart),
};

KT_MAIN("address", tests)
