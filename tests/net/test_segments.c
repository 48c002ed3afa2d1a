/* SPDX-License-Identifier: Apache-2.0 */
/* Memory shared by nodes of a host: handed over by name, with the sizes that were agreed, and gates to
 * wait for. Nodes of one process, which share it as processes do; test_sharing.c has processes. */
#include "crowd.h"

#include "node.h"
#include "segment.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB        (UINT64_C(1) << 20)
#define PATIENT_MS 10000

/* Two workers of one host, ready. */
static void open_two(crowd_t *crowd)
{
    crowd_init(crowd, 2, 0);
    crowd_open(crowd);
}

static const kvs_net_peer_t *other(const crowd_t *crowd, int me)
{
    return crowd_peer(&crowd->worker[me], KVS_NET_WORKER, 1 - me);
}

/* ---- Handing over ---------------------------------------------------------------------------- */

static void what_one_writes_the_other_reads(void)
{
    crowd_t crowd;
    kvs_net_segment_t *mine = NULL, *theirs = NULL;
    uint8_t *from, *to;
    size_t n = 3 * MIB + 5, n_wrong = 0, n_set = 0;

    open_two(&crowd);
    KT_TRUE(kvs_net_node_shares_memory(crowd.worker[0].node, other(&crowd, 0)));
    KT_OK(kvs_net_segment_new(crowd.worker[0].node, "arena", n, &mine));
    KT_OK(kvs_net_segment_open(crowd.worker[1].node, other(&crowd, 1), "arena", n, PATIENT_MS,
                               &theirs));
    KT_INT(kvs_net_segment_size(theirs), n);
    from = kvs_net_segment_data(mine);
    to = kvs_net_segment_data(theirs);
    KT_TRUE(from != to);
    KT_TRUE(((uintptr_t)to & 4095) == 0);
    for (size_t i = 0; i < n; i++) {
        n_set += to[i] != 0;
        from[i] = (uint8_t)(i * 7 + i / 253);
    }
    for (size_t i = 0; i < n; i++) {
        n_wrong += to[i] != (uint8_t)(i * 7 + i / 253);
    }
    KT_INT(n_set, 0);
    KT_INT(n_wrong, 0);
    kvs_net_segment_close(mine); /* the other keeps it */
    KT_INT(to[n - 1], (uint8_t)((n - 1) * 7 + (n - 1) / 253));
    kvs_net_segment_close(theirs);
    kvs_net_segment_close(NULL);
    crowd_close(&crowd);
}

static void a_node_opens_its_own_segment(void)
{
    crowd_t crowd;
    kvs_net_segment_t *mine = NULL, *again = NULL;

    open_two(&crowd);
    KT_OK(kvs_net_segment_new(crowd.worker[0].node, "one for all", 1, &mine));
    KT_OK(kvs_net_segment_open(crowd.worker[0].node, kvs_net_node_self(crowd.worker[0].node),
                               "one for all", 0, PATIENT_MS, &again));
    KT_INT(kvs_net_segment_size(again), 1);
    *(char *)kvs_net_segment_data(mine) = 'x';
    KT_INT(*(char *)kvs_net_segment_data(again), 'x');
    kvs_net_segment_close(again);
    kvs_net_segment_close(mine);
    crowd_close(&crowd);
}

typedef struct opening {
    crowd_t *crowd;
    kvs_net_segment_t *segment;
    kvs_status_t status;
    char text[512];
} opening_t;

static void open_late(void *arg)
{
    opening_t *opening = arg;

    opening->status = kvs_net_segment_open(opening->crowd->worker[1].node, other(opening->crowd, 1),
                                           "late", 4096, PATIENT_MS, &opening->segment);
    snprintf(opening->text, sizeof(opening->text), "%s",
             opening->status == KVS_OK ? "" : kvs_last_error());
}

static void whoever_asks_first_waits_until_it_is_made(void)
{
    crowd_t crowd;
    opening_t opening = {.crowd = &crowd};
    kvs_net_segment_t *mine = NULL;
    kt_thread_t thread;

    open_two(&crowd);
    kt_thread_start(&thread, open_late, &opening);
    KT_OK(kvs_net_segment_new(crowd.worker[0].node, "late", 4096, &mine));
    kt_thread_join(&thread);
    KT_INT(opening.status, KVS_OK);
    kvs_net_segment_close(opening.segment);
    kvs_net_segment_close(mine);
    crowd_close(&crowd);
}

