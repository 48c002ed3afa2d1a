/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_scheduler.c - `kvstore scheduler`: this process is a scheduler of a job until the job is over. */
#include "commands.h"
#include "serve.h"

int cmd_scheduler(int argc, char **argv)
{
    return serve(argc, argv);
}
