/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - from one process to several: the program runs itself again under `kvstore run`, which starts
 * servers and workers and tells each of them what it is. */
#ifndef DEMO_JOB_H
#define DEMO_JOB_H

#include "options.h"

/* Whether this process is part of a job already, started by `kvstore run` or by other means. */
int job_is_there(void);
/* Become `kvstore run`, with as many workers and servers as the options say. Returns only if that fails:
 * ERR_IO. */
kvs_status_t job_start(const options_t *options, int argc, char **argv);

#endif