static void a_segment_that_is_never_made_is_named_with_its_owner(void)
{
    crowd_t crowd;
    kvs_net_segment_t *segment = NULL;

    open_two(&crowd);
    KT_FAIL(kvs_net_segment_open(crowd.worker[1].node, other(&crowd, 1), "ghost", 1, 50, &segment),
            KVS_ERR_TIMEOUT, "worker 0");
    KT_HAS(kvs_last_error(), "has not made a segment 'ghost' within 0.05 s");
    KT_TRUE(segment == NULL);
    crowd_close(&crowd);
}

static void who_waits_for_a_segment_is_woken_by_cancel(void)
{
    crowd_t crowd;
    opening_t opening = {.crowd = &crowd};
    kt_thread_t thread;

    open_two(&crowd);
    kt_thread_start(&thread, open_late, &opening);
    kvs_net_node_cancel(crowd.worker[1].node);
    kt_thread_join(&thread);
    KT_INT(opening.status, KVS_ERR_CANCELLED);
    KT_HAS(opening.text, "segment 'late'");
    crowd_close(&crowd);
}

static void sizes_have_to_agree(void)
{
    crowd_t crowd;
    kvs_net_segment_t *mine = NULL, *theirs = NULL;

    open_two(&crowd);
    KT_OK(kvs_net_segment_new(crowd.worker[0].node, "arena", 5000, &mine));
    KT_FAIL(kvs_net_segment_open(crowd.worker[1].node, other(&crowd, 1), "arena", 5001, PATIENT_MS,
                                 &theirs),
            KVS_ERR_PEER, "has 5000 bytes, and 5001 are expected");
    KT_OK(kvs_net_segment_open(crowd.worker[1].node, other(&crowd, 1), "arena", 5000, PATIENT_MS,
                               &theirs));
    kvs_net_segment_close(theirs);
    kvs_net_segment_close(mine);
    crowd_close(&crowd);
}

static void wrong_names_and_sizes_are_refused(void)
{
    crowd_t crowd;
    kvs_net_segment_t *segment = NULL, *twice = NULL;
    kvs_net_node_t *node;
    char longest[KVS_NET_SEGMENT_NAME_MAX + 1];

    memset(longest, 'n', sizeof(longest));
    longest[KVS_NET_SEGMENT_NAME_MAX] = '\0';
    open_two(&crowd);
    node = crowd.worker[0].node;
    KT_FAIL(kvs_net_segment_new(node, "", 1, &segment), KVS_ERR_ARGUMENT, "1 to 63 bytes");
    KT_FAIL(kvs_net_segment_new(node, NULL, 1, &segment), KVS_ERR_ARGUMENT, "name");
    KT_FAIL(kvs_net_segment_new(node, longest, 1, &segment), KVS_ERR_ARGUMENT, "1 to 63 bytes");
    KT_FAIL(kvs_net_segment_open(node, other(&crowd, 0), longest, 1, 1, &segment), KVS_ERR_ARGUMENT,
            "1 to 63 bytes");
    KT_FAIL(kvs_net_segment_new(node, "empty", 0, &segment), KVS_ERR_ARGUMENT, "no bytes");
    KT_FAIL(kvs_net_segment_new(node, "all", SIZE_MAX, &segment), KVS_ERR_NO_MEMORY, "bytes");
    KT_FAIL(kvs_net_segment_new(node, "most", SIZE_MAX / 4, &segment), KVS_ERR_NO_MEMORY, "bytes");
    KT_TRUE(segment == NULL);
    longest[KVS_NET_SEGMENT_NAME_MAX - 1] = '\0';
    KT_OK(kvs_net_segment_new(node, longest, 1, &segment));
    KT_FAIL(kvs_net_segment_new(node, longest, 1, &twice), KVS_ERR_EXISTS, "has a segment");
    kvs_net_segment_close(segment);
    KT_OK(kvs_net_segment_new(node, longest, 1, &segment));
    kvs_net_segment_close(segment);
    crowd_close(&crowd);
}

