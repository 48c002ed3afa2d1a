/* SPDX-License-Identifier: Apache-2.0 */
/* run_demo.h - kvstore-demo, which is $KVSTORE_DEMO, run on a tiny data set, and what it said. */
#ifndef RUN_DEMO_H
#define RUN_DEMO_H

/* Run it with these variables ("A=b C=d") and options; its words, errors too, are in run_demo_output.
 * Gives the exit status. */
int run_demo(const char *environment, const char *options);
extern char run_demo_output[1 << 16];
/* Where the data and, in its directory `out`, the pictures of the last run are. */
const char *run_demo_dir(void);
/* The 64 digits behind "weights sha256 " in the output; the test fails if there are none. */
const char *run_demo_hash(void);

#endif
