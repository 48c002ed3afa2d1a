/* SPDX-License-Identifier: Apache-2.0 */
/* door.c - the kernel writes the sender's user beside each note (SCM_CREDENTIALS). */
#include "door.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_STRANGERS 64 /* passed over in one go */

net_door_address_t net_door_address(uint64_t incarnation)
{
    net_door_address_t address = {.name.sun_family = AF_UNIX};
    int n = snprintf(address.name.sun_path + 1, sizeof(address.name.sun_path) - 1,
                     "kvstore-shm-%ld-%016llx", (long)getuid(), (unsigned long long)incarnation);

    address.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    return address;
}

kvs_status_t net_door_open(uint64_t incarnation, int *ret_fd)
{
    net_door_address_t address = net_door_address(incarnation);
    socklen_t size = incarnation == 0 ? sizeof(sa_family_t) : address.size; /* bare: any name */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1, cause;

    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
        bind(fd, (const struct sockaddr *)&address.name, size) == 0) {
        *ret_fd = fd;
        return KVS_OK;
    }
    cause = errno;
    if (fd >= 0) {
        close(fd);
    }
    return kvs_fail(KVS_ERR_IO, "a Unix socket for shared memory: %s", strerror(cause));
}

typedef union control {
    char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
} control_t;

int net_door_send(int door, const net_door_address_t *to, const net_note_t *note, int fd)
{
    net_door_address_t name = *to;
    net_note_t copy = *note;
    struct iovec part = {&copy, sizeof(copy)};
    control_t control = {{0}};
    struct msghdr message = {
        .msg_name = &name.name, .msg_namelen = name.size, .msg_iov = &part, .msg_iovlen = 1};

    copy.magic = NET_NOTE_MAGIC;
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int));
        *CMSG_FIRSTHDR(&message) = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof(fd));
    }
    return sendmsg(door, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 0 : errno;
}

/* Of the descriptors that came, the first is kept. */
static void take_descriptors(const struct cmsghdr *header, int *io_fd)
{
    size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

    for (size_t i = 0; i < n; i++) {
        int fd;

        memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
        if (*io_fd < 0) {
            *io_fd = fd;
        } else {
            close(fd);
        }
    }
}

/* What came beside the note: whether it is of this user, and the descriptor. */
static bool read_control(struct msghdr *message, int *ret_fd)
{
    struct ucred user;
    bool ours = false;

    *ret_fd = -1;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at != NULL; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS) {
            take_descriptors(at, ret_fd);
        } else if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&user, CMSG_DATA(at), sizeof(user));
            ours = user.uid == getuid();
        }
    }
    return ours;
}

/* Strangers who send without end don't keep us: the door is still readable. */
bool net_door_receive(int door, net_note_t *ret_note, net_door_address_t *ret_from, int *ret_fd)
{
    *ret_fd = -1;
    for (int i = 0; i < MOST_STRANGERS; i++) {
        control_t control = {{0}};
        struct iovec part = {ret_note, sizeof(*ret_note)};
        struct msghdr message = {.msg_name = &ret_from->name,
                                 .msg_namelen = sizeof(ret_from->name),
                                 .msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes)};
        ssize_t n = recvmsg(door, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return false;
        }
        ret_from->size = message.msg_namelen;
        if (read_control(&message, ret_fd) && n == (ssize_t)sizeof(*ret_note) &&
            ret_note->magic == NET_NOTE_MAGIC) {
            ret_note->name[NET_NOTE_PAYLOAD - 1] = '\0';
            return true;
        }
        if (*ret_fd >= 0) {
            close(*ret_fd);
            *ret_fd = -1;
        }
    }
    return false;
}
