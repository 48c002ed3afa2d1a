/* SPDX-License-Identifier: Apache-2.0 */
/* dist_profile.h - what a server did when, recorded while workers want it (command 5) and written as a
 * Chrome trace. One thread: the node's. */
#ifndef DIST_PROFILE_H
#define DIST_PROFILE_H

#include <kvstore/plugin.h>

#include <stdbool.h>

typedef struct dist_profile {
    bool runs, paused;
    char file[512]; /* "": the default */
    struct dist_span *spans;
    size_t n, capacity, n_dropped;
} dist_profile_t;

void dist_profile_release(dist_profile_t *profile);
/* Nothing, unless it runs. */
void dist_profile_add(dist_profile_t *profile, const char *name, int64_t begin_ns, int64_t end_ns,
                      uint64_t n_bytes);
/* As MXNet's: a text and a digit. 0: settings "name:value,…", of which `filename` counts, and its last
 * part gets the prefix rankR_; 1: "1" begins, "0" ends; 2: "1" pauses, "0" goes on; 3: write the file.
 * ERR_ARGUMENT; ERR_IO: the file can't be written. */
kvs_status_t dist_profile_command(dist_profile_t *profile, int rank, const char *body, size_t n);

#endif
