/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wire.c - any bytes as a frame between nodes: it is refused with a text, or read, and what was read
 * is written again as the very same bytes. Seeds lie in seeds/wire: one frame of each type. */
#include "wire.h"
#include "fuzz_host.h"

#define MAX_MEMBERS 4096

static net_wire_list_t facts_of(const net_wire_t *wire)
{
    return wire->type == NET_HELLO ? wire->as.hello.facts
           : wire->type == NET_STORE_OPEN || wire->type == NET_STORE_ANNOUNCE
               ? wire->as.store.facts
               : (net_wire_list_t){NULL, 0};
}

static void check_written_again(const net_wire_t *wire, const uint8_t *data, size_t n_bytes)
{
    static kvs_net_fact_t facts[NET_WIRE_MAX_FACTS];
    static net_wire_member_t members[MAX_MEMBERS];
    net_wire_lists_t lists = {.facts = facts, .members = members};
    net_wire_list_t list = facts_of(wire);
    uint8_t *again;

    while (net_wire_next_fact(&list, &facts[lists.n_facts])) {
        lists.n_facts++;
    }
    list = wire->type == NET_WELCOME ? wire->as.welcome.members : (net_wire_list_t){NULL, 0};
    while (lists.n_members < MAX_MEMBERS &&
           net_wire_next_member(&list, &members[lists.n_members])) {
        lists.n_members++;
    }
    if (list.n > 0) {
        return; /* more than we have room for */
    }
    require(net_wire_size(wire, &lists) == n_bytes);
    again = malloc(n_bytes);
    net_wire_encode(wire, &lists, again);
    require(memcmp(again, data, n_bytes) == 0);
    free(again);
}

static void check_data(const net_data_t *data, const uint8_t *frame, size_t n_bytes)
{
    require(data->header >= frame && data->header + data->n_header <= frame + n_bytes);
    require(data->n_inline == 0 ||
            (data->n_inline == data->n_body && data->body + data->n_inline == frame + n_bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    net_wire_t wire;
    kvs_status_t status;

    last_text[0] = '\0';
    status = net_wire_decode(data, n_bytes, &wire);
    require(status == KVS_OK || last_text[0] != '\0');
    require(net_wire_name(wire.type) != NULL);
    if (status == KVS_OK && wire.type == NET_DATA) {
        check_data(&wire.as.data, data, n_bytes);
    } else if (status == KVS_OK) {
        check_written_again(&wire, data, n_bytes);
    } else {
        require(status == KVS_ERR_FORMAT || status == KVS_ERR_NOT_IMPLEMENTED);
    }
    return 0;
}
