/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - see text.h. */
#include "text.h"

#include "clocale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kvs_net_text_add(kvs_net_text_t *text, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = net_c_vsnprintf(text->bytes + text->n, sizeof(text->bytes) - text->n, format, args);
    va_end(args);
    if (n > 0) {
        text->n += (size_t)n;
    }
    if (text->n >= sizeof(text->bytes)) {
        text->n = sizeof(text->bytes) - 1;
        memcpy(text->bytes + text->n - 3, "…", 3);
    }
}

void net_label(char label[NET_LABEL_MAX], int role, int rank, const char *host, int64_t pid)
{
    char number[16] = "";

    if (rank >= 0) {
        snprintf(number, sizeof(number), " %d", rank);
    }
    snprintf(label, NET_LABEL_MAX, "%s%s (host %s, pid %lld)", kvs_net_role_name(role), number,
             host, (long long)pid);
}

const char *net_seconds(char text[32], int64_t ms)
{
    kvs_net_print(text, 32, "%g s", (double)ms / 1000);
    return text;
}

bool net_facts_add(net_facts_t *facts, const char *name, const char *value)
{
    kvs_net_fact_t *grown = realloc(facts->facts, (facts->n + 1) * sizeof(*grown));
    char *name_copy = strdup(name), *value_copy = strdup(value == NULL ? "" : value);

    if (grown != NULL) {
        facts->facts = grown;
    }
    if (grown == NULL || name_copy == NULL || value_copy == NULL) {
        free(name_copy);
        free(value_copy);
        return false;
    }
    facts->facts[facts->n++] = (kvs_net_fact_t){name_copy, value_copy};
    return true;
}

const char *net_facts_find(const net_facts_t *facts, const char *name)
{
    for (size_t i = 0; i < facts->n; i++) {
        if (strcmp(facts->facts[i].name, name) == 0) {
            return facts->facts[i].value;
        }
    }
    return NULL;
}

void net_facts_release(net_facts_t *facts)
{
    for (size_t i = 0; i < facts->n; i++) {
        free((char *)(uintptr_t)facts->facts[i].name); /* ours: strdup gave it */
        free((char *)(uintptr_t)facts->facts[i].value);
    }
    free(facts->facts);
    *facts = (net_facts_t){0};
}
