/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - addresses as text and as the system has them; which one to announce; what this host is.
 *
 * The address to announce is the one that routes to the scheduler, unless a host or an interface is
 * given. This host's own name is never looked up: it is for people only. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <kvstore/net.h>

#include <stdbool.h>
#include <sys/socket.h>

#define NET_HOST_MAX    256
#define NET_ADDRESS_MAX 80 /* of a numeric one with its port */

typedef struct net_address {
    struct sockaddr_storage storage;
    socklen_t size;
} net_address_t;

/* "host:port", "[v6]:port" -> "host" (no brackets) and the port. ERR_ARGUMENT, with the text given. */
kvs_status_t net_address_split(const char *text, char host[NET_HOST_MAX], int *ret_port);
/* Every address of a name, numeric ones too. ERR_IO with the resolver's cause. */
kvs_status_t net_address_resolve(const char *host, int port, net_address_t *ret_addresses,
                                 size_t max, size_t *ret_n);
/* The address of an interface, of `family` if that is not 0. ERR_NOT_FOUND lists those there are. */
kvs_status_t net_address_of_interface(const char *interface, int family,
                                      net_address_t *ret_address);
/* An address in numbers, without asking anybody; false: it is a name, or nothing. */
bool net_address_parse(const char *host, int port, net_address_t *ret_address);
bool net_address_is_loopback(const net_address_t *address);
bool net_address_is_any(const net_address_t *address);
int net_address_port(const net_address_t *address);
void net_address_set_port(net_address_t *address, int port);
/* "10.0.0.5" or "::1"; and "10.0.0.5:99", "[::1]:99". */
void net_address_host(const net_address_t *address, char text[NET_ADDRESS_MAX]);
void net_address_text(const net_address_t *address, char text[NET_ADDRESS_MAX]);

/* ERR_ARGUMENT for an address other than loopback, unless `insecure`; it names the setting. */
kvs_status_t net_address_check_allowed(const net_address_t *address, bool insecure);

/* Open a connection, at most until `deadline` or until `cancel_fd` is readable (-1: none), close it
 * again, and give the own address of it: the one that routes there. ERR_IO: address, port, errno. */
kvs_status_t net_address_probe(const net_address_t *to, int64_t deadline, int cancel_fd,
                               net_address_t *ret_own);

/* The same number for all processes that share a boot and a network namespace: loopback connects them. */
uint64_t net_host_id(void);
void net_host_name(char name[NET_HOST_MAX]);
uint64_t net_random(void);

#endif