static void switched_off_nothing_is_shared(void)
{
    crowd_t crowd;
    kvs_net_segment_t *segment = NULL;

    crowd_init(&crowd, 2, 0);
    crowd.settings.shm = KVS_NET_SHM_OFF;
    crowd_open(&crowd);
    KT_TRUE(!kvs_net_node_shares_memory(crowd.worker[0].node, other(&crowd, 0)));
    KT_FAIL(kvs_net_segment_new(crowd.worker[0].node, "a", 1, &segment), KVS_ERR_UNAVAILABLE,
            "KVSTORE_SHM=0");
    KT_FAIL(kvs_net_segment_open(crowd.worker[0].node, other(&crowd, 0), "a", 1, 1, &segment),
            KVS_ERR_UNAVAILABLE, "KVSTORE_SHM=0");
    crowd_close(&crowd);
}

static void an_owner_that_has_it_off_is_said_to(void)
{
    crowd_t crowd;
    kvs_net_segment_t *segment = NULL;
    net_peer_t *peer;

    open_two(&crowd);
    peer = (net_peer_t *)(uintptr_t)other(&crowd, 0);
    peer->incarnation++; /* nobody's door */
    KT_FAIL(kvs_net_segment_open(crowd.worker[0].node, other(&crowd, 0), "a", 1, 20, &segment),
            KVS_ERR_TIMEOUT, "it shares no memory (KVSTORE_SHM=0?)");
    peer->incarnation--;
    crowd_close(&crowd);
}

static void beyond_the_limit_of_file_sizes_is_an_error_and_no_signal(void)
{
    crowd_t crowd;
    struct rlimit old, low;
    kvs_net_segment_t *segment = NULL;

    open_two(&crowd);
    getrlimit(RLIMIT_FSIZE, &old);
    low = (struct rlimit){MIB, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &low);
    KT_FAIL(kvs_net_segment_new(crowd.worker[0].node, "large", 2 * MIB, &segment),
            KVS_ERR_NO_MEMORY, "ulimit -f");
    setrlimit(RLIMIT_FSIZE, &old);
    KT_OK(kvs_net_segment_new(crowd.worker[0].node, "large", 2 * MIB, &segment));
    kvs_net_segment_close(segment);
    crowd_close(&crowd);
}

static void segments_left_open_outlive_the_node(void)
{
    crowd_t crowd;
    kvs_net_segment_t *mine = NULL;

    open_two(&crowd);
    KT_OK(kvs_net_segment_new(crowd.worker[0].node, "left", 4096, &mine));
    crowd_close(&crowd);
    memset(kvs_net_segment_data(mine), 1, 4096);
    kvs_net_segment_close(mine);
}

/* ---- Strangers ------------------------------------------------------------------------------- */

/* A memfd of `n_bytes`, sealed or not. */
static int descriptor(size_t n_bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)n_bytes) != 0 ||
        (seals != 0 && fcntl(fd, F_ADD_SEALS, seals) != 0)) {
        perror("memfd");
        exit(1);
    }
    return fd;
}

static void memory_that_could_shrink_or_is_too_small_is_refused(void)
{
    net_memory_t memory = {NULL, 0};
    int soft = descriptor(8192, 0), small = descriptor(4096, F_SEAL_SHRINK | F_SEAL_GROW);
    int pipes[2] = {-1, -1};

    KT_INT(pipe(pipes), 0);
    KT_FAIL(net_memory_map(soft, 8192, &memory), KVS_ERR_PEER, "fixed size");
    KT_FAIL(net_memory_map(pipes[0], 8192, &memory), KVS_ERR_PEER, "fixed size");
    KT_FAIL(net_memory_map(small, 4097, &memory), KVS_ERR_PEER,
            "4097 bytes are announced, and 4096 are there");
    KT_FAIL(net_memory_map(small, 0, &memory), KVS_ERR_PEER, "announced");
    KT_FAIL(net_memory_map(small, SIZE_MAX, &memory), KVS_ERR_PEER, "announced");
    KT_TRUE(memory.data == NULL);
    KT_OK(net_memory_map(small, 4096, &memory));
    net_memory_unmap(&memory);
    net_memory_unmap(&memory);
    close(soft);
    close(small);
    close(pipes[0]);
    close(pipes[1]);
}

