/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h - one role of a job in this process, for `kvstore server` and `kvstore scheduler`. */
#ifndef KVS_CLI_SERVE_H
#define KVS_CLI_SERVE_H

/* Parse [--backend NAME] and, for a scheduler, [--address HOST:PORT] [--announce FILE], create a store
 * of the role argv[0], and serve until the job is over. Gives the exit status. */
int serve(int argc, char **argv);

#endif
