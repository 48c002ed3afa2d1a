/* SPDX-License-Identifier: Apache-2.0 */
#include "roster.h"

#include "clock.h"

static void write_member(const net_member_t *member, int64_t now, FILE *out)
{
    fprintf(out, "    %s: ", member->label);
    if (member->state == NET_PRESENT) {
        fprintf(out, "heard %.1f s ago\n", (double)(now - member->channel.heard) / 1e9);
    } else {
        fprintf(out, "%s\n", member->state == NET_GONE_DEAD ? "died" : "has left");
    }
}

static void write_group(const net_group_t *group, int64_t now, FILE *out)
{
    fprintf(out, "  group %s: ", group->name);
    if (group->settled) {
        fprintf(out, "%zu of %d workers and %zu of %d servers are there%s%s\n",
                net_group_count(group, KVS_NET_WORKER, NET_PRESENT), group->n_workers,
                net_group_count(group, KVS_NET_SERVER, NET_PRESENT), group->n_servers,
                group->failure == KVS_OK ? "" : "; it has failed: ",
                group->failure == KVS_OK      ? ""
                : group->failure_text == NULL ? "no memory"
                                              : group->failure_text);
    } else {
        kvs_net_text_t text = {.n = 0};

        net_group_missing(group, &text);
        fprintf(out, "%s\n", text.bytes);
    }
    for (size_t i = 0; i < group->n_members; i++) {
        write_member(group->members[i], now, out);
    }
}

void net_roster_write(const net_group_t *groups, FILE *out)
{
    int64_t now = net_now();

    if (groups == NULL) {
        fprintf(out, "  nobody has come yet\n");
    }
    for (; groups != NULL; groups = groups->next) {
        write_group(groups, now, out);
    }
}