static void what_comes_to_the_door_and_is_no_note_is_passed_over(void)
{
    net_note_t note = {.kind = NET_NOTE_ASK, .name = "x"}, got = {.kind = 0};
    net_door_address_t to = net_door_address(77), from;
    int door = -1, stranger = -1, fd = 0, sent;

    KT_OK(net_door_open(77, &door));
    KT_OK(net_door_open(0, &stranger));
    KT_TRUE(!net_door_receive(door, &got, &from, &fd));
    sent = (int)sendto(stranger, "hello", 5, 0, (const struct sockaddr *)&to.name, to.size);
    KT_INT(sent, 5);
    KT_INT(net_door_send(stranger, &to, &note, stranger), 0);
    KT_TRUE(net_door_receive(door, &got, &from, &fd));
    KT_INT(got.kind, NET_NOTE_ASK);
    KT_STR(got.name, "x");
    KT_TRUE(fd >= 0);
    close(fd);
    KT_TRUE(!net_door_receive(door, &got, &from, &fd));
    KT_INT(net_door_send(door, &from, &note, -1), 0);
    KT_TRUE(net_door_receive(stranger, &got, &from, &fd));
    KT_INT(fd, -1);
    close(door);
    KT_TRUE(net_door_send(stranger, &to, &note, -1) != 0);
    close(stranger);
}

/* No note, but with a descriptor: it is closed, and nobody is given its number. */
static void a_descriptor_without_a_note_is_closed_once(void)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    net_door_address_t to = net_door_address(78), from;
    struct iovec part = {(char[]){"hello"}, 5};
    struct msghdr message = {.msg_name = &to.name,
                             .msg_namelen = to.size,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    int door = -1, stranger = -1, fd = 0;
    net_note_t got;

    KT_OK(net_door_open(78, &door));
    KT_OK(net_door_open(0, &stranger));
    *CMSG_FIRSTHDR(&message) = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &stranger, sizeof(stranger));
    KT_INT(sendmsg(stranger, &message, 0), 5);
    KT_TRUE(!net_door_receive(door, &got, &from, &fd));
    KT_INT(fd, -1);
    close(door);
    close(stranger);
}

/* ---- Gates ----------------------------------------------------------------------------------- */

#define N_ROUNDS 2000

typedef struct player {
    crowd_t *crowd;
    int me;
    kvs_net_gate_t *mine, *theirs;
    uint32_t begin;
    uint32_t *ball; /* plain memory that the gates guard */
    uint32_t n_wrong;
    kvs_status_t status;
} player_t;

/* Take turns: each adds one when the other has. */
static void play(void *arg)
{
    player_t *player = arg;

    for (uint32_t i = 1; i <= N_ROUNDS && player->status == KVS_OK; i++) {
        uint32_t wait_for = player->begin + i - (player->me == 0 ? 1 : 0);

        player->status = kvs_net_gate_wait(player->crowd->worker[player->me].node, player->theirs,
                                           wait_for, other(player->crowd, player->me), PATIENT_MS);
        player->n_wrong += *player->ball != 2 * (i - 1) + (uint32_t)player->me;
        ++*player->ball;
        kvs_net_gate_raise(player->mine, player->begin + i);
    }
}

/* Gates begin near the end of their numbers, so that they go past it. */
static void gates_pass_the_turn_to_and_fro(void)
{
    crowd_t crowd;
    kvs_net_segment_t *segment = NULL;
    kvs_net_gate_t *gates;
    player_t players[2];
    kt_thread_t threads[2];

    open_two(&crowd);
    KT_OK(kvs_net_segment_new(crowd.worker[0].node, "gates", 4096, &segment));
    gates = kvs_net_segment_data(segment);
    for (int i = 0; i < 2; i++) {
        kvs_net_gate_raise(&gates[8 * i], UINT32_MAX - 100);
        players[i] = (player_t){.crowd = &crowd,
                                .me = i,
                                .mine = &gates[8 * i],
                                .theirs = &gates[8 * (1 - i)],
                                .begin = UINT32_MAX - 100,
                                .ball = (uint32_t *)kvs_net_segment_data(segment) + 100};
    }
    for (int i = 0; i < 2; i++) {
        kt_thread_start(&threads[i], play, &players[i]);
    }
    for (int i = 0; i < 2; i++) {
        kt_thread_join(&threads[i]);
        KT_INT(players[i].status, KVS_OK);
        KT_INT(players[i].n_wrong, 0);
    }
    KT_INT(*players[0].ball, 2 * N_ROUNDS);
    kvs_net_segment_close(segment);
    crowd_close(&crowd);
}

