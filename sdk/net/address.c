/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - see address.h. */
#include "address.h"

#include "clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Text ------------------------------------------------------------------------------------ */

static bool parse_port(const char *text, int *ret_port)
{
    char *end;
    long port;

    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    port = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || port > 65535) {
        return false;
    }
    *ret_port = (int)port;
    return true;
}

kvs_status_t net_address_split(const char *text, char host[NET_HOST_MAX], int *ret_port)
{
    const char *colon = strrchr(text, ':');
    const char *begin = text, *end = colon;
    bool bracketed = text[0] == '[';

    if (colon != NULL && bracketed) {
        begin = text + 1;
        end = colon > begin && colon[-1] == ']' ? colon - 1 : NULL;
    }
    if (colon == NULL || end == NULL || end == begin || end - begin >= NET_HOST_MAX ||
        (!bracketed && memchr(begin, ':', (size_t)(end - begin)) != NULL) ||
        !parse_port(colon + 1, ret_port)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "'%s' is no address: write host:port, or [host]:port for IPv6", text);
    }
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    return KVS_OK;
}

void net_address_host(const net_address_t *address, char text[NET_ADDRESS_MAX])
{
    if (getnameinfo((const struct sockaddr *)&address->storage, address->size, text,
                    NET_ADDRESS_MAX, NULL, 0, NI_NUMERICHOST) != 0) {
        snprintf(text, NET_ADDRESS_MAX, "?");
    }
}

void net_address_text(const net_address_t *address, char text[NET_ADDRESS_MAX])
{
    char host[NET_ADDRESS_MAX];

    net_address_host(address, host);
    host[NET_ADDRESS_MAX - 16] = '\0'; /* longer than any address */
    snprintf(text, NET_ADDRESS_MAX, strchr(host, ':') == NULL ? "%s:%d" : "[%s]:%d", host,
             net_address_port(address));
}

/* ---- What an address is ---------------------------------------------------------------------- */

static const struct sockaddr_in *v4(const net_address_t *address)
{
    return (const struct sockaddr_in *)&address->storage;
}

static const struct sockaddr_in6 *v6(const net_address_t *address)
{
    return (const struct sockaddr_in6 *)&address->storage;
}

