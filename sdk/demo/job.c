/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int job_is_there(void)
{
    return getenv("KVSTORE_ROLE") != NULL || getenv("DMLC_ROLE") != NULL ||
           getenv("WORLD_SIZE") != NULL || getenv("OMPI_COMM_WORLD_SIZE") != NULL;
}

/* This program's path, and that of `kvstore`, beside it or found by the shell's rules. */
static void find_programs(const char *argv0, char *self, char *kvstore)
{
    ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);
    char *slash;

    if (n <= 0) {
        snprintf(self, PATH_MAX, "%s", argv0);
        n = (ssize_t)strlen(self);
    }
    self[n] = '\0';
    slash = strrchr(self, '/');
    snprintf(kvstore, PATH_MAX + 16, "%.*skvstore", slash == NULL ? 0 : (int)(slash + 1 - self),
             self);
    if (slash == NULL || access(kvstore, X_OK) != 0) {
        snprintf(kvstore, PATH_MAX + 16, "kvstore");
    }
}

kvs_status_t job_start(const options_t *options, int argc, char **argv)
{
    char self[PATH_MAX], kvstore[PATH_MAX + 16], n_workers[24], n_servers[24];
    const char *head[] = {kvstore,          "run", "-w",     n_workers, "--backend",
                          options->backend, "-s",  n_servers};
    size_t n_head =
        sizeof(head) / sizeof(head[0]) - (options->n_servers == OPTIONS_NO_WORD ? 2 : 0);
    const char **all = calloc(n_head + 2 + (size_t)argc, sizeof(*all));

    if (all == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a command line");
    }
    find_programs(argv[0], self, kvstore);
    snprintf(n_workers, sizeof(n_workers), "%zu", options->n_workers);
    snprintf(n_servers, sizeof(n_servers), "%zu", options->n_servers);
    memcpy(all, head, n_head * sizeof(head[0]));
    all[n_head++] = "--";
    all[n_head++] = self;
    for (int i = 1; i < argc; i++) {
        all[n_head + (size_t)i - 1] = argv[i];
    }
    execvp(kvstore, (char *const *)(uintptr_t)all);
    free(all);
    return kvs_fail(KVS_ERR_IO, "%s, which starts workers and servers, cannot be run: %s", kvstore,
                    strerror(errno));
}
