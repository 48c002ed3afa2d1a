/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c - see environment.h. log.c can't use this: it is used here. */
#include "environment.h"

#include "log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

int kvsi_is_secure(void)
{
    return getauxval(AT_SECURE) != 0;
}

/* Whether `name` is mentioned for the first time; when the table is full, each is, and where another
 * thread looks too, which in a forked child may never end. */
static int is_first_mention(const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char told[32][48]; /* guarded by lock, as is n_told */
    static size_t n_told;
    int is_first = 1;

    if (pthread_mutex_trylock(&lock) != 0) {
        return 1;
    }
    for (size_t i = 0; i < n_told; i++) {
        is_first &= strncmp(told[i], name, sizeof(told[i]) - 1) != 0;
    }
    if (is_first && n_told < sizeof(told) / sizeof(told[0])) {
        snprintf(told[n_told++], sizeof(told[0]), "%s", name);
    }
    pthread_mutex_unlock(&lock);
    return is_first;
}

const char *kvsi_env(const char *name)
{
    if (!kvsi_is_secure()) {
        return getenv(name);
    }
    /* Everybody has a HOME: that the user's files are not read is worth a line only if asked for. */
    if (getenv(name) != NULL && is_first_mention(name)) {
        kvsi_log(strncmp(name, "KVSTORE_", 8) == 0 ? KVS_LOG_WARN : KVS_LOG_INFO, "environment",
                 "%s is ignored in secure execution", name);
    }
    return NULL;
}