typedef struct waiting {
    crowd_t *crowd;
    kvs_net_gate_t *gate;
    kvs_status_t status;
    char text[512];
} waiting_t;

static void wait_at_gate(void *arg)
{
    waiting_t *waiting = arg;

    waiting->status =
        kvs_net_gate_wait(waiting->crowd->worker[1].node, waiting->gate, 1, NULL, PATIENT_MS);
    snprintf(waiting->text, sizeof(waiting->text), "%s",
             waiting->status == KVS_OK ? "" : kvs_last_error());
}

static bool somebody_sleeps(void *arg)
{
    return __atomic_load_n(&((kvs_net_gate_t *)arg)->n_sleepers, __ATOMIC_SEQ_CST) > 0;
}

static void a_sleeper_is_woken_by_the_gate_and_by_cancel(void)
{
    crowd_t crowd;
    kvs_net_segment_t *segment = NULL;
    kt_thread_t thread;
    waiting_t waiting = {.crowd = &crowd};

    open_two(&crowd);
    KT_OK(kvs_net_segment_new(crowd.worker[0].node, "gates", 4096, &segment));
    waiting.gate = kvs_net_segment_data(segment);
    kt_thread_start(&thread, wait_at_gate, &waiting);
    kt_until(somebody_sleeps, waiting.gate, "a sleeper");
    KT_INT(kvs_net_gate_add(waiting.gate, 1), 1);
    kt_thread_join(&thread);
    KT_INT(waiting.status, KVS_OK);
    KT_INT(waiting.gate->n_sleepers, 0);

    waiting.gate += 8;
    kt_thread_start(&thread, wait_at_gate, &waiting);
    kt_until(somebody_sleeps, waiting.gate, "a sleeper");
    kvs_net_node_cancel(crowd.worker[1].node);
    kt_thread_join(&thread);
    KT_INT(waiting.status, KVS_ERR_CANCELLED);
    KT_HAS(waiting.text, "cancelled while waiting");
    kvs_net_segment_close(segment);
    crowd_close(&crowd);
}

static void a_gate_that_is_never_raised_is_a_time_out_naming_the_peer(void)
{
    crowd_t crowd;
    kvs_net_gate_t gate = {0, 0};

    open_two(&crowd);
    KT_FAIL(kvs_net_gate_wait(crowd.worker[0].node, &gate, 1, other(&crowd, 0), 20),
            KVS_ERR_TIMEOUT, "worker 1");
    KT_FAIL(kvs_net_gate_wait(crowd.worker[0].node, &gate, 1, NULL, 0), KVS_ERR_TIMEOUT,
            "other processes");
    KT_OK(kvs_net_gate_wait(crowd.worker[0].node, &gate, 0, NULL, 0));
    KT_INT(gate.n_sleepers, 0);
    crowd_close(&crowd);
}

static const kt_test_t tests[] = {
    KT_TEST(what_one_writes_the_other_reads),
    KT_TEST(a_node_opens_its_own_segment),
    KT_TEST(whoever_asks_first_waits_until_it_is_made),
    KT_TEST(a_segment_that_is_never_made_is_named_with_its_owner),
    KT_TEST(who_waits_for_a_segment_is_woken_by_cancel),
    KT_TEST(sizes_have_to_agree),
    KT_TEST(wrong_names_and_sizes_are_refused),
    KT_TEST(switched_off_nothing_is_shared),
    KT_TEST(an_owner_that_has_it_off_is_said_to),
    KT_TEST(beyond_the_limit_of_file_sizes_is_an_error_and_no_signal),
    KT_TEST(segments_left_open_outlive_the_node),
    KT_TEST(memory_that_could_shrink_or_is_too_small_is_refused),
    KT_TEST(what_comes_to_the_door_and_is_no_note_is_passed_over),
    KT_TEST(a_descriptor_without_a_note_is_closed_once),
    KT_TEST(gates_pass_the_turn_to_and_fro),
    KT_TEST(a_sleeper_is_woken_by_the_gate_and_by_cancel),
    KT_TEST(a_gate_that_is_never_raised_is_a_time_out_naming_the_peer),
};

KT_MAIN("segments", tests)
