/* SPDX-License-Identifier: Apache-2.0 */
/* mutants.c - mutations by name. */
#include "mutants.h"

#include <string.h>

const char *const mutation_names[N_MUTATIONS] = {
    [NONE] = "",
#define MUTATION_NAME(name, id) [M_##name] = #name,
    WEIGHTS_MUTATIONS(MUTATION_NAME) EXCHANGE_MUTATIONS(MUTATION_NAME)
        REDUCE_MUTATIONS(MUTATION_NAME) KIT_MUTATIONS(MUTATION_NAME) ASYNC_MUTATIONS(MUTATION_NAME)
            COMPRESSION_MUTATIONS(MUTATION_NAME) ASYNC_COMPRESSION_MUTATIONS(MUTATION_NAME)
                ROWS_MUTATIONS(MUTATION_NAME)
#undef MUTATION_NAME
};

mutation_t mutation_of(const char *type)
{
    static const char prefix[] = "mutant_";
    const char *name = type + sizeof(prefix) - 1;

    if (strncmp(type, prefix, sizeof(prefix) - 1) != 0) {
        return NONE;
    }
    const char *rest = strstr(name, "__");
    size_t n = rest != NULL ? (size_t)(rest - name) : strlen(name);

    for (int i = 0; i < N_MUTATIONS; i++) {
        if (strlen(mutation_names[i]) == n && memcmp(mutation_names[i], name, n) == 0) {
            return (mutation_t)i;
        }
    }
    return NONE;
}