bool net_address_is_loopback(const net_address_t *address)
{
    const struct in6_addr *in6 = &v6(address)->sin6_addr;

    if (address->storage.ss_family == AF_INET) {
        return ntohl(v4(address)->sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
}

bool net_address_is_any(const net_address_t *address)
{
    return address->storage.ss_family == AF_INET ? v4(address)->sin_addr.s_addr == htonl(INADDR_ANY)
                                                 : IN6_IS_ADDR_UNSPECIFIED(&v6(address)->sin6_addr);
}

int net_address_port(const net_address_t *address)
{
    return ntohs(address->storage.ss_family == AF_INET ? v4(address)->sin_port
                                                       : v6(address)->sin6_port);
}

void net_address_set_port(net_address_t *address, int port)
{
    if (address->storage.ss_family == AF_INET) {
        ((struct sockaddr_in *)&address->storage)->sin_port = htons((uint16_t)port);
    } else {
        ((struct sockaddr_in6 *)&address->storage)->sin6_port = htons((uint16_t)port);
    }
}

kvs_status_t net_address_check_allowed(const net_address_t *address, bool insecure)
{
    char text[NET_ADDRESS_MAX];

    if (insecure || net_address_is_loopback(address)) {
        return KVS_OK;
    }
    net_address_text(address, text);
    return kvs_fail(KVS_ERR_ARGUMENT,
                    "%s is not a loopback address, and what is sent there is neither encrypted nor "
                    "authenticated: set KVSTORE_INSECURE=1 if everyone on that network is trusted",
                    text);
}

/* ---- Finding addresses ----------------------------------------------------------------------- */

static bool is_inet(const struct sockaddr *address)
{
    return address != NULL && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

static void set(net_address_t *to, const struct sockaddr *from, socklen_t size)
{
    *to = (net_address_t){.size = size};
    memcpy(&to->storage, from, size);
}

bool net_address_parse(const char *host, int port, net_address_t *ret_address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *list = NULL;
    bool good = getaddrinfo(host, NULL, &hints, &list) == 0 && is_inet(list->ai_addr);

    if (good) {
        set(ret_address, list->ai_addr, list->ai_addrlen);
        net_address_set_port(ret_address, port);
    }
    if (list != NULL) {
        freeaddrinfo(list);
    }
    return good;
}

kvs_status_t net_address_resolve(const char *host, int port, net_address_t *ret_addresses,
                                 size_t max, size_t *ret_n)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int error = getaddrinfo(host, NULL, &hints, &list);
    size_t n = 0;

    if (error != 0) {
        return kvs_fail(KVS_ERR_IO, "host '%s': %s", host,
                        error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    }
    for (struct addrinfo *at = list; at != NULL && n < max; at = at->ai_next) {
        if (is_inet(at->ai_addr)) {
            set(&ret_addresses[n], at->ai_addr, at->ai_addrlen);
            net_address_set_port(&ret_addresses[n++], port);
        }
    }
    freeaddrinfo(list);
    *ret_n = n;
    return n > 0 ? KVS_OK : kvs_fail(KVS_ERR_IO, "host '%s' has no IPv4 or IPv6 address", host);
}

static void append_name(char *names, size_t size, const char *name)
{
    size_t used = strlen(names);

    if (strstr(names, name) == NULL) {
        snprintf(names + used, size - used, "%s%s", used == 0 ? "" : ", ", name);
    }
}

/* The better of an interface's addresses: of the family asked for, and not link-local. */
static int goodness(const struct sockaddr *address, int family)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;

    if (!is_inet(address) || (family != 0 && address->sa_family != family)) {
        return 0;
    }
    if (address->sa_family == AF_INET) {
        return 3;
    }
    return IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? 1 : 2;
}

kvs_status_t net_address_of_interface(const char *interface, int family, net_address_t *ret_address)
{
    struct ifaddrs *list = NULL;
    char names[512] = "";
    int best = 0;

    if (getifaddrs(&list) != 0) {
        return kvs_fail(KVS_ERR_IO, "the interfaces of this host: %s", strerror(errno));
    }
    for (struct ifaddrs *at = list; at != NULL; at = at->ifa_next) {
        int good = goodness(at->ifa_addr, family);

        if (good > 0) {
            append_name(names, sizeof(names), at->ifa_name);
        }
        if (good > best && strcmp(at->ifa_name, interface) == 0) {
            best = good;
            set(ret_address, at->ifa_addr,
                at->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                   : sizeof(struct sockaddr_in6));
        }
    }
    freeifaddrs(list);
    return best > 0 ? KVS_OK
                    : kvs_fail(KVS_ERR_NOT_FOUND,
                               "interface '%s' (KVSTORE_INTERFACE) has no address%s; there are: %s",
                               interface,
                               family == AF_INET    ? " of IPv4, as the scheduler's is"
                               : family == AF_INET6 ? " of IPv6, as the scheduler's is"
                                                    : "",
                               names);
}

/* ---- Probing --------------------------------------------------------------------------------- */

static kvs_status_t fail_connect(const net_address_t *to, int cause)
{
    char text[NET_ADDRESS_MAX];

    net_address_text(to, text);
    return kvs_fail(KVS_ERR_IO, "cannot connect to %s: %s (errno %d)", text, strerror(cause),
                    cause);
}

/* The error of a connect in progress, once it has ended. */
static int await_connect(int fd, int64_t deadline, int cancel_fd)
{
    struct pollfd items[2] = {{.fd = fd, .events = POLLOUT}, {.fd = cancel_fd, .events = POLLIN}};
    int error = 0;
    socklen_t size = sizeof(error);
    int n;

    do {
        n = poll(items, 2, net_poll_ms(deadline));
    } while ((n < 0 && errno == EINTR) || (n == 0 && net_now() < deadline));
    if (n == 0) {
        return ETIMEDOUT;
    }
    if (n < 0 || items[0].revents == 0) {
        return ECANCELED;
    }
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/* TCP can connect a port to itself, where nobody listens on a port of the ephemeral range. */
static bool is_to_itself(const net_address_t *to, const net_address_t *own)
{
    return to->size == own->size && net_address_port(to) == net_address_port(own) &&
           (to->storage.ss_family == AF_INET
                ? v4(to)->sin_addr.s_addr == v4(own)->sin_addr.s_addr
                : IN6_ARE_ADDR_EQUAL(&v6(to)->sin6_addr, &v6(own)->sin6_addr));
}

kvs_status_t net_address_probe(const net_address_t *to, int64_t deadline, int cancel_fd,
                               net_address_t *ret_own)
{
    int fd = socket(to->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0;

    if (fd < 0) {
        return fail_connect(to, errno);
    }
    if (connect(fd, (const struct sockaddr *)&to->storage, to->size) != 0) {
        error = errno == EINPROGRESS ? await_connect(fd, deadline, cancel_fd) : errno;
    }
    *ret_own = (net_address_t){.size = sizeof(ret_own->storage)};
    if (error == 0 && getsockname(fd, (struct sockaddr *)&ret_own->storage, &ret_own->size) != 0) {
        error = errno;
    }
    if (error == 0 && is_to_itself(to, ret_own)) {
        error = ECONNREFUSED;
    }
    close(fd);
    net_address_set_port(ret_own, 0);
    return error == 0 ? KVS_OK : fail_connect(to, error);
}

/* ---- This host ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < n; i++) { /* FNV-1a */
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

uint64_t net_host_id(void)
{
    char boot[64] = "";
    struct stat netns = {0};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file != NULL) {
        if (fgets(boot, sizeof(boot), file) == NULL) {
            boot[0] = '\0';
        }
        fclose(file);
    }
    if (boot[0] == '\0') {
        snprintf(boot, sizeof(boot), "%ld", gethostid()); /* no /proc */
    }
    if (stat("/proc/self/ns/net", &netns) != 0) {
        netns.st_ino = 0;
    }
    hash = mix(hash, boot, strlen(boot));
    return mix(hash, &netns.st_ino, sizeof(netns.st_ino));
}

void net_host_name(char name[NET_HOST_MAX])
{
    if (gethostname(name, NET_HOST_MAX) != 0) {
        snprintf(name, NET_HOST_MAX, "?");
    }
    name[NET_HOST_MAX - 1] = '\0';
}

uint64_t net_random(void)
{
    uint64_t value = 0;

    if (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value)) {
        value = (uint64_t)net_now() ^ (uint64_t)getpid() << 32;
    }
    return value == 0 ? 1 : value; /* 0 means none */
}
